"""Ranks by how much a random forest lowers the squared error where it splits on a knob.

Source: K. Kanellis, R. Alagappan, S. Venkataraman, "Too Many Knobs to Tune? Towards Faster Database Tuning by
Pre-selecting Important Knobs", HotStorage 2020; L. Breiman et al., "Classification and Regression Trees", 1984 (impurity).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from trimtab.importance.ranking import Ranking, RankProblem
from trimtab.importance.resample import resampled
from trimtab.importance.samples import Samples, samples_of
from trimtab.importance.surrogate import screened
from trimtab.model.forest import Forest

__all__ = ["ForestRanker"]

Array = NDArray[np.float64]

_N_TREES = 40


class ForestRanker:
    """Impurity importance; says how much of the variance a knob takes, not in which direction."""

    name: ClassVar[str] = "forest"

    def rank(self, problem: RankProblem) -> Ranking:
        """See `Ranker`.

        Raises:
            UsageError: as `samples_of`.
        """
        return resampled(problem, samples_of(problem), self.name, _impurity)


def _impurity(samples: Samples, weights: Array, rng: np.random.Generator) -> Array:
    kept = np.flatnonzero(np.isin(samples.owner, screened(samples, weights)))
    forest = Forest.cart(samples.x[:, kept], samples.y, weights, rng, n_trees=_N_TREES, feature_share=1.0)
    scores = np.zeros(len(samples.names))
    np.add.at(scores, samples.owner[kept], forest.importance)
    return scores
