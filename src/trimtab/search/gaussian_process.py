"""A small Gaussian process: Matérn 5/2 kernel with a relevance per feature, MAP hyper-parameters, known noise per point.

    symbol   meaning                                                        shape
    x        features of the points that were measured                      (n, f)
    y        standardised losses                                            (n,)
    v        known noise variance of each y                                 (n,)
    ρ        relevance of each feature: 1 / length scale²                   (f,)
    s²       variance of the function                                       scalar
    τ²       nugget: noise that v does not explain                          scalar
    c        constant mean, by generalised least squares                    scalar
    r²       Σ_j ρ_j (x_j - x'_j)²                                          (n, n)
    K        s² M(r) + diag(v + τ²), M(r) = (1 + √5 r + 5r²/3) exp(-√5 r)    (n, n)

Sources: C. Rasmussen, C. Williams, "Gaussian Processes for Machine Learning", 2006, eq. 2.25, 2.26, 4.17, 5.8 and 5.9;
C. Hvarfner et al., "Vanilla Bayesian Optimization Performs Great in High Dimensions", ICML 2024 (a prior on the length
scales that grows with the square root of the dimension); D. Eriksson, M. Jankowiak, "High-Dimensional Bayesian
Optimization with Sparse Axis-Aligned Subspaces", UAI 2021 (heavy tails, so that few knobs may matter much).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize

__all__ = ["Hyper", "Posterior", "fit_hyper"]

Array = NDArray[np.float64]

_ROOT5 = math.sqrt(5.0)
_LEAST_NOISE = 1e-6
"""Keeps K positive definite when points repeat."""

_BOUND = 12.0
"""Hyper-parameters stay within exp(±12) of their prior's centre: beyond it nothing changes but overflow."""


@dataclass(frozen=True, slots=True)
class Hyper:
    """Hyper-parameters, as natural logarithms: of ρ (f,), of s² and of τ²."""

    log_relevance: Array
    log_signal: float
    log_nugget: float

    @property
    def relevance(self) -> Array:
        """ρ, shape (f,)."""
        return np.exp(self.log_relevance)


@dataclass(frozen=True, slots=True)
class Prior:
    """Where the hyper-parameters are expected: log ρ ~ Student-t, log s² and log τ² ~ normal.

    The constants are for standardised y and features of range 1; they were set on the surfaces of tests/search/surfaces.py.
    """

    relevance_at: float
    relevance_spread: float = 1.5
    relevance_freedom: float = 4.0
    signal_at: float = 0.0
    signal_spread: float = 1.0
    nugget_at: float = -4.0
    nugget_spread: float = 1.5

    @classmethod
    def of(cls, n_features: int) -> Prior:
        """The prior for `n_features`: the typical r² between two random points does not depend on their number."""
        return cls(relevance_at=-math.log(max(1, n_features)) + 0.0)

    def start(self, n_features: int) -> Array:
        """The centre, as one vector (f + 2,)."""
        return np.r_[np.full(n_features, self.relevance_at), self.signal_at, self.nugget_at]

    def penalty(self, theta: Array) -> tuple[float, Array]:
        """-log prior up to a constant, and its gradient (f + 2,)."""
        t = (theta[:-2] - self.relevance_at) / self.relevance_spread
        nu = self.relevance_freedom
        value = 0.5 * (nu + 1.0) * float(np.log1p(t * t / nu).sum())
        slope = (nu + 1.0) * t / (nu + t * t) / self.relevance_spread
        rest = (theta[-2:] - (self.signal_at, self.nugget_at)) / (self.signal_spread, self.nugget_spread)
        return value + 0.5 * float(rest @ rest), np.r_[slope, rest / (self.signal_spread, self.nugget_spread)]


def _squared_distances(a: Array, b: Array, relevance: Array) -> Array:
    """r² between the rows of `a` (n, f) and `b` (m, f): (n, m)."""
    scale = np.sqrt(relevance)
    a, b = a * scale, b * scale
    squared = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1)[None, :] - 2.0 * (a @ b.T)
    return np.maximum(squared, 0.0)


def _matern(squared: Array) -> tuple[Array, Array]:
    """M(r) and exp(-√5 r)(1 + √5 r), from r²."""
    root = _ROOT5 * np.sqrt(squared)
    decay = np.exp(-root)
    slope = (1.0 + root) * decay
    return slope + (5.0 / 3.0) * squared * decay, slope


class Posterior:
    """What is believed of the function after n measurements, for given hyper-parameters.

    Args:
        x: (n, f) features, n >= 1.
        y: (n,) standardised losses, finite.
        v: (n,) known noise variances of y, 0 or more.
        hyper: hyper-parameters.
    """

    def __init__(self, x: Array, y: Array, v: Array, hyper: Hyper) -> None:
        self._x = x
        self._hyper = hyper
        self._signal = math.exp(hyper.log_signal)
        correlation, _ = _matern(_squared_distances(x, x, hyper.relevance))
        k = self._signal * correlation
        k[np.diag_indices_from(k)] += v + math.exp(hyper.log_nugget) + _LEAST_NOISE
        self._root = linalg.cholesky(k, lower=True, check_finite=False)
        ones = linalg.cho_solve((self._root, True), np.ones(len(y)), check_finite=False)
        self.mean = float(ones @ y / ones.sum())
        self._alpha = linalg.cho_solve((self._root, True), y - self.mean, check_finite=False)

    @property
    def noise(self) -> float:
        """τ², the noise of one more measurement."""
        return math.exp(self._hyper.log_nugget)

    def predict_mean(self, x: Array) -> Array:
        """Mean of the function at the rows of `x` (m, f): (m,)."""
        correlation, _ = _matern(_squared_distances(x, self._x, self._hyper.relevance))
        return np.asarray(self.mean + self._signal * (correlation @ self._alpha))

    def predict(self, x: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of the function (without noise) at the rows of `x` (m, f): (m,) each."""
        correlation, _ = _matern(_squared_distances(x, self._x, self._hyper.relevance))
        cross = self._signal * correlation
        half = linalg.solve_triangular(self._root, cross.T, lower=True, check_finite=False)
        variance = self._signal - np.einsum("ij,ij->j", half, half)
        return self.mean + cross @ self._alpha, np.sqrt(np.maximum(variance, 1e-12))


def fit_hyper(x: Array, y: Array, v: Array, *, max_steps: int = 40) -> Hyper:
    """Hyper-parameters of greatest posterior density (MAP), by L-BFGS-B from the prior's centre.

    Args:
        x, y, v: as for `Posterior`; the cost of one step grows with n³ + n²f.
        max_steps: iterations of the optimiser; fewer only makes the fit rougher.
    """
    prior = Prior.of(x.shape[1])
    start = prior.start(x.shape[1])
    bounds = optimize.Bounds(start - _BOUND, start + np.r_[np.full(x.shape[1], _BOUND / 2), 3.0, 6.0])
    found = optimize.minimize(
        _objective,
        start,
        args=(x, y, v, prior),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": max_steps},
    )
    theta = found.x
    return Hyper(theta[:-2], float(theta[-2]), float(theta[-1]))


def _objective(theta: Array, x: Array, y: Array, v: Array, prior: Prior) -> tuple[float, Array]:
    """Negative log posterior density and its gradient by theta = (log ρ, log s², log τ²), GPML eq. 5.8 and 5.9."""
    relevance, signal, nugget = np.exp(theta[:-2]), math.exp(theta[-2]), math.exp(theta[-1])
    squared = _squared_distances(x, x, relevance)
    correlation, slope = _matern(squared)
    k = signal * correlation
    k[np.diag_indices_from(k)] += v + nugget + _LEAST_NOISE
    root = linalg.cholesky(k, lower=True, check_finite=False)
    inverse = linalg.cho_solve((root, True), np.eye(len(y)), check_finite=False)
    ones = inverse.sum(axis=1)
    residual = y - ones @ y / ones.sum()
    alpha = inverse @ residual
    weights = inverse - np.outer(alpha, alpha)
    # dK/dr² = -(5/6) s² exp(-√5 r)(1 + √5 r); Σ_ab A_ab (x_aj - x_bj)² without an (n, n, f) array.
    a = weights * slope * (-5.0 / 6.0 * signal)
    per_feature = 2.0 * ((x * x).T @ a.sum(axis=1)) - 2.0 * np.einsum("ij,ij->j", x, a @ x)
    gradient = (
        0.5
        * np.r_[
            relevance * per_feature, signal * float((weights * correlation).sum()), nugget * float(np.trace(weights))
        ]
    )
    value = 0.5 * float(residual @ alpha) + float(np.log(np.diag(root)).sum())
    penalty, penalty_slope = prior.penalty(theta)
    return value + penalty, gradient + penalty_slope
