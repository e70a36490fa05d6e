"""Where the time of a study went, by the steps of its trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trimtab.records import Trial, Verdict, seconds_of
from trimtab.report.words import clean

__all__ = ["TimeShare", "time_shares"]

_STEPS: Mapping[str, str] = {
    "measure": "measurement",
    "warmup": "warm-up",
    "reset": "fresh data",
    "apply": "changing settings",
    "restore": "restoring settings",
    "preflight": "checks",
    "ask": "choosing configs",
    "other": "other",
    "failed": "failed runs",
}
"""Step of a trial -> what people read."""


@dataclass(frozen=True, slots=True)
class TimeShare:
    """One use of the wall clock; `name` is the step of a trial that it was."""

    name: str
    seconds: float
    share: float

    @property
    def words(self) -> str:
        """The step for people."""
        return _STEPS.get(self.name, self.name)


def time_shares(verdict: Verdict, trials: Sequence[Trial]) -> tuple[tuple[TimeShare, ...], float, float]:
    """The uses of the time, largest first, all of it in seconds, and what preparing the data took more."""
    split = dict(verdict.wall_s)
    if not split:
        split = {step: sum(seconds_of(trial.cost_s, step) for trial in trials) for step in _STEPS}
    # The data is prepared once, before the study proper; as a share it would hide what the trials cost.
    prepare_s = split.pop("prepare", 0.0)
    total = max(split.pop("total", 0.0), sum(split.values()))
    shares = [TimeShare(clean(name), s, s / total) for name, s in split.items() if s and total > 0]
    return tuple(sorted(shares, key=lambda share: -share.seconds)), total, prepare_s
