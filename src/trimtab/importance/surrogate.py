"""Surrogate: what loss is expected of a config, and how well that is predicted of configs that were not seen."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimtab.importance.forward import SparseModel, fit_sparse, forward_order
from trimtab.importance.samples import Samples, is_flat
from trimtab.model.forest import Forest

__all__ = ["Fit", "Surrogate", "cross_validate", "screened"]

Array = NDArray[np.float64]

N_TREES = 20
_FOLDS = 5
_LEAST_KEPT = 12
_MOST_KEPT = 25
_ROWS_PER_KNOB = 8
"""Forests look at one knob for every 8 samples, 12 to 25: more of them hide weak effects from so few samples."""
_SURE = 1.645
"""One-sided 95 % of the normal distribution."""
_LEAST_R2 = 1e-3
"""A model without a term is the mean but for its small ridge, by which it may be surely better: by a millionth."""


def screened(samples: Samples, weights: Array) -> NDArray[np.int64]:
    """The knobs that a forest should look at: the first that forward regression takes."""
    most = int(np.clip(np.count_nonzero(weights) // _ROWS_PER_KNOB, _LEAST_KEPT, _MOST_KEPT))
    if samples.varied.sum() <= most:
        return np.flatnonzero(samples.varied)
    return np.array(forward_order(samples, weights, most), dtype=np.int64)


class Surrogate:
    """A sparse polynomial, and a forest for what the polynomial leaves where that helps.

    The forest counts by how well its trees predict residuals of samples that they did not see (0: not at all).

    Args:
        samples: n samples.
        weights: (n,) how much each counts; 0: not at all.
        rng: of the forest.
    """

    def __init__(self, samples: Samples, weights: Array, rng: np.random.Generator) -> None:
        self.model: SparseModel = fit_sparse(samples, weights)
        rest = samples.y - self.model.predict(samples.x)
        kept = np.isin(samples.owner, screened(samples, weights))
        self._kept = np.flatnonzero(kept)
        self._forest = Forest.cart(samples.x[:, self._kept], rest, weights, rng, n_trees=N_TREES)
        unseen = self._forest.predict_unseen(samples.x[:, self._kept])
        self.share = 0.0 if is_flat(samples.y, weights) else _share(rest, unseen, weights)
        from_forest = np.unique(samples.owner[self._kept]).tolist() if self.share > 0 else []
        self.knobs: tuple[int, ...] = tuple(dict.fromkeys([*self.model.knobs, *from_forest]))
        """Those that can move a prediction."""

    def predict(self, x: Array) -> Array:
        """(m,) losses at features (m, f)."""
        found = self.model.predict(x)
        return found + self.share * self._forest.predict_mean(x[:, self._kept]) if self.share > 0 else found


def _share(rest: Array, unseen: Array, weights: Array) -> float:
    """By what factor the forest's predictions of residuals fit best, 0 to 1; 0 where that is not beyond chance."""
    known = np.isfinite(unseen) & (weights > 0)
    guess, w = unseen[known], weights[known]
    power = float((w * guess**2).sum())
    if known.sum() < _LEAST_KEPT or power <= 0.0:
        return 0.0
    share = float((w * guess * rest[known]).sum()) / power
    gains = rest[known] ** 2 - (rest[known] - share * guess) ** 2
    is_sure = gains.mean() > _SURE * gains.std() / math.sqrt(len(gains))
    return min(1.0, share) if share > 0.0 and is_sure else 0.0


@dataclass(frozen=True, slots=True)
class Fit:
    """How well a surrogate predicts samples that it did not see.

    Attributes:
        r2: share of the variance predicted, at most 1.
        is_better: whether it predicts better than the mean does, beyond chance (one-sided 95 %).
    """

    r2: float
    is_better: bool


def cross_validate(samples: Samples, seed: int) -> Fit:
    """The surrogate in five folds; nothing is to be predicted of losses that are all the same."""
    if is_flat(samples.y, samples.weights):
        return Fit(0.0, False)
    rng = np.random.default_rng([seed, 55])
    fold = rng.permutation(np.arange(len(samples)) % _FOLDS)
    errors, spreads = np.zeros(len(samples)), np.zeros(len(samples))
    for number in range(_FOLDS):
        held, weights = fold == number, np.where(fold == number, 0.0, samples.weights)
        guess = Surrogate(samples, weights, rng).predict(samples.x[held])
        errors[held] = (samples.y[held] - guess) ** 2
        spreads[held] = (samples.y[held] - np.average(samples.y, weights=weights)) ** 2
    gains = spreads - errors
    r2 = 1.0 - float(errors.sum() / spreads.sum())
    return Fit(r2, bool(r2 > _LEAST_R2 and gains.mean() > _SURE * gains.std() / math.sqrt(len(gains))))
