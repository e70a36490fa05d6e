"""One regression tree, grown by the library's own parts without the checks around them, which take most of a small tree's time.

The parts are internal to the library. Where a version of it has others, its public classes grow the same tree.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["grown", "grown_in_public"]

Array = NDArray[np.float64]

_DEEPEST = int(np.iinfo(np.int32).max)


def grown(
    x: NDArray[np.float32], y: Array, weights: Array, state: np.random.RandomState, *,
    feature_share: float, least_split: int, least_leaf: int, has_random_splits: bool,
) -> Any:  # fmt: skip
    """The tree as the library grows it.

    Args:
        x: (n, f) features, contiguous and finite, n >= 1.
        y: (n,) values, contiguous and finite.
        weights: (n,) of the rows, contiguous and finite, none negative, not all 0.
        state: of the splits.
        feature_share, least_split, least_leaf, has_random_splits: as for a `Forest`.
    """
    try:
        from sklearn.tree import _criterion, _splitter, _tree

        tree = _tree.Tree(x.shape[1], np.array([1], dtype=np.intp), 1)
        kind = _splitter.RandomSplitter if has_random_splits else _splitter.BestSplitter
        n_looked_at = max(1, int(feature_share * x.shape[1]))
        splitter = kind(_criterion.MSE(1, len(x)), n_looked_at, least_leaf, 0.0, state, None)
        least = max(least_split, 2 * least_leaf)
        builder = _tree.DepthFirstTreeBuilder(splitter, least, least_leaf, 0.0, _DEEPEST, 0.0)
        builder.build(tree, x, y.reshape(-1, 1), weights, None)
    except (ImportError, AttributeError, TypeError, ValueError):  # before the first draw of `state`
        return grown_in_public(
            x, y, weights, state, feature_share=feature_share, least_split=least_split, least_leaf=least_leaf,
            has_random_splits=has_random_splits,
        )  # fmt: skip
    return tree


def grown_in_public(
    x: NDArray[np.float32], y: Array, weights: Array, state: np.random.RandomState, *,
    feature_share: float, least_split: int, least_leaf: int, has_random_splits: bool,
) -> Any:  # fmt: skip
    """The same tree by the library's public classes."""
    import sklearn
    from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor

    kind = ExtraTreeRegressor if has_random_splits else DecisionTreeRegressor
    tree = kind(
        max_features=feature_share, min_samples_split=least_split, min_samples_leaf=least_leaf, random_state=state
    )
    with sklearn.config_context(skip_parameter_validation=True, assume_finite=True):
        tree.fit(x, y, sample_weight=weights, check_input=False)
    return tree.tree_
