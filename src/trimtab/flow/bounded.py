"""Bounded: what the pairs of a proof say of one constraint of the objective."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from trimtab.measure import Looks, PairedSequence, anytime_interval
from trimtab.records import MetricConstraint
from trimtab.units import format_figure

__all__ = ["Bounded"]

_LEVEL = 0.9
"""Two-sided: whether the baseline misses the bound is a question of one side, and has 5 % of error."""


class Bounded:
    """The values of a constraint's metric in the pairs of a proof.

    Whether the constraint is met counts on average, since one run may miss what the next one meets.
    """

    def __init__(self, constraint: MetricConstraint, level: float, looks: Looks) -> None:
        """Takes the constraint, the confidence with which the candidate must be better in its metric, and when one
        looks."""
        self._constraint, self._level, self._looks = constraint, level, looks
        self._before: list[float] = []
        self._after: list[float] = []

    def add(self, before: float, after: float) -> None:
        """Takes the metric's values of one more pair."""
        self._before.append(before)
        self._after.append(after)

    @property
    def is_met_before(self) -> bool:
        """Whether the baseline meets it."""
        return self._constraint.is_met_by(_mean(self._before))

    @property
    def is_met_after(self) -> bool:
        """Whether the candidate meets it."""
        return self._constraint.is_met_by(_mean(self._after))

    @property
    def is_proven(self) -> bool:
        """Whether the pairs prove that the baseline misses it and that the candidate is better in its metric, however often one
        looks; never where a value is not positive and finite, or the bound is 0."""
        bound, values = self._constraint.bound, [*self._before, *self._after]
        if not values or bound <= 0 or not all(0 < value < math.inf for value in values):
            return False
        sequence = PairedSequence(is_maximised=self._constraint.at_least, level=self._level, looks=self._looks)
        for before, after in zip(self._before, self._after, strict=True):
            sequence.add(before, after)
        sign = -1.0 if self._constraint.at_least else 1.0
        missed_by = anytime_interval(sign * np.log(np.array(self._before) / bound), _LEVEL)
        return sequence.verdict() == "better" and missed_by.low > 0

    @property
    def text(self) -> str:
        """The constraint, with the means before and after."""
        unit = self._constraint.unit
        before, after = (format_figure(_mean(values), 3) for values in (self._before, self._after))
        return f"{self._constraint}: {before}{unit} before, {after}{unit} after"


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else math.nan
