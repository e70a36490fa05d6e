"""What is believed given a kernel: of the loss, and of the chance that a config is acceptable; and the scale of losses.

The kernel has main effects of every feature plus a Matérn 5/2 remainder; its hyper-parameters are found in `fit`.

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
longer reach of M predict better.

The classifier is a Gaussian process behind a logistic function, by Laplace's approximation:

    symbol   meaning                                                        shape
    g, b     how often each point was acceptable, and was not               (n,)
    h        latent function, m + GP(0, κ² K)                               (n,)
    π        1 / (1 + exp(-h)), the probability of being acceptable         (n,)
    W        (g + b) π (1 - π)                                              (n,)
    B        I + W½ κ² K W½                                                 (n, n)

Sources: C. Rasmussen, C. Williams, "Gaussian Processes for Machine Learning", 2006, eq. 2.25, 2.26, 2.40, 4.17, algorithm 3.1,
eq. 3.21 and 3.32; D. Duvenaud, H. Nickisch, C. Rasmussen, "Additive Gaussian Processes", NeurIPS 2011. The classifier's
probability is that of the mode: Laplace's variance is far too large where everything failed, and its mean over h would call
such places a toss-up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, special
from scipy.linalg import lapack

__all__ = [
    "LEAST_NOISE", "NO_MAIN", "WAVES", "Hyper", "Kernel", "LossScale", "Posterior", "basis_of", "cholesky", "classifier",
    "covariance", "matern", "prior_variance", "solved", "squared_distances",
]  # fmt: skip

Array = NDArray[np.float64]

_ROOT5 = math.sqrt(5.0)
LEAST_NOISE = 1e-6
"""Keeps K positive definite when points repeat."""

_JITTER = 1e-6
"""Keeps the covariance of close candidates positive definite, as a share of its mean diagonal."""

WAVES = 5
"""Cosines of a main effect. The k-th counts 1/k: most knobs have a direction rather than a valley."""

NO_MAIN = -30.0
"""log λ where there are no main effects."""

_MEAN = 1.0
"""m: without evidence nearby a config is thought to work in 73 of 100 cases."""

_NEWTON_STEPS = 30
_CLOSE = 1e-4


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
        return bool(self.log_main.max(initial=NO_MAIN) > NO_MAIN)

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
    @property
    def effects(self) -> Array: ...
    def covariance(self, a: Array, b: Array) -> Array: ...
    def variance(self, x: Array) -> Array: ...


def squared_distances(a: Array, b: Array, relevance: Array) -> Array:
    """r² between the rows of `a` (n, f) and `b` (m, f): (n, m)."""
    scale = np.sqrt(relevance)
    left = a * scale
    right = left if a is b else b * scale
    lengths = (left * left).sum(axis=1)
    squared: Array = left @ (-2.0 * right.T)
    squared += lengths[:, None]
    squared += (lengths if a is b else (right * right).sum(axis=1))[None, :]
    return np.maximum(squared, 0.0, out=squared)


def cholesky(k: Array) -> Array:
    """L, lower triangular, of K = L Lᵀ (n, n). Of small matrices the checks of `scipy.linalg` take most of the time.

    Raises:
        LinAlgError: K is not positive definite.
    """
    root, info = lapack.dpotrf(k, lower=1, clean=1)
    if info:
        raise linalg.LinAlgError(f"{info}-th leading minor of the array is not positive definite")
    return np.asarray(root)


def solved(root: Array, b: Array) -> Array:
    """K⁻¹ b of the factor L, for one (n,) or several right sides (n, m)."""
    return np.asarray(lapack.dpotrs(root, b, lower=1)[0])


def matern(squared: Array) -> tuple[Array, Array]:
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


def basis_of(x: Array) -> Array:
    """Φ, (n, 5f): cosines of 1 to 5 half waves over [0, 1] of each feature, all of the first before those of the second."""
    n, f = x.shape
    basis = np.empty((n, WAVES * f))
    first = np.cos(math.pi * x)
    before, wave = np.ones_like(first), first
    for k in range(WAVES):
        np.divide(wave, k + 1.0, out=basis[:, k * f : (k + 1) * f])
        before, wave = wave, 2.0 * first * wave - before
    return basis


def covariance(a: Array, b: Array, hyper: Hyper) -> Array:
    """Covariance of the function between the rows of `a` (n, f) and `b` (m, f): (n, m)."""
    k, _ = matern(squared_distances(a, b, hyper.relevance))
    k *= hyper.signal
    if hyper.has_main:
        k += (basis_of(a) * np.tile(hyper.main, WAVES)) @ basis_of(b).T
    return k


def _against(b: Array, kernel: Kernel) -> Callable[[Array], Array]:
    """`a` (n, f) -> the covariance with the rows of `b` (m, f), (n, m); what depends on `b` alone is computed once."""
    if not isinstance(kernel, Hyper):
        return lambda a: kernel.covariance(a, b)
    scale, waves = np.sqrt(kernel.relevance), np.zeros((0, len(b)))
    scaled = b * scale
    doubled, lengths = -2.0 * scaled.T, (scaled**2).sum(axis=1)
    if kernel.has_main:
        waves = np.ascontiguousarray((basis_of(b) * np.tile(kernel.main, WAVES)).T)

    def of(a: Array) -> Array:
        own = a * scale
        squared: Array = own @ doubled + (own**2).sum(axis=1)[:, None]
        squared += lengths
        k, _ = matern(np.maximum(squared, 0.0, out=squared))
        k *= kernel.signal
        return k + basis_of(a) @ waves if len(waves) else k

    return of


def prior_variance(x: Array, hyper: Hyper) -> Array:
    """The diagonal of `covariance(x, x, hyper)`: (n,)."""
    if not hyper.has_main:
        return np.full(len(x), hyper.signal)
    return np.asarray(hyper.signal + basis_of(x) ** 2 @ np.tile(hyper.main, WAVES))


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
        ones = solved(self._root, np.ones(len(y)))
        self.mean = float(ones @ y / ones.sum())
        self._alpha = solved(self._root, y - self.mean)

    def __len__(self) -> int:
        return len(self._x)

    def _factor(self, v: Array) -> Array:
        k = self.hyper.covariance(self._x, self._x)
        k[np.diag_indices_from(k)] += v + self.hyper.nugget + LEAST_NOISE
        return cholesky(k)

    def _grown(self, known: Posterior, v: Array) -> Array:
        """The factor of `known` with rows for the points that it does not have (GPML, A.4: a block Cholesky)."""
        m, n = len(known), len(self._x)
        new = self._x[m:]
        side = linalg.solve_triangular(
            known._root, self.hyper.covariance(self._x[:m], new), lower=True, check_finite=False
        )
        corner = self.hyper.covariance(new, new) - side.T @ side
        corner[np.diag_indices_from(corner)] += v[m:] + self.hyper.nugget + LEAST_NOISE
        root = np.zeros((n, n))
        root[:m, :m], root[m:, :m] = known._root, side.T
        root[m:, m:] = cholesky(corner)
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
        inverse = solved(self._root, np.eye(len(self)))
        return np.asarray(self._y - self._alpha / np.diag(inverse))

    def left_out_density(self) -> float:
        """Mean over the points of the log density of each measurement, told all others; GPML, eq. 5.10 and 5.12."""
        inverse = np.diag(solved(self._root, np.eye(len(self))))
        return float(np.mean(0.5 * np.log(inverse) - 0.5 * self._alpha**2 / inverse))

    def draw(self, x: Array, rng: np.random.Generator) -> Array:
        """One function drawn from the posterior, at the rows of `x` (m, f): (m,); costs m³ (GPML, A.2)."""
        cross = self._cross(x)
        half = linalg.solve_triangular(self._root, cross.T, lower=True, check_finite=False)
        joint = self.hyper.covariance(x, x) - half.T @ half
        joint[np.diag_indices_from(joint)] += _JITTER * float(np.trace(joint)) / len(x) + LEAST_NOISE
        root = cholesky(joint)
        return np.asarray(self.mean + cross @ self._alpha + root @ rng.standard_normal(len(x)))


def classifier(
    x: Array, good: Array, bad: Array, hyper: Hyper, sharpness: float
) -> tuple[Callable[[Array], Array], float]:
    """What is believed of acceptability after n configs were tried: log P[acceptable] at the mode of h, and the log evidence.

    Args:
        x: (n, f) features, n >= 1.
        good, bad: (n,) how often each was acceptable and was not; together at least 1.
        hyper: the shape of K, from a regression of the shares.
        sharpness: κ.

    Returns:
        A function of rows of features (m, f): (m,); and how well this kernel explains what was seen.
    """
    scale = sharpness**2
    g, pull, factor = _mode(scale * covariance(x, x, hyper), good, bad)
    slope = good - (good + bad) * special.expit(_MEAN + g)
    fit = good * special.log_expit(_MEAN + g) + bad * special.log_expit(-_MEAN - g)
    evidence = float(fit.sum() - 0.5 * pull @ g - np.log(np.diag(factor)).sum())

    def log_probability(rows: Array) -> Array:
        return np.asarray(special.log_expit(_MEAN + (scale * covariance(rows, x, hyper)) @ slope))

    return log_probability, evidence


def _mode(k: Array, good: Array, bad: Array) -> tuple[Array, Array, Array]:
    """h - m at its mode, K⁻¹ times it, and the factor of B, for κ² K: (n,), (n,), (n, n)."""
    total, g = good + bad, np.zeros(len(k))
    for _ in range(_NEWTON_STEPS):
        share = special.expit(_MEAN + g)
        root_w = np.sqrt(total * np.maximum(share * (1.0 - share), 1e-9))
        inner = root_w[:, None] * k * root_w[None, :]
        inner[np.diag_indices_from(inner)] += 1.0
        factor = cholesky(inner)
        target = root_w**2 * g + good - total * share
        found = solved(factor, root_w * (k @ target))
        pull = target - root_w * found
        step = k @ pull - g
        # A full Newton step may overshoot where π saturates; a bounded one cannot.
        g = g + step * min(1.0, 5.0 / max(float(np.abs(step).max()), 1e-12))
        if float(np.abs(step).max()) < _CLOSE:
            break
    return g, pull, factor


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
    def of(cls, losses: Array, uncompressed: float = -math.inf) -> LossScale:
        """The scale for these losses, (n,) with n >= 1 and all finite; what is not above `uncompressed` is not compressed."""
        middle = float(np.median(losses))
        better = losses[losses <= middle] - middle
        spread = max(float(np.sqrt((better**2).mean())), 1e-3, uncompressed - middle)
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
