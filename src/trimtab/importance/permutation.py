"""Ranks by how much worse the loss is predicted when a knob's values are shuffled.

Source: L. Breiman, "Random Forests", Machine Learning 45 (2001), §10; A. Fisher, C. Rudin, F. Dominici, "All Models are
Wrong, but Many are Useful", JMLR 20 (2019), eq. 3.3 (any model, held-out samples).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from trimtab.importance.ranking import Ranking, RankProblem
from trimtab.importance.resample import resampled
from trimtab.importance.samples import Samples, samples_of
from trimtab.importance.surrogate import Surrogate

__all__ = ["PermutationRanker"]

Array = NDArray[np.float64]

_SHUFFLES = 3
_HELD_SHARE = 0.3


class PermutationRanker:
    """How much worse a model predicts when one knob is shuffled, on samples that it did not see."""

    name: ClassVar[str] = "permutation"

    def rank(self, problem: RankProblem) -> Ranking:
        """See `Ranker`.

        Raises:
            UsageError: as `samples_of`.
        """
        return resampled(problem, samples_of(problem), self.name, _worsening)


def _worsening(samples: Samples, weights: Array, rng: np.random.Generator) -> Array:
    """What shuffling each knob adds to the squared error of samples held out; a resample leaves some out anyhow."""
    held = np.flatnonzero(weights == 0)
    if not len(held):
        held = rng.permutation(len(samples))[: max(2, int(_HELD_SHARE * len(samples)))]
        weights = weights.copy()
        weights[held] = 0.0
    surrogate = Surrogate(samples, weights, rng)
    x, y = samples.x[held], samples.y[held]
    error = float(np.mean((y - surrogate.predict(x)) ** 2))
    scores = np.zeros(len(samples.names))
    for knob in surrogate.knobs:
        own = samples.owner == knob
        shuffled = np.concatenate([x] * _SHUFFLES)
        orders = np.concatenate([rng.permutation(len(x)) for _ in range(_SHUFFLES)])
        shuffled[:, own] = x[np.ix_(orders, own)]
        scores[knob] = np.mean((np.tile(y, _SHUFFLES) - surrogate.predict(shuffled)) ** 2) - error
    return scores
