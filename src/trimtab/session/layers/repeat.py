"""repeat: each point is measured several times, and the runs count as one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from trimtab.measure import Interval, floored, merge_histograms, pooled_interval
from trimtab.session.layer import AGAIN, Again, Layer, Setting
from trimtab.session.point import Point, Result

__all__ = ["RepeatLayer"]

_BY: Mapping[str, Callable[[Sequence[float]], float]] = {
    "min": min,
    "max": max,
    "mean": lambda values: float(np.mean(values)),
    "median": lambda values: float(np.median(values)),
}


class RepeatLayer(Layer):
    """Each point is measured `times` times; its figure is their min, max, mean or median. A failure ends it at once."""

    NAME: ClassVar[str] = "repeat"
    OPTIONS: ClassVar[Mapping[str, tuple[Any, str]]] = {
        "times": (3, "runs of each point, 1 to 1000"),
        "by": ("median", "what of the runs counts: min, max, mean or median"),
    }

    def __init__(self, options: Mapping[str, Any], setting: Setting) -> None:
        super().__init__(options, setting)
        self._require("times", 1 <= self.options["times"] <= 1000, "1 to 1000")
        self._require("by", self.options["by"] in _BY, f"one of {', '.join(_BY)}")
        self._runs: dict[int, list[Result]] = {}

    def incoming(self, point: Point, result: Result) -> Result | Again:
        runs = self._runs.setdefault(point.number, [])
        if not result.figures:
            del self._runs[point.number]
            return result
        runs.append(result)
        if len(runs) < self.options["times"]:
            return AGAIN
        del self._runs[point.number]
        return Result(
            figures={name: self._together([run.figures[name] for run in runs]) for name in _shared(runs)},
            histogram=merge_histograms(run.histogram for run in runs) if all(run.histogram for run in runs) else b"",
            cost_s=sum(run.cost_s for run in runs),
        )

    def _together(self, seen: Sequence[Interval]) -> Interval:
        values = [interval.estimate for interval in seen]
        chosen = _BY[self.options["by"]](values)
        spread = pooled_interval(values)
        if not math.isfinite(spread.se):
            return Interval(chosen, chosen, chosen, n=len(values))
        half = spread.high - spread.estimate
        around = Interval(chosen, chosen - half, chosen + half, level=spread.level, se=spread.se, n=len(values))
        return floored(around, 0.0)


def _shared(runs: Sequence[Result]) -> list[str]:
    return [name for name in runs[0].figures if all(name in run.figures for run in runs)]
