"""Prudence: a model's worth, less what a trial risks and costs beside its own time.

    symbol   meaning
    w        worth by the model: log expected improvement plus the log probability of being acceptable
    p        probability that the loss stays below what is bearable (ln 1.1: 10 % worse than the baseline)
    o        how far each knob lies outside all values that were seen to work, as shares of its range, summed
    c        cost of the trial relative to one that changes only what a reload makes effective
    b        how far it repeats what is blamed for a failure, 0 to 1: the probability that it fails for the same reason

    w + wariness · ln p - o / reach - ln c + grudge · ln(1 - 0.98 b)

A border (a cliff, a server that no longer starts) is unknown until it was crossed: configs that leave the tried ranges a
little are preferred to those that leave them far, so that each border is crossed once, not many times. The cost is that
of J. Snoek, H. Larochelle, R. Adams, "Practical Bayesian Optimization of Machine Learning Algorithms", NeurIPS 2012, §3.2
(expected improvement per second); p follows Y. Sui et al., "Safe Exploration for Optimization with Gaussian Processes",
ICML 2015, as a weight instead of a wall.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from trimtab.search.ledger import Evidence
from trimtab.search.surrogate import Surrogate

__all__ = ["Blame", "Envelope", "Prudence", "PrudentModel"]

Array = NDArray[np.float64]

_REMEMBERED = 60
"""Failures, the latest, that are held against candidates."""

_SAME = 1e-6

_CERTAIN = 0.98
"""Probability that a full repeat of what is blamed fails again; each of n suspects is to blame with probability 1/n."""

BEARABLE = math.log(1.1)
"""Loss up to which a trial is no nuisance."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """The ranges of features that were seen to work.

    Attributes:
        low, high: (f,) least and greatest of each feature.
        weight: (f,) how much leaving the range of each counts.
    """

    low: Array
    high: Array
    weight: Array

    @classmethod
    def of(cls, evidence: Sequence[Evidence], own: Array, weight: Array) -> Envelope:
        """The ranges of all acceptable configs and of the baseline's features `own` (f,)."""
        seen = np.array([own, *(e.features for e in evidence if e.is_acceptable)])
        return cls(seen.min(axis=0), seen.max(axis=0), weight)

    def outside(self, features: Array) -> Array:
        """How far the rows of `features` (m, f) lie outside, summed over features: (m,)."""
        beyond = np.maximum(self.low - features, 0.0) + np.maximum(features - self.high, 0.0)
        return np.asarray(beyond @ self.weight)


class Blame:
    """Which changes are to blame for failures, by elimination.

    A failed config is held against the acceptable one that is nearest to it: the features in which it went further than
    any acceptable config did are suspects; all in which the two differ, when none went further (a border of several knobs
    at once).

    Args:
        evidence: everything told.
        own: (f,) features of the baseline, which works.
    """

    def __init__(self, evidence: Sequence[Evidence], own: Array) -> None:
        good = np.array([own, *(e.features for e in evidence if e.is_acceptable)])
        low, high = good.min(axis=0), good.max(axis=0)
        failed = [e.features for e in evidence if not e.is_acceptable][-_REMEMBERED:]
        self._cases = [self._case(features, good, low, high) for features in failed]

    @staticmethod
    def _case(failed: Array, good: Array, low: Array, high: Array) -> tuple[NDArray[np.intp], Array, Array]:
        """The suspects, their values in the nearest acceptable config, and how far the failed one went from there."""
        changed = np.abs(good - failed)
        nearest = good[int(np.argmin((changed > _SAME).sum(axis=1) + changed.mean(axis=1)))]
        differs = np.abs(failed - nearest) > _SAME
        beyond = differs & ((failed < low - _SAME) | (failed > high + _SAME))
        suspects = np.flatnonzero(beyond if beyond.any() else differs)
        return suspects, nearest[suspects], failed[suspects] - nearest[suspects]

    def share(self, features: Array) -> Array:
        """How far the rows of `features` (m, f) repeat what is blamed for a failure: (m,), 0 to 1."""
        worst = np.zeros(len(features))
        for suspects, start, step in self._cases:
            if len(suspects):
                gone = (features[:, suspects] - start) / step
                worst = np.maximum(worst, np.clip(gone, 0.0, 1.0).mean(axis=1))
        return worst


@dataclass(frozen=True, slots=True)
class Prudence:
    """The weights, and what they are applied to.

    Attributes:
        wariness: exponent of p.
        reach: share of a knob's range by which leaving the envelope costs a factor of e.
        envelope: what was seen to work.
        costly: (f,) which features belong to knobs that need more than a reload.
        here: (f,) features of the config that the target has now.
        restart_cost: what a restart costs, in trials.
        grudge: weight of b.
        blame: finds b.
    """

    wariness: float
    reach: float
    envelope: Envelope
    costly: NDArray[np.bool_]
    here: Array
    restart_cost: float
    grudge: float
    blame: Blame

    def penalty(self, features: Array) -> Array:
        """What is taken from the worth of the rows of `features` (m, f), but for p: (m,)."""
        moved = np.any(np.abs(features - self.here)[:, self.costly] > 1e-9, axis=1)
        cost = np.log1p(self.restart_cost * moved) - self.grudge * np.log1p(-_CERTAIN * self.blame.share(features))
        return np.asarray(self.envelope.outside(features) / self.reach + cost)


class PrudentModel:
    """A surrogate seen with prudence; leaders are the surrogate's own."""

    def __init__(self, surrogate: Surrogate, prudence: Prudence) -> None:
        self._surrogate, self._prudence = surrogate, prudence
        self.leaders = surrogate.leaders
        self._bearable = float(surrogate.scale.forward(np.array([BEARABLE]))[0])

    def worth(self, features: Array) -> Array:
        """The formula above at the rows of `features` (m, f): (m,)."""
        worth = self._surrogate.worth(features) - self._prudence.penalty(features)
        if self._prudence.wariness:
            mean, sd = self._surrogate.process.predict(features)
            worth = worth + self._prudence.wariness * special.log_ndtr((self._bearable - mean) / sd)
        return np.asarray(worth)

    def expected_gain(self, features: Array) -> float:
        """As the surrogate's."""
        return self._surrogate.expected_gain(features)
