"""The values a report is made of; every string in them is safe to print (see `words.clean`)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from trimtab.records import GainInterval, Status, Trial
from trimtab.report.words import level_text, percent_text, ratio_text

__all__ = [
    "Contender",
    "Drift",
    "Failure",
    "Gain",
    "LabelChange",
    "LineWorth",
    "Memory",
    "PathPoint",
    "SettingChange",
    "TrialRow",
    "danger_of",
    "interval_title",
    "ratio_of",
]

_Z95 = 1.959964
"""97.5 % quantile of the normal distribution."""

_LARGEST_EXPONENT = 700.0

_CLEARLY_SLOWER = 0.9
"""From here on an operation type is called slower; nearer to 1 the few runs of one type do not tell."""

_DANGERS: Mapping[str, str] = {
    "durability": "a crash of the machine can lose committed transactions",
    "data_loss": "a crash can damage or lose data",
    "security": "it can weaken the protection of the data",
    "semantics": "it can change what the application sees",
    "replication": "it can hold up or lose replicas",
}


@dataclass(frozen=True, slots=True)
class Gain:
    """How many times better than the baseline, with its interval; ends are NaN when unknown."""

    estimate: float
    low: float
    high: float
    level: float = 0.95

    @classmethod
    def of(cls, found: GainInterval | None) -> Gain | None:
        """What a verdict says; None when it says nothing."""
        if found is None:
            return None
        low, high = (math.nan if end is None else end for end in (found.low, found.high))
        return cls(found.estimate, low, high, found.level)

    @classmethod
    def of_trial(cls, trial: Trial) -> Gain | None:
        """exp(-loss) with the interval of its standard error; None when the trial has no finite loss."""
        if trial.loss is None or not math.isfinite(trial.loss):
            return None
        return cls.of_loss(trial.loss, math.nan if trial.loss_se is None else trial.loss_se)

    @classmethod
    def of_loss(cls, loss: float, se: float) -> Gain:
        """That of a mean loss with its standard error (NaN: unknown)."""
        half = _Z95 * se
        return cls(ratio_of(loss), ratio_of(loss + half), ratio_of(loss - half))

    @property
    def interval_text(self) -> str:
        """`95 % interval 1.61 to 2.05`."""
        return f"{level_text(self.level)} interval {self.range_text}" if self.range_text else "interval unknown"

    @property
    def range_text(self) -> str:
        """`1.61 to 2.05`; "" when an end is unknown."""
        is_known = math.isfinite(self.low) and math.isfinite(self.high)
        return f"{ratio_text(self.low)} to {ratio_text(self.high)}" if is_known else ""

    @property
    def short_text(self) -> str:
        """`1.82 (1.61 to 2.05)`."""
        return f"{ratio_text(self.estimate)} ({self.range_text or 'interval unknown'})"


def danger_of(safety: str) -> str:
    """What settings of a safety class can cost, as the end of a sentence."""
    return _DANGERS.get(safety, "it is locked unless you open it")


def interval_title(gains: Iterable[Gain | None]) -> str:
    """What the intervals of several gains are called: `95 % interval` where all are of that level, else `interval`."""
    levels = {level_text(gain.level) for gain in gains if gain is not None} or {level_text(0.95)}
    return f"{levels.pop()} interval" if len(levels) == 1 else "interval"


def ratio_of(loss: float) -> float:
    """How many times better than the baseline: exp(-loss), infinite where no number is as large."""
    return math.inf if -loss >= _LARGEST_EXPONENT else math.exp(-loss)


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One knob that the winner changes."""

    knob: str
    old: str
    new: str
    restart: str
    safety: str
    doc: str

    @property
    def is_opened(self) -> bool:
        """Whether its safety class had to be opened."""
        return self.safety not in ("", "performance")


@dataclass(frozen=True, slots=True)
class LineWorth:
    """What one setting of the winner brings.

    Attributes:
        knob: its name.
        verdict: "proven", "undecided", "needed" (the config fails without it) or "not_measured".
        without: how many times as fast the config is with it as without it, the others in place; None: not measured.
        without_pairs: pairs behind it.
        beside: knobs dropped from the config after `without` was measured.
        alone: how many times as fast your config is with this setting alone; None: not measured.
        alone_pairs: pairs behind it.
        reason: why there is no figure, and what else is to be said.
    """

    knob: str
    verdict: str
    without: Gain | None
    without_pairs: int
    beside: int
    alone: Gain | None
    alone_pairs: int
    reason: str

    @property
    def words(self) -> str:
        """The verdict as people read it."""
        return self.verdict.replace("_", " ")


@dataclass(frozen=True, slots=True)
class PathPoint:
    """The best config measured with so many of the winner's settings; `n_runs` are its trials.

    Of the config that is printed (`is_winner`) `gain` is that of its proof; of all others it flatters: the best of many has luck.
    """

    n_knobs: int
    knobs: tuple[str, ...]
    gain: Gain
    n_runs: int
    is_winner: bool = False


@dataclass(frozen=True, slots=True)
class Contender:
    """One line of the comparison: yours, the advice, the tuned config; `value` in the objective's unit."""

    name: str
    value: float | None
    gain: Gain | None
    basis: str


@dataclass(frozen=True, slots=True)
class TrialRow:
    """One trial as the tables show it; `changed` is knob -> text, against the baseline config."""

    number: int
    role: str
    status: Status
    value: float | None
    low: float | None
    high: float | None
    gain: Gain | None
    changed: Mapping[str, str]
    cost_s: float
    started_at: float
    reason: str
    is_feasible: bool


@dataclass(frozen=True, slots=True)
class Failure:
    """Trials that failed in the same way; `log` holds the target's own lines of the first of them."""

    status: Status
    reason: str
    numbers: tuple[int, ...]
    log: tuple[str, ...]
    changed: Mapping[str, str]

    @property
    def words(self) -> str:
        """How they ended, as people read it."""
        return "measured" if self.status is Status.OK else self.status.replace("_", " ")


@dataclass(frozen=True, slots=True)
class LabelChange:
    """One operation type before and after; mean over the trials, weighted by operations; NaN when unknown."""

    label: str
    mean_before_ms: float
    mean_after_ms: float
    p95_before_ms: float
    p95_after_ms: float
    per_s_before: float
    per_s_after: float

    @property
    def times_faster(self) -> float:
        """Ratio of the mean latencies."""
        return self.mean_before_ms / self.mean_after_ms if self.mean_after_ms > 0 else math.nan

    @property
    def is_slower(self) -> bool:
        """Whether it clearly is."""
        return self.times_faster <= _CLEARLY_SLOWER

    @property
    def is_faster(self) -> bool:
        """Whether it clearly is."""
        return self.times_faster >= 1 / _CLEARLY_SLOWER


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes by consumer before and after, under a common budget (None: unknown)."""

    consumers: tuple[tuple[str, float, float], ...]
    budget: float | None

    @property
    def before(self) -> float:
        """All consumers with the baseline."""
        return sum(consumer[1] for consumer in self.consumers)

    @property
    def after(self) -> float:
        """All consumers with the winner."""
        return sum(consumer[2] for consumer in self.consumers)


@dataclass(frozen=True, slots=True)
class Drift:
    """The baseline over time: (trial, seconds since the study's first, value, low, high) and what it means.

    `relative_range` is the widest of those within one of the `n_contexts`.
    """

    points: tuple[tuple[int, float, float, float, float], ...]
    relative_range: float | None
    is_beyond_noise: bool | None
    n_contexts: int = 1

    @property
    def text(self) -> str:
        """One sentence."""
        if len(self.points) < 2 or self.relative_range is None:
            return "The baseline was measured too seldom to tell the machine's drift."
        sentence = f"{len(self.points)} baseline measurements span {percent_text(self.relative_range)}"
        if self.n_contexts > 1:  # of different speed: only those of one context can be compared
            sentence = f"{sentence} at most within one of {self.n_contexts} contexts"
            if len(self.points) <= self.n_contexts:
                return f"{sentence}, none of which was measured twice: the machine's drift is not known."
        if self.is_beyond_noise is None:
            return f"{sentence}."
        if self.is_beyond_noise:
            return f"{sentence}: the machine drifted, and gains are corrected for it."
        return f"{sentence}: no drift beyond the noise."
