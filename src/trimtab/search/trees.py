"""A forest of regression trees with a variance, and predictions without the library's overhead for each call.

Source: F. Hutter, L. Xu, H. Hoos, K. Leyton-Brown, "Algorithm Runtime Prediction: Methods & Evaluation", Artificial
Intelligence 206 (2014), §4.3.2: the variance is that of the leaf means over the trees plus the mean variance within the
leaves. Splits are drawn at random between the values seen (P. Geurts, D. Ernst, L. Wehenkel, "Extremely randomized
trees", Machine Learning 63, 2006): the mean is less of a staircase and a fit is several times faster.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.tree import ExtraTreeRegressor

__all__ = ["Forest"]

Array = NDArray[np.float64]

_N_TREES = 25
_LEAST_SD = 0.02
"""On standardised losses: no place is known for certain."""


class Forest:
    """Trees grown on weighted points.

    Args:
        x: (n, f) features, n >= 2.
        y: (n,) values, finite.
        weights: (n,) precision of each value, more than 0.
        seed: of the bootstrap and the splits.
        feature_share: share of the features looked at for each split.
    """

    def __init__(self, x: Array, y: Array, weights: Array, seed: int, *, feature_share: float = 0.8) -> None:
        rng, single = np.random.default_rng(seed), x.astype(np.float32)
        weights, target = weights / weights.mean(), np.ascontiguousarray(y)
        self._trees: list[Any] = []
        importance = np.zeros(x.shape[1])
        # The library's forest spends most of its time on checks and scheduling when there are few points.
        with sklearn.config_context(skip_parameter_validation=True):
            for _ in range(_N_TREES):
                drawn = np.bincount(rng.integers(len(x), size=len(x)), minlength=len(x))
                tree = ExtraTreeRegressor(
                    max_features=feature_share, min_samples_split=3, random_state=int(rng.integers(2**31))
                )
                tree.fit(single, target, sample_weight=weights * drawn, check_input=False)
                self._trees.append(tree.tree_)
                importance += tree.feature_importances_
        self._values = [tree.value[:, 0, 0].copy() for tree in self._trees]
        self._spreads = [np.maximum(tree.impurity, 0.0) for tree in self._trees]
        self.importance: Array = importance / _N_TREES

    def _leaves(self, x: Array) -> list[NDArray[np.int64]]:
        single = np.ascontiguousarray(x, dtype=np.float32)
        return [tree.apply(single) for tree in self._trees]

    def predict_mean(self, x: Array) -> Array:
        """Mean over the trees at the rows of `x` (m, f): (m,)."""
        leaves = self._leaves(x)
        return np.asarray(np.mean([value[leaf] for value, leaf in zip(self._values, leaves, strict=True)], axis=0))

    def predict(self, x: Array) -> tuple[Array, Array]:
        """Mean and standard deviation at the rows of `x` (m, f): (m,) each."""
        leaves = self._leaves(x)
        means = np.array([value[leaf] for value, leaf in zip(self._values, leaves, strict=True)])
        within = np.mean([spread[leaf] for spread, leaf in zip(self._spreads, leaves, strict=True)], axis=0)
        return means.mean(axis=0), np.sqrt(means.var(axis=0) + within + _LEAST_SD**2)
