"""Which kernel: hyper-parameters of greatest posterior density, chosen among priors by what they predict of points left out.

    symbol   meaning
    theta    (log ρ, log λ, log s², log τ²), see gaussian_process
    g, b     how often each point was acceptable, and was not, (n,)
    κ        how sharp the border of what is acceptable is

The classifier's kernel has the shape that a regression of the shares g / (g + b) finds (which features matter, and how fast); κ
is the one of the largest evidence. A regression alone would draw a ramp where there is a cliff.

Sources: C. Rasmussen, C. Williams, "Gaussian Processes for Machine Learning", 2006, eq. 5.8 to 5.12; C. Hvarfner et al.,
"Vanilla Bayesian Optimization Performs Great in High Dimensions", ICML 2024 (length scales grow with the square root of
the dimension); D. Eriksson, M. Jankowiak, "High-Dimensional Bayesian Optimization with Sparse Axis-Aligned Subspaces",
UAI 2021 (half-Cauchy tails, so that few knobs may matter much).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # its optimizers, a quarter of a second to load, come on first use
from numpy.typing import NDArray

from trimtab.model.gaussian_process import (
    LEAST_NOISE,
    NO_MAIN,
    WAVES,
    Hyper,
    Posterior,
    basis_of,
    cholesky,
    classifier,
    matern,
    solved,
    squared_distances,
)  # fmt: skip

__all__ = ["Frame", "HyperPrior", "fit_among", "fit_feasibility", "fit_hyper", "objective", "sharpest"]

Array = NDArray[np.float64]

_BELOW, _ABOVE = 12.0, 6.0
"""How far logarithms of ρ, λ and τ² may go from their prior's centre; beyond it nothing changes but overflow."""

_SIGNAL_ABOVE = 3.0

_HANDICAP = 4.0
"""By how much the log density of all left-out measurements must be greater before main effects are given up: of few points the
comparison is mostly chance, and main effects are the usual case."""

_ISOTROPIC = 3.2
"""log ρ of the model without main effects, less that which keeps distances the same in any dimension: length scale 1 at 25
features."""

_SHARPNESS = (3.0, 6.0, 12.0, 24.0, 48.0)
"""κ to choose from: the logit changes by about so much across the space."""

_LEAST_SPREAD = 1e-3


@dataclass(frozen=True, slots=True)
class Frame:
    """What multiplies the covariance of n points elementwise, and what is then added to it: (n, n) each."""

    factor: Array
    offset: Array


@dataclass(frozen=True, slots=True)
class HyperPrior:
    """Where the hyper-parameters are expected: log ρ and log λ ~ Cauchy, log s² and log τ² ~ normal.

    The constants hold for standardised y; they were chosen on `trimtab.testing.surfaces` (see docs/measurements/search-tried.md).
    """

    relevance_at: float
    main_at: float
    effect_spread: float = 1.5
    signal_at: float = -0.7
    signal_spread: float = 1.0
    nugget_at: float = -4.0
    nugget_spread: float = 1.5
    handicap: float = 0.0

    @classmethod
    def of(cls, n_features: int) -> HyperPrior:
        """The prior for `n_features`: what all features do together does not depend on how many there are."""
        share = -math.log(max(1, n_features))
        return cls(relevance_at=share, main_at=share + 1.0)

    @classmethod
    def anisotropic(cls, n_features: int) -> HyperPrior:
        """The weak prior of a model without main effects: one length scale for each feature, about that of its range."""
        relevance = min(0.0, _ISOTROPIC - math.log(max(1, n_features)))
        return cls(relevance_at=relevance, main_at=NO_MAIN, signal_at=0.0, handicap=_HANDICAP)

    def centre(self, n_features: int) -> Array:
        """The centre, as one vector (2f + 2,)."""
        centres = np.array([self.relevance_at, self.main_at, self.signal_at, self.nugget_at])
        return np.repeat(centres, [n_features, n_features, 1, 1])

    def penalty(self, theta: Array) -> tuple[float, Array]:
        """-log prior up to a constant, and its gradient (2f + 2,)."""
        gap = theta - self.centre((len(theta) - 2) // 2)
        t = gap[:-2] / self.effect_spread
        spreads = np.array([self.signal_spread, self.nugget_spread])
        rest = gap[-2:] / spreads
        value = float(np.log1p(t * t).sum()) + 0.5 * float(rest @ rest)
        return value, np.concatenate((2.0 * t / (1.0 + t * t) / self.effect_spread, rest / spreads))


def fit_hyper(
    x: Array,
    y: Array,
    v: Array,
    *,
    max_steps: int = 40,
    frame: Frame | None = None,
    priors: Sequence[HyperPrior] = (),
) -> Hyper:
    """Hyper-parameters of greatest posterior density (MAP), by L-BFGS-B from the prior's centre.

    Args:
        x, y, v: as for `Posterior`; the cost of one step grows with n³ + n²f.
        max_steps: iterations of the optimiser; fewer only makes the fit rougher.
        frame: what the kernel is part of; None: it is the whole covariance.
        priors: as for `fit_among`. None: `HyperPrior.of`.
    """
    return fit_among(x, y, v, priors or (HyperPrior.of(x.shape[1]),), max_steps=max_steps, frame=frame)[0]


def fit_among(
    x: Array,
    y: Array,
    v: Array,
    priors: Sequence[HyperPrior],
    *,
    max_steps: int = 40,
    frame: Frame | None = None,
    start: Hyper | None = None,
) -> tuple[Hyper, HyperPrior]:
    """Hyper-parameters and the prior of `priors` that they belong to.

    Args:
        x, y, v, max_steps, frame: as for `fit_hyper`.
        priors: to choose from, by the log density of all measurements when each is left out, less the prior's handicap. Each
            costs one more search.
        start: where the search begins, an earlier result for the same prior; None: at the prior's centre.
    """
    found = [_searched(x, y, v, prior, max_steps, frame, start) for prior in priors]
    if len(found) == 1:
        return found[0], priors[0]

    def score(number: int) -> float:
        return len(y) * Posterior(x, y, v, found[number]).left_out_density() - priors[number].handicap

    best = max(range(len(found)), key=score)
    return found[best], priors[best]


def _searched(
    x: Array, y: Array, v: Array, prior: HyperPrior, max_steps: int, frame: Frame | None, begin: Hyper | None
) -> Hyper:
    """The least objective that L-BFGS-B finds from `begin`, or else from the centre of `prior`."""
    start = prior.centre(x.shape[1])
    above = np.full(len(start), _ABOVE)
    above[-2] = _SIGNAL_ABOVE
    below = np.full(len(start), _BELOW)
    if prior.main_at == NO_MAIN:
        f = x.shape[1]
        below[f : 2 * f] = above[f : 2 * f] = 0.0
    found = scipy.optimize.minimize(
        objective,
        start if begin is None else begin.vector,
        args=(x, y, v, prior, frame, basis_of(x)),
        jac=True,
        method="L-BFGS-B",
        bounds=scipy.optimize.Bounds(start - below, start + above),
        options={"maxiter": max_steps},
    )
    return Hyper.from_vector(np.asarray(found.x))


def objective(
    theta: Array,
    x: Array,
    y: Array,
    v: Array,
    prior: HyperPrior,
    frame: Frame | None = None,
    basis: Array | None = None,
) -> tuple[float, Array]:
    """Negative log posterior density of theta = (log ρ, log λ, log s², log τ²) and its gradient, GPML eq. 5.8, 5.9.

    Whoever asks often gives the `basis_of` x.
    """
    hyper = Hyper.from_vector(theta)
    n, f = x.shape
    has_main, relevance, main = hyper.has_main, hyper.relevance, hyper.main
    correlation, slope = matern(squared_distances(x, x, relevance))
    basis = basis_of(x) if basis is None else basis
    k = hyper.signal * correlation
    if has_main:
        k += (basis * np.tile(main, WAVES)) @ basis.T
    if frame is not None:
        k = frame.factor * k + frame.offset
    np.einsum("ii->i", k)[:] += v + hyper.nugget + LEAST_NOISE
    root = cholesky(k)
    inverse = solved(root, np.eye(n))
    ones = inverse.sum(axis=1)
    residual = y - ones @ y / ones.sum()
    alpha = inverse @ residual
    weights = inverse - alpha[:, None] * alpha
    by_nugget = float(np.trace(weights))
    if frame is not None:
        weights = weights * frame.factor
    # dK/dr² = -(5/6) s² (1 + √5 r) exp(-√5 r); Σ_ab A_ab (x_aj - x_bj)² without an (n, n, f) array.
    a = weights * slope * (-5.0 / 6.0 * hyper.signal)
    by_relevance = 2.0 * ((x * x).T @ a.sum(axis=1)) - 2.0 * np.einsum("ij,ij->j", x, a @ x)
    by_main = np.zeros(f)
    if has_main:
        by_main = np.einsum("ij,ij->j", basis, weights @ basis).reshape(WAVES, f).sum(axis=0)
    rest = (hyper.signal * float((weights * correlation).sum()), hyper.nugget * by_nugget)
    gradient = 0.5 * np.concatenate((relevance * by_relevance, main * by_main, rest))
    value = 0.5 * float(residual @ alpha) + float(np.log(np.diag(root)).sum())
    penalty, penalty_slope = prior.penalty(theta)
    return value + penalty, gradient + penalty_slope


def sharpest(x: Array, good: Array, bad: Array, hyper: Hyper) -> float:
    """The κ of the largest evidence."""
    return max(_SHARPNESS, key=lambda kappa: classifier(x, good, bad, hyper, kappa)[1])


def fit_feasibility(x: Array, good: Array, bad: Array) -> tuple[Hyper, float]:
    """Kernel and sharpness for `x`, `good` and `bad` as for a `classifier`."""
    share = good / (good + bad)
    # The kernel's priors hold for values of unit variance.
    shape = fit_hyper(x, (share - share.mean()) / max(float(share.std()), _LEAST_SPREAD), np.zeros(len(share)))
    return shape, sharpest(x, good, bad, shape)
