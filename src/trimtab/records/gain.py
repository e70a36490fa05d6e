"""GainInterval: how many times better one thing is than another, as verdicts keep it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from trimtab.measure import Interval

__all__ = ["GainInterval"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GainInterval:
    """How many times better than something else: 1.82 is 1.82 times as fast; an end that is not finite is None."""

    estimate: float
    low: float | None = None
    high: float | None = None
    level: float = 0.95

    @classmethod
    def of(cls, interval: Interval | None) -> GainInterval | None:
        """The interval of a ratio; None when there is none, or its estimate is not finite."""
        if interval is None or not math.isfinite(interval.estimate):
            return None
        low, high = (end if math.isfinite(end) else None for end in (interval.low, interval.high))
        return cls(estimate=interval.estimate, low=low, high=high, level=interval.level)
