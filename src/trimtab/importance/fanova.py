"""Ranks by a functional analysis of variance of a random forest: main effects and interactions of two.

| symbol | meaning |
| --- | --- |
| l, d | leaves of a tree, knobs |
| low, high | (l, d) ends of each leaf's box in the unit cube |
| mass | (l,) volume of each leaf |

Source: F. Hutter, H. Hoos, K. Leyton-Brown, "An Efficient Approach for Assessing Hyperparameter Importance", ICML 2014,
eq. 4 to 8 and algorithm 2: marginals of a tree are sums over its leaves, so the variances are exact.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from trimtab.importance.ranking import Ranking, RankProblem
from trimtab.importance.resample import resampled
from trimtab.importance.samples import Samples, samples_of
from trimtab.importance.surrogate import screened
from trimtab.model.forest import Forest

__all__ = ["FanovaRanker"]

Array = NDArray[np.float64]

_N_TREES = 16
_LEAST_LEAF = 3
_PAIR_KNOBS = 6
"""Interactions are taken among so many knobs, those with the largest main effects."""


class FanovaRanker:
    """Share of the variance over the unit cube; half of an interaction goes to each of its two knobs.

    The cube gives special values and choices bins of their own (`trimtab.space`), and that share of the weight.
    """

    name: ClassVar[str] = "fanova"

    def rank(self, problem: RankProblem) -> Ranking:
        """See `Ranker`.

        Raises:
            UsageError: as `samples_of`.
        """
        return resampled(problem, samples_of(problem), self.name, _variances)


def _variances(samples: Samples, weights: Array, rng: np.random.Generator) -> Array:
    kept = screened(samples, weights)
    forest = Forest.cart(
        samples.points[:, kept], samples.y, weights, rng, n_trees=_N_TREES, feature_share=0.7, least_leaf=_LEAST_LEAF
    )
    total = np.zeros(len(kept))
    for tree in forest.trees:
        total += _of_tree(tree, len(kept))
    scores = np.zeros(len(samples.names))
    scores[kept] = total
    return scores


def _of_tree(tree: Any, d: int) -> Array:
    """(d,) main effects and half of the interactions, as shares of the tree's variance."""
    low, high, value = _leaves(tree, d)
    width = high - low
    mass = width.prod(axis=1)
    value = value - float(mass @ value)
    variance = float(mass @ value**2)
    found = np.zeros(d)
    if variance <= 0.0:
        return found
    used = [int(j) for j in np.unique(tree.feature[tree.feature >= 0])]
    steps = {j: _steps(low[:, j], high[:, j]) for j in used}
    mains = {j: (mass * value / width[:, j]) @ steps[j][0] for j in used}
    for j in used:
        found[j] = steps[j][1] @ mains[j] ** 2
    strongest = sorted(used, key=lambda j: -found[j])[:_PAIR_KNOBS]
    for j, k in combinations(strongest, 2):
        (inside_j, lengths_j), (inside_k, lengths_k) = steps[j], steps[k]
        joint = (inside_j * (mass * value / (width[:, j] * width[:, k]))[:, None]).T @ inside_k
        joint = joint - mains[j][:, None] - mains[k][None, :]
        half = float(lengths_j @ joint**2 @ lengths_k) / 2
        found[j] += half
        found[k] += half
    return found / variance


def _steps(low: Array, high: Array) -> tuple[Array, Array]:
    """(l, s) which of the s pieces of an axis lie in each leaf, and (s,) their lengths."""
    edges = np.unique(np.concatenate([low, high]))
    middle = (edges[1:] + edges[:-1]) / 2
    inside = (low[:, None] <= middle) & (middle < high[:, None])
    return inside.astype(np.float64), np.diff(edges)


def _leaves(tree: Any, d: int) -> tuple[Array, Array, Array]:
    """Boxes and values of a tree's leaves."""
    n = tree.node_count
    low, high = np.zeros((n, d)), np.ones((n, d))
    # Children come after their parents.
    for node in range(n):
        left, right, feature = tree.children_left[node], tree.children_right[node], tree.feature[node]
        if left < 0:
            continue
        for child in (left, right):
            low[child], high[child] = low[node], high[node]
        high[left, feature] = low[right, feature] = tree.threshold[node]
    is_leaf = tree.children_left < 0
    return low[is_leaf], high[is_leaf], tree.value[is_leaf, 0, 0]
