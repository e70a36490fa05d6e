"""machines: results of clients on unequal machines are made comparable by runs of the baseline that all of them make.

    symbol     meaning                                                                       unit
    level(c)   geometric mean of a figure over the newest runs of the baseline by client c   the figure's
    reference  the level that the first client has shown                                     the figure's

A result of client c is multiplied by reference / level(c): what it would be on the first machine, if speed is a factor.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from trimtab.measure import Interval
from trimtab.session.layer import Layer, Setting
from trimtab.session.point import Point, Result

__all__ = ["MachinesLayer"]

_NEWEST = 4
"""Runs of the baseline that a level rests on: few, so that it follows a machine whose speed changes."""


class MachinesLayer(Layer):
    """Each client runs the baseline before its first point and then now and again; its results are corrected by that."""

    NAME: ClassVar[str] = "machines"
    OPTIONS: ClassVar[Mapping[str, tuple[Any, str]]] = {
        "times": (2, "runs of the baseline before a client's first point, 1 to 100"),
        "every": (10, "points after which a client runs the baseline again; 0: never"),
    }

    def __init__(self, options: Mapping[str, Any], setting: Setting) -> None:
        super().__init__(options, setting)
        self._require("times", 1 <= self.options["times"] <= 100, "1 to 100")
        self._require("every", 0 <= self.options["every"] <= 100_000, "0 to 100000")
        self._runs: dict[str, deque[Mapping[str, float]]] = {}
        self._n_runs: dict[str, int] = {}
        self._since: dict[str, int] = {}
        self._reference: dict[str, float] = {}

    def wants(self, client: str) -> bool:
        every: int = self.options["every"]
        times: int = self.options["times"]
        is_due = every > 0 and self._since.get(client, 0) >= every
        return self._n_runs.get(client, 0) < times or is_due

    def repeated(self, client: str, result: Result) -> None:
        runs = self._runs.setdefault(client, deque(maxlen=max(_NEWEST, self.options["times"])))
        runs.append({name: seen.estimate for name, seen in result.figures.items() if seen.estimate > 0})
        self._n_runs[client] = self._n_runs.get(client, 0) + 1
        self._since[client] = 0
        if not self._reference and self._n_runs[client] >= self.options["times"]:
            self._reference = self._level(client)

    def incoming(self, point: Point, result: Result) -> Result:
        if not point.client or not result.figures:  # without a client: a trial of the history, which was corrected then
            return result
        self._since[point.client] = self._since.get(point.client, 0) + 1
        level = self._level(point.client)
        known = [name for name in result.figures if name in level and name in self._reference]
        if not known:
            return result
        figures = {name: _scaled(result.figures[name], self._reference[name] / level[name]) for name in known}
        # Single latencies are not kept: percentiles of a mixture of machines would be those of none.
        return replace(result, figures={**result.figures, **figures}, histogram=b"")

    def says(self) -> dict[str, float]:
        """Each client's speed against the reference: 0.5 needs twice the time, or does half the work."""
        name = self.setting.task.objective.metric
        is_rate = self.setting.task.objective.is_maximised
        found = {}
        for client in self._runs:
            level = self._level(client)
            if name in level and name in self._reference:
                ratio = level[name] / self._reference[name]
                found[client] = ratio if is_rate else 1 / ratio
        return found

    def _level(self, client: str) -> dict[str, float]:
        runs = self._runs.get(client, ())
        names = [name for name in (runs[0] if runs else ()) if all(name in run for run in runs)]
        return {name: math.exp(sum(math.log(run[name]) for run in runs) / len(runs)) for name in names}


def _scaled(interval: Interval, factor: float) -> Interval:
    return replace(
        interval,
        estimate=interval.estimate * factor,
        low=interval.low * factor,
        high=interval.high * factor,
        se=interval.se * factor,
    )
