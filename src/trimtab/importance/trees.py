"""A forest of regression trees without the library's overhead for each call.

Source: L. Breiman, "Random Forests", Machine Learning 45 (2001).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Forest"]

Array = NDArray[np.float64]


class Forest:
    """CART trees, each grown on a bootstrap sample of its own.

    Args:
        x: (n, f) features, n >= 2.
        y: (n,) values, finite.
        weights: (n,) precision of each value; rows of weight 0 take no part.
        rng: of the bootstrap and the choice of features.
        n_trees: how many.
        feature_share: share of the features looked at for each split.
        least_leaf: fewest samples of a leaf.
    """

    def __init__(
        self,
        x: Array,
        y: Array,
        weights: Array,
        rng: np.random.Generator,
        *,
        n_trees: int,
        feature_share: float = 0.5,
        least_leaf: int = 2,
    ) -> None:
        # Imported late: the report reads this room's values and must not wait for the library.
        import sklearn
        from sklearn.tree import DecisionTreeRegressor

        single, target = np.ascontiguousarray(x, dtype=np.float32), np.ascontiguousarray(y)
        self.trees: list[Any] = []
        self._drawn: list[NDArray[np.bool_]] = []
        importance = np.zeros(x.shape[1])
        n_rows = int(np.count_nonzero(weights))
        with sklearn.config_context(skip_parameter_validation=True):
            for _ in range(n_trees):
                drawn = rng.multinomial(n_rows, weights / weights.sum())
                rows = np.flatnonzero(drawn)
                tree = DecisionTreeRegressor(
                    max_features=feature_share, min_samples_leaf=least_leaf, random_state=int(rng.integers(2**31))
                )
                tree.fit(single[rows], target[rows], sample_weight=drawn[rows].astype(np.float64), check_input=False)
                self.trees.append(tree.tree_)
                self._drawn.append(drawn > 0)
                importance += tree.feature_importances_
        self._values = [tree.value[:, 0, 0].copy() for tree in self.trees]
        self.importance: Array = importance / n_trees

    def predict(self, x: Array) -> Array:
        """Mean over the trees at the rows of `x` (m, f): (m,)."""
        single = np.ascontiguousarray(x, dtype=np.float32)
        found = np.zeros(len(x))
        for tree, value in zip(self.trees, self._values, strict=True):
            found += value[tree.apply(single)]
        return found / len(self.trees)

    def predict_unseen(self, x: Array) -> Array:
        """(n,) mean, at the rows it was made from, over the trees that did not see the row; NaN where all did."""
        single = np.ascontiguousarray(x, dtype=np.float32)
        total, count = np.zeros(len(x)), np.zeros(len(x))
        for tree, value, drawn in zip(self.trees, self._values, self._drawn, strict=True):
            total += np.where(drawn, 0.0, value[tree.apply(single)])
            count += ~drawn
        return np.where(count > 0, total / np.maximum(count, 1.0), np.nan)
