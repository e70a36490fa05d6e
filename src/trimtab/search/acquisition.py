"""What a measurement at a point is worth: the logarithm of the expected improvement, and the scale of losses for it.

Sources: D. Jones, M. Schonlau, W. Welch, "Efficient Global Optimization of Expensive Black-Box Functions", J. Global
Optimization 13 (1998), eq. 15; S. Ament et al., "Unexpected Improvements to Expected Improvement for Bayesian
Optimization", NeurIPS 2023, eq. 9 (a logarithm that does not underflow); M. Gelbart, J. Snoek, R. Adams, "Bayesian
Optimization with Unknown Constraints", UAI 2014 (improvement weighted by the probability of being feasible).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

__all__ = ["LossScale", "log_expected_improvement"]

Array = NDArray[np.float64]

_ROOT_HALF_PI = math.sqrt(math.pi / 2.0)
_LOG_ROOT_2PI = 0.5 * math.log(2.0 * math.pi)
_FAR = -1e6
"""Below this u, 1 - |u|·√(π/2)·erfcx(|u|/√2) loses all digits; it tends to 1/u²."""


def log_expected_improvement(mean: Array, sd: Array, incumbent: float) -> Array:
    """log E[max(incumbent - f, 0)] for f ~ N(mean, sd²), elementwise; finite for every finite mean and sd > 0."""
    u = (incumbent - mean) / sd
    near = u > -1.0
    result = np.empty_like(u)
    result[near] = np.log(np.exp(-0.5 * u[near] ** 2 - _LOG_ROOT_2PI) + u[near] * special.ndtr(u[near]))
    far = ~near
    size = np.abs(u[far])
    remainder = 1.0 - size * _ROOT_HALF_PI * special.erfcx(size / math.sqrt(2.0))
    remainder = np.where(u[far] < _FAR, size**-2.0, np.maximum(remainder, size**-2.0 * 1e-3))
    result[far] = -0.5 * size**2 - _LOG_ROOT_2PI + np.log(remainder)
    return result + np.log(sd)


@dataclass(frozen=True, slots=True)
class LossScale:
    """A monotone map of losses to numbers of about unit variance in which very bad losses are compressed.

    A config that is a hundred times slower must not decide how the model sees differences of a few per cent: what is
    worse than the middle by more than one spread of the better half grows only logarithmically.

    Attributes:
        middle: median loss.
        spread: spread of the better half around it.
        shift, scale: mean and standard deviation after compression.
    """

    middle: float
    spread: float
    shift: float
    scale: float

    @classmethod
    def of(cls, losses: Array) -> LossScale:
        """The scale for these losses, (n,) with n >= 1 and all finite."""
        middle = float(np.median(losses))
        better = losses[losses <= middle] - middle
        spread = max(float(np.sqrt((better**2).mean())), 1e-3)
        squeezed = cls(middle, spread, 0.0, 1.0).forward(losses)
        return cls(middle, spread, float(squeezed.mean()), max(float(squeezed.std()), 1e-3))

    def forward(self, losses: Array) -> Array:
        """Losses (n,) on the scale."""
        u = (losses - self.middle) / self.spread
        squeezed = np.where(u > 1.0, 1.0 + np.log(np.maximum(u, 1.0)), u)
        return np.asarray((squeezed - self.shift) / self.scale)

    def variance(self, losses: Array, se: Array) -> Array:
        """Noise variances on the scale of losses with standard errors `se`, to first order."""
        u = (losses - self.middle) / self.spread
        slope = 1.0 / (np.maximum(u, 1.0) * self.spread * self.scale)
        return np.asarray((slope * se) ** 2)
