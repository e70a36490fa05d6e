"""A forest of regression trees with a variance, predictions for rows left out, and importances.

Sources: L. Breiman, "Random Forests", Machine Learning 45 (2001); P. Geurts, D. Ernst, L. Wehenkel, "Extremely randomized
trees", Machine Learning 63 (2006): with random splits the mean is less of a staircase and a fit is several times faster;
F. Hutter, L. Xu, H. Hoos, K. Leyton-Brown, "Algorithm Runtime Prediction: Methods & Evaluation", Artificial Intelligence 206
(2014), §4.3.2: the variance is that of the leaf means over the trees plus the mean variance within the leaves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.model.tree import grown

__all__ = ["Forest"]

Array = NDArray[np.float64]

_LEAST_SD = 0.02
"""On standardised values: no place is known for certain."""


class Forest:
    """Trees, each grown on a bootstrap sample of its own.

    Args:
        x: (n, f) features, n >= 2.
        y: (n,) values, finite.
        weights: (n,) precision of each value, 0 or more.
        rng: of the bootstrap and the splits.
        n_trees: how many.
        feature_share: share of the features looked at for each split.
        least_split, least_leaf: fewest samples that are split, and that a leaf has.
        has_random_splits: whether splits are drawn at random between the values seen; else the best one is taken.
        draws_by_weight: whether a row is drawn as often as its weight says, and rows of weight 0 take no part; else rows are
            drawn alike and their weights count in the tree.

    Attributes:
        trees: as the library grows them.
        importance: (f,) share of the variance that splits on each feature explain.
    """

    def __init__(
        self,
        x: Array,
        y: Array,
        weights: Array,
        rng: np.random.Generator,
        *,
        n_trees: int = 25,
        feature_share: float = 0.8,
        least_split: int = 3,
        least_leaf: int = 1,
        has_random_splits: bool = True,
        draws_by_weight: bool = False,
    ) -> None:
        single, target = np.ascontiguousarray(x, dtype=np.float32), np.ascontiguousarray(y, dtype=np.float64)
        self.trees: list[Any] = []
        self._drawn: list[NDArray[np.bool_]] = []
        importance = np.zeros(x.shape[1])
        state = np.random.RandomState()  # one for all: to make one takes nearly as long as to grow a small tree
        for _ in range(n_trees):
            counts = _bootstrap(weights, rng, draws_by_weight)
            rows = np.flatnonzero(counts)
            own = counts if draws_by_weight else weights / weights.mean() * counts
            state.seed(int(rng.integers(2**31)))
            tree = grown(
                single[rows], target[rows], own[rows].astype(np.float64), state, feature_share=feature_share,
                least_split=least_split, least_leaf=least_leaf, has_random_splits=has_random_splits,
            )  # fmt: skip
            self.trees.append(tree)
            self._drawn.append(counts > 0)
            importance += tree.compute_feature_importances()
        self._values = [tree.value[:, 0, 0].copy() for tree in self.trees]
        self._spreads = [np.maximum(tree.impurity, 0.0) for tree in self.trees]
        self.importance: Array = importance / n_trees

    @classmethod
    def cart(
        cls, x: Array, y: Array, weights: Array, rng: np.random.Generator, *,
        n_trees: int, feature_share: float = 0.5, least_leaf: int = 2,
    ) -> Forest:  # fmt: skip
        """Breiman's forest: best splits, rows drawn as often as their weights say."""
        return cls(
            x, y, weights, rng, n_trees=n_trees, feature_share=feature_share, least_split=2, least_leaf=least_leaf,
            has_random_splits=False, draws_by_weight=True,
        )  # fmt: skip

    def _leaves(self, x: Array) -> list[NDArray[np.int64]]:
        single = np.ascontiguousarray(x, dtype=np.float32)
        return [tree.apply(single) for tree in self.trees]

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

    def predict_unseen(self, x: Array) -> Array:
        """(n,) mean, at the rows it was made from, over the trees that did not see the row; NaN where all did."""
        total, count = np.zeros(len(x)), np.zeros(len(x))
        for value, leaf, drawn in zip(self._values, self._leaves(x), self._drawn, strict=True):
            total += np.where(drawn, 0.0, value[leaf])
            count += ~drawn
        return np.where(count > 0, total / np.maximum(count, 1.0), np.nan)


def _bootstrap(weights: Array, rng: np.random.Generator, draws_by_weight: bool) -> NDArray[np.int64]:
    """How often each row is drawn, (n,)."""
    if draws_by_weight:
        return np.asarray(rng.multinomial(int(np.count_nonzero(weights)), weights / weights.sum()))
    return np.bincount(rng.integers(len(weights), size=len(weights)), minlength=len(weights))
