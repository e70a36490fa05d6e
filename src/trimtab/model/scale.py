"""LossScale: losses as numbers of about unit variance, in which disasters do not hide differences of a few per cent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["LossScale"]

Array = NDArray[np.float64]


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

    def backward(self, values: Array) -> Array:
        """Losses (n,) of numbers on the scale: the inverse of `forward`."""
        squeezed = values * self.scale + self.shift
        u = np.where(squeezed > 1.0, np.exp(np.maximum(squeezed, 1.0) - 1.0), squeezed)
        return np.asarray(self.middle + self.spread * u)

    def variance(self, losses: Array, se: Array) -> Array:
        """Noise variances on the scale of losses with standard errors `se`, to first order."""
        u = (losses - self.middle) / self.spread
        slope = 1.0 / (np.maximum(u, 1.0) * self.spread * self.scale)
        return np.asarray((slope * se) ** 2)
