"""A small Gaussian process: main effects of every feature plus a Matérn 5/2 remainder, and known noise per point.

    symbol   meaning                                                        shape
    x        features of the points that were measured, in [0, 1]           (n, f)
    y        standardised losses                                            (n,)
    v        known noise variance of each y                                 (n,)
    ρ        relevance of each feature to the remainder: 1 / length scale²  (f,)
    λ        variance of each feature's main effect                         (f,)
    s²       variance of the remainder                                      scalar
    τ²       nugget: noise that v does not explain                          scalar
    c        constant mean, by generalised least squares                    scalar
    r²       Σ_j ρ_j (x_j - x'_j)²                                          (n, n)
    Φ        cos(k π x_j) / k of every feature, k = 1..5                    (n, 5f)
    K        Φ diag(λ, .., λ) Φᵀ + s² M(r) + diag(v + τ²)                   (n, n)
    M        (1 + √5 r + 5r²/3) exp(-√5 r)

Losses are log-ratios, so effects that multiply add up, and few knobs carry most of them: main effects with heavy-tailed
priors are learned from few trials, interactions and bends are left to the remainder. Where interactions rule, λ = 0 and a
longer reach of M predict better: `fit_hyper` fits both and keeps the one that predicts left-out trials better.

Sources: C. Rasmussen, C. Williams, "Gaussian Processes for Machine Learning", 2006, eq. 2.25, 2.26, 2.40, 4.17, 5.8
and 5.9; D. Duvenaud, H. Nickisch, C. Rasmussen, "Additive Gaussian Processes", NeurIPS 2011; C. Hvarfner et al.,
"Vanilla Bayesian Optimization Performs Great in High Dimensions", ICML 2024 (length scales grow with the square root of
the dimension); D. Eriksson, M. Jankowiak, "High-Dimensional Bayesian Optimization with Sparse Axis-Aligned Subspaces",
UAI 2021 (half-Cauchy tails, so that few knobs may matter much).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy  # its optimizers, a quarter of a second to load, come on first use
from numpy.typing import NDArray
from scipy import linalg

__all__ = [
    "Frame", "Hyper", "HyperPrior", "Kernel", "Posterior", "covariance", "fit_among", "fit_hyper", "objective",
    "prior_variance",
]  # fmt: skip

Array = NDArray[np.float64]

_ROOT5 = math.sqrt(5.0)
_LEAST_NOISE = 1e-6
"""Keeps K positive definite when points repeat."""

_JITTER = 1e-6
"""Keeps the covariance of close candidates positive definite, as a share of its mean diagonal."""

_WAVES = 5
"""Cosines of a main effect. The k-th counts 1/k: most knobs have a direction rather than a valley."""

_NO_MAIN = -30.0
"""log λ where there are no main effects."""

_BELOW, _ABOVE = 12.0, 6.0
"""How far logarithms of ρ, λ and τ² may go from their prior's centre; beyond it nothing changes but overflow."""

_SIGNAL_ABOVE = 3.0

_HANDICAP = 4.0
"""By how much the log density of all left-out measurements must be greater before main effects are given up: of few points the
comparison is mostly chance, and main effects are the usual case."""

_ISOTROPIC = 3.2
"""log ρ of the model without main effects, less that which keeps distances the same in any dimension: length scale 1 at 25
features."""


@dataclass(frozen=True, slots=True)
class Hyper:
    """Hyper-parameters, as natural logarithms: of ρ (f,), of λ (f,), of s² and of τ²."""

    log_relevance: Array
    log_main: Array
    log_signal: float
    log_nugget: float

    @classmethod
    def from_vector(cls, theta: Array) -> Hyper:
        """From (log ρ, log λ, log s², log τ²), shape (2f + 2,)."""
        f = (len(theta) - 2) // 2
        return cls(theta[:f], theta[f : 2 * f], float(theta[-2]), float(theta[-1]))

    @property
    def vector(self) -> Array:
        """(log ρ, log λ, log s², log τ²), shape (2f + 2,)."""
        return np.asarray(np.r_[self.log_relevance, self.log_main, self.log_signal, self.log_nugget])

    @property
    def relevance(self) -> Array:
        """ρ, shape (f,)."""
        return np.exp(self.log_relevance)

    @property
    def main(self) -> Array:
        """λ, shape (f,)."""
        return np.exp(self.log_main)

    @property
    def has_main(self) -> bool:
        """Whether there are main effects."""
        return bool(self.log_main.max(initial=_NO_MAIN) > _NO_MAIN)

    @property
    def signal(self) -> float:
        """s²."""
        return math.exp(self.log_signal)

    @property
    def nugget(self) -> float:
        """τ²."""
        return math.exp(self.log_nugget)

    @property
    def effects(self) -> Array:
        """How much each feature moves the function, (f,): λ + s² ρ."""
        return self.main + self.relevance * self.signal

    def covariance(self, a: Array, b: Array) -> Array:
        """Covariance of the function between the rows of `a` (n, f) and `b` (m, f): (n, m)."""
        return covariance(a, b, self)

    def variance(self, x: Array) -> Array:
        """The diagonal of `covariance(x, x)`: (n,)."""
        return prior_variance(x, self)


class Kernel(Protocol):
    """A covariance function with a nugget."""

    @property
    def nugget(self) -> float: ...
    def covariance(self, a: Array, b: Array) -> Array: ...
    def variance(self, x: Array) -> Array: ...


@dataclass(frozen=True, slots=True)
class Frame:
    """What multiplies the covariance of n points elementwise, and what is then added to it: (n, n) each."""

    factor: Array
    offset: Array


@dataclass(frozen=True, slots=True)
class HyperPrior:
    """Where the hyper-parameters are expected: log ρ and log λ ~ Cauchy, log s² and log τ² ~ normal.

    The constants hold for standardised y; they were chosen on `trimtab.testing.surfaces` (see docs/measurements/search.md).
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
        return cls(relevance_at=relevance, main_at=_NO_MAIN, signal_at=0.0, handicap=_HANDICAP)

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
        return value, np.r_[2.0 * t / (1.0 + t * t) / self.effect_spread, rest / spreads]


def _squared_distances(a: Array, b: Array, relevance: Array) -> Array:
    """r² between the rows of `a` (n, f) and `b` (m, f): (n, m)."""
    scale = np.sqrt(relevance)
    a, b = a * scale, b * scale
    squared: Array = a @ (-2.0 * b.T)
    squared += (a * a).sum(axis=1)[:, None]
    squared += (b * b).sum(axis=1)[None, :]
    return np.maximum(squared, 0.0, out=squared)


def _matern(squared: Array) -> tuple[Array, Array]:
    """M(r) and (1 + √5 r) exp(-√5 r), from r²."""
    root = np.sqrt(squared)
    root *= _ROOT5
    decay = np.exp(-root)
    root += 1.0
    slope = root * decay
    decay *= squared
    decay *= 5.0 / 3.0
    decay += slope
    return decay, slope


def _basis(x: Array) -> Array:
    """Φ, (n, 5f): cosines of 1 to 5 half waves over [0, 1] of each feature, all of the first before those of the second."""
    n, f = x.shape
    basis = np.empty((n, _WAVES * f))
    first = np.cos(math.pi * x)
    before, wave = np.ones_like(first), first
    for k in range(_WAVES):
        np.divide(wave, k + 1.0, out=basis[:, k * f : (k + 1) * f])
        before, wave = wave, 2.0 * first * wave - before
    return basis


def covariance(a: Array, b: Array, hyper: Hyper) -> Array:
    """Covariance of the function between the rows of `a` (n, f) and `b` (m, f): (n, m)."""
    k, _ = _matern(_squared_distances(a, b, hyper.relevance))
    k *= hyper.signal
    if hyper.has_main:
        k += (_basis(a) * np.tile(hyper.main, _WAVES)) @ _basis(b).T
    return k


def _against(b: Array, kernel: Kernel) -> Callable[[Array], Array]:
    """`a` (n, f) -> the covariance with the rows of `b` (m, f), (n, m); what depends on `b` alone is computed once."""
    if not isinstance(kernel, Hyper):
        return lambda a: kernel.covariance(a, b)
    scale, waves = np.sqrt(kernel.relevance), np.zeros((0, len(b)))
    scaled = b * scale
    doubled, lengths = -2.0 * scaled.T, (scaled**2).sum(axis=1)
    if kernel.has_main:
        waves = np.ascontiguousarray((_basis(b) * np.tile(kernel.main, _WAVES)).T)

    def of(a: Array) -> Array:
        own = a * scale
        squared: Array = own @ doubled + (own**2).sum(axis=1)[:, None]
        squared += lengths
        k, _ = _matern(np.maximum(squared, 0.0, out=squared))
        k *= kernel.signal
        return k + _basis(a) @ waves if len(waves) else k

    return of


def prior_variance(x: Array, hyper: Hyper) -> Array:
    """The diagonal of `covariance(x, x, hyper)`: (n,)."""
    if not hyper.has_main:
        return np.full(len(x), hyper.signal)
    return np.asarray(hyper.signal + _basis(x) ** 2 @ np.tile(hyper.main, _WAVES))


class Posterior:
    """What is believed of the function after n measurements, for a given kernel.

    Args:
        x: (n, f) features, n >= 1.
        y: (n,) standardised losses, finite.
        v: (n,) known noise variances of y, 0 or more.
        hyper: the kernel with its hyper-parameters.
        known: what was believed of the first rows of x with the same v and hyper. Its Cholesky factor is kept and only
            the rows for new points are computed: n² instead of n³ operations for one point.
    """

    def __init__(self, x: Array, y: Array, v: Array, hyper: Kernel, known: Posterior | None = None) -> None:
        self._x, self._y, self.hyper = x, y, hyper
        self._cross = _against(x, hyper)
        self._root = self._factor(v) if known is None else self._grown(known, v)
        ones = linalg.cho_solve((self._root, True), np.ones(len(y)), check_finite=False)
        self.mean = float(ones @ y / ones.sum())
        self._alpha = linalg.cho_solve((self._root, True), y - self.mean, check_finite=False)

    def __len__(self) -> int:
        return len(self._x)

    def _factor(self, v: Array) -> Array:
        k = self.hyper.covariance(self._x, self._x)
        k[np.diag_indices_from(k)] += v + self.hyper.nugget + _LEAST_NOISE
        return np.asarray(linalg.cholesky(k, lower=True, check_finite=False))

    def _grown(self, known: Posterior, v: Array) -> Array:
        """The factor of `known` with rows for the points that it does not have (GPML, A.4: a block Cholesky)."""
        m, n = len(known), len(self._x)
        new = self._x[m:]
        side = linalg.solve_triangular(
            known._root, self.hyper.covariance(self._x[:m], new), lower=True, check_finite=False
        )
        corner = self.hyper.covariance(new, new) - side.T @ side
        corner[np.diag_indices_from(corner)] += v[m:] + self.hyper.nugget + _LEAST_NOISE
        root = np.zeros((n, n))
        root[:m, :m], root[m:, :m] = known._root, side.T
        root[m:, m:] = linalg.cholesky(corner, lower=True, check_finite=False)
        return root

    def predict_mean(self, x: Array) -> Array:
        """Mean of the function at the rows of `x` (m, f): (m,)."""
        return np.asarray(self.mean + self._cross(x) @ self._alpha)

    def predict(self, x: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of the function (without noise) at the rows of `x` (m, f): (m,) each."""
        cross = self._cross(x)
        half = linalg.solve_triangular(self._root, cross.T, lower=True, check_finite=False)
        variance = self.hyper.variance(x) - np.einsum("ij,ij->j", half, half)
        return self.mean + cross @ self._alpha, np.sqrt(np.maximum(variance, 1e-12))

    def left_out(self) -> Array:
        """Mean at each of the n points, without its own measurement: (n,); GPML, eq. 5.12."""
        inverse = linalg.cho_solve((self._root, True), np.eye(len(self)), check_finite=False)
        return np.asarray(self._y - self._alpha / np.diag(inverse))

    def left_out_density(self) -> float:
        """Mean over the points of the log density of each measurement, told all others; GPML, eq. 5.10 and 5.12."""
        inverse = np.diag(linalg.cho_solve((self._root, True), np.eye(len(self)), check_finite=False))
        return float(np.mean(0.5 * np.log(inverse) - 0.5 * self._alpha**2 / inverse))

    def draw(self, x: Array, rng: np.random.Generator) -> Array:
        """One function drawn from the posterior, at the rows of `x` (m, f): (m,); costs m³ (GPML, A.2)."""
        cross = self._cross(x)
        half = linalg.solve_triangular(self._root, cross.T, lower=True, check_finite=False)
        joint = self.hyper.covariance(x, x) - half.T @ half
        joint[np.diag_indices_from(joint)] += _JITTER * float(np.trace(joint)) / len(x) + _LEAST_NOISE
        root = linalg.cholesky(joint, lower=True, check_finite=False)
        return np.asarray(self.mean + cross @ self._alpha + root @ rng.standard_normal(len(x)))


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
    if prior.main_at == _NO_MAIN:
        f = x.shape[1]
        below[f : 2 * f] = above[f : 2 * f] = 0.0
    found = scipy.optimize.minimize(
        objective,
        start if begin is None else begin.vector,
        args=(x, y, v, prior, frame),
        jac=True,
        method="L-BFGS-B",
        bounds=scipy.optimize.Bounds(start - below, start + above),
        options={"maxiter": max_steps},
    )
    return Hyper.from_vector(np.asarray(found.x))


def objective(
    theta: Array, x: Array, y: Array, v: Array, prior: HyperPrior, frame: Frame | None = None
) -> tuple[float, Array]:
    """Negative log posterior density of theta = (log ρ, log λ, log s², log τ²) and its gradient, GPML eq. 5.8, 5.9."""
    hyper = Hyper.from_vector(theta)
    f = x.shape[1]
    correlation, slope = _matern(_squared_distances(x, x, hyper.relevance))
    basis = _basis(x) if hyper.has_main else np.zeros((len(x), 0))
    k = hyper.signal * correlation
    if hyper.has_main:
        k += (basis * np.tile(hyper.main, _WAVES)) @ basis.T
    if frame is not None:
        k = frame.factor * k + frame.offset
    k[np.diag_indices_from(k)] += v + hyper.nugget + _LEAST_NOISE
    root = linalg.cholesky(k, lower=True, check_finite=False)
    inverse = linalg.cho_solve((root, True), np.eye(len(y)), check_finite=False)
    ones = inverse.sum(axis=1)
    residual = y - ones @ y / ones.sum()
    alpha = inverse @ residual
    weights = inverse - np.outer(alpha, alpha)
    by_nugget = float(np.trace(weights))
    if frame is not None:
        weights = weights * frame.factor
    # dK/dr² = -(5/6) s² (1 + √5 r) exp(-√5 r); Σ_ab A_ab (x_aj - x_bj)² without an (n, n, f) array.
    a = weights * slope * (-5.0 / 6.0 * hyper.signal)
    by_relevance = 2.0 * ((x * x).T @ a.sum(axis=1)) - 2.0 * np.einsum("ij,ij->j", x, a @ x)
    by_main = np.zeros(f)
    if hyper.has_main:
        by_main = np.einsum("ij,ij->j", basis, weights @ basis).reshape(_WAVES, f).sum(axis=0)
    gradient = (
        0.5
        * np.r_[
            hyper.relevance * by_relevance,
            hyper.main * by_main,
            hyper.signal * float((weights * correlation).sum()),
            hyper.nugget * by_nugget,
        ]
    )
    value = 0.5 * float(residual @ alpha) + float(np.log(np.diag(root)).sum())
    penalty, penalty_slope = prior.penalty(theta)
    return value + penalty, gradient + penalty_slope
