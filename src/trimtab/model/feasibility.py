"""How likely a config is to be acceptable: a Gaussian process behind a logistic function, by Laplace's approximation.

    symbol   meaning                                                     shape
    x        features of the configs that were tried                     (n, f)
    g, b     how often each was acceptable, and was not                  (n,)
    h        latent function, m + GP(0, κ² K)                            (n,)
    π        1 / (1 + exp(-h)), the probability of being acceptable      (n,)
    W        (g + b) π (1 - π)                                           (n,)
    B        I + W½ κ² K W½                                              (n, n)

K has the shape that a regression of the shares g / (g + b) finds (which features matter, and how fast); κ, how sharp the
border is, is the one of the largest evidence. A regression alone would draw a ramp where there is a cliff.

Source: C. Rasmussen, C. Williams, "Gaussian Processes for Machine Learning", 2006, algorithm 3.1, eq. 3.21 and 3.32. The
probability is that of the mode: Laplace's variance is far too large where everything failed, and its mean over h would
call such places a toss-up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, special

from trimtab.model.gaussian_process import Hyper, covariance, fit_hyper

__all__ = ["Classifier", "FeasibilityHyper", "fit_feasibility", "sharpest"]

Array = NDArray[np.float64]

_MEAN = 1.0
"""m: without evidence nearby a config is thought to work in 73 of 100 cases."""

_SHARPNESS = (3.0, 6.0, 12.0, 24.0, 48.0)
"""κ to choose from: the logit changes by about so much across the space."""

_LEAST_SPREAD = 1e-3

_NEWTON_STEPS = 30
_CLOSE = 1e-4


class Classifier:
    """What is believed of acceptability after n configs were tried.

    Args:
        x: (n, f) features, n >= 1.
        good, bad: (n,) how often each was acceptable and was not; together at least 1.
        hyper: the shape of K, from a regression of the shares.
        sharpness: κ.
    """

    def __init__(self, x: Array, good: Array, bad: Array, hyper: Hyper, sharpness: float) -> None:
        self._x, self._hyper, self._scale = x, hyper, sharpness**2
        k = self._scale * covariance(x, x, hyper)
        total, g = good + bad, np.zeros(len(x))
        for _ in range(_NEWTON_STEPS):
            share = special.expit(_MEAN + g)
            root_w = np.sqrt(total * np.maximum(share * (1.0 - share), 1e-9))
            inner = root_w[:, None] * k * root_w[None, :]
            inner[np.diag_indices_from(inner)] += 1.0
            factor = linalg.cholesky(inner, lower=True, check_finite=False)
            target = root_w**2 * g + good - total * share
            solved = linalg.cho_solve((factor, True), root_w * (k @ target), check_finite=False)
            pull = target - root_w * solved
            step = k @ pull - g
            # A full Newton step may overshoot where π saturates; a bounded one cannot.
            g = g + step * min(1.0, 5.0 / max(float(np.abs(step).max()), 1e-12))
            if float(np.abs(step).max()) < _CLOSE:
                break
        self._slope = good - total * special.expit(_MEAN + g)
        fit = good * special.log_expit(_MEAN + g) + bad * special.log_expit(-_MEAN - g)
        self.log_evidence = float(fit.sum() - 0.5 * pull @ g - np.log(np.diag(factor)).sum())

    def log_probability(self, x: Array) -> Array:
        """log P[acceptable], at the mode of h, at the rows of `x` (m, f): (m,)."""
        cross = self._scale * covariance(x, self._x, self._hyper)
        return np.asarray(special.log_expit(_MEAN + cross @ self._slope))


def sharpest(x: Array, good: Array, bad: Array, hyper: Hyper) -> float:
    """The κ of the largest evidence."""
    return max(_SHARPNESS, key=lambda kappa: Classifier(x, good, bad, hyper, kappa).log_evidence)


@dataclass(frozen=True, slots=True)
class FeasibilityHyper:
    """Hyper-parameters of a `Classifier`: the shape of its kernel, and how sharp the border is."""

    shape: Hyper
    sharpness: float


def fit_feasibility(x: Array, good: Array, bad: Array) -> FeasibilityHyper:
    """The hyper-parameters for `x`, `good` and `bad` as for a `Classifier`."""
    share = good / (good + bad)
    # The kernel's priors hold for values of unit variance.
    shape = fit_hyper(x, (share - share.mean()) / max(float(share.std()), _LEAST_SPREAD), np.zeros(len(share)))
    return FeasibilityHyper(shape, sharpest(x, good, bad, shape))
