"""Verdict: what a study found, as the history keeps it and the report reads it; frozen values with the keys of its JSON.

Fields without a default are always there; the others may be missing in what an older version stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from trimtab.records.cycle import CycleSummary
from trimtab.records.gain import GainInterval
from trimtab.records.prior import Play
from trimtab.space import Config, Value

__all__ = [
    "AblationSummary",
    "BenchSummary",
    "Condition",
    "DesignPlan",
    "DriftPoint",
    "DriftSummary",
    "DroppedKnob",
    "GainInterval",
    "KeptRanks",
    "KnobChange",
    "KnobWorth",
    "MemoryUse",
    "PassSummary",
    "PassesPlan",
    "PassesSummary",
    "PastTrials",
    "PlaysSummary",
    "PruneLevel",
    "PrunePlan",
    "PruneSummary",
    "StopKind",
    "TriedPlay",
    "Verdict",
    "WarmStartSummary",
    "WarmStudy",
]


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of the acceptance rule: whether it is met, and the figures in words."""

    name: str
    is_met: bool
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobChange:
    """One knob that the winner changes: what its catalogue says of it, and its values, bare and as text."""

    doc: str = ""
    unit: str = ""
    restart: str = ""
    safety: str = ""
    old: Value | None = None
    new: Value | None = None
    old_text: str = ""
    new_text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobWorth:
    """What one setting of the winner is worth.

    Attributes:
        verdict: "proven", "undecided", "needed" (the config fails without it) or "not_measured".
        reason: why there is no figure, and what else is to be said.
        without: how many times better the config is with it than without it; None when not measured.
        without_pairs: pairs behind it.
        beside: knobs that were dropped from the config after `without` was measured.
        alone: how many times better than the baseline it is on its own; None when not measured.
        alone_pairs: pairs behind it.
    """

    verdict: str = "not_measured"
    reason: str = ""
    without: GainInterval | None = None
    without_pairs: int = 0
    beside: int = 0
    alone: GainInterval | None = None
    alone_pairs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedKnob:
    """One setting that was reset: why (with figures), "needless" or "not_told_apart", and the worth of its `group`."""

    knob: str
    reason: str
    verdict: str = ""
    group: tuple[str, ...] = ()
    worth: GainInterval | None = None
    pairs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AblationSummary:
    """How the winner was reduced.

    Attributes:
        end: "finished", "budget", "failed" or "off".
        tolerance: worth (relative) that is not worth a setting.
        runs: that it took.
        went_back: why the larger config was proven after all; "" when it was not.
        full: what the search's winner changed.
    """

    end: str
    tolerance: float
    runs: int
    went_back: str
    full: Config


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """Bytes by consumer, and "budget", with the baseline and with the winner."""

    baseline: Mapping[str, float] = field(default_factory=dict)
    winner: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftPoint:
    """One measurement of the baseline: number of its trial, seconds since the epoch, value of the objective."""

    trial: int
    at: float
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftSummary:
    """The baseline over time; `range` (relative) is None when it was never measured."""

    points: tuple[DriftPoint, ...]
    range: float | None
    is_beyond_noise: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedPlay:
    """One play that was measured.

    Attributes:
        play, reason: its name, and why an expert would try it.
        settings: text of the value by knob.
        beside: plays that were in place when it was tried.
        trial: number of its run, the first of several.
        kept: whether the plays after it were tried on top of it; of plays tried together, whether it is thought to help.
        verdict: "helps", "harms", "not_told_apart" or "failed".
        worth: how many times better the config was with it; None when it failed.
        note: why it failed, ended early or was not tried whole; of plays tried together, in how many runs it was.
    """

    play: str
    reason: str
    settings: Mapping[str, str]
    beside: tuple[str, ...]
    trial: int
    kept: bool
    verdict: str
    worth: GainInterval | None
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaysSummary:
    """The plays of a study.

    Attributes:
        plan: in the order planned.
        tried: what each brought.
        left_out: play -> why it was not tried.
        together: names of those that were to be tried several at a time, as settled when the study began.
        are_together: whether several were in each run, and told apart by what their runs have in common.
    """

    plan: tuple[Play, ...] = ()
    tried: tuple[TriedPlay, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    together: tuple[str, ...] = ()
    are_together: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunePlan:
    """What a pruned study settles before its search begins.

    Attributes:
        want: knobs to tune at first; 0: as many as the ranking says are worth it.
        runs: of the first level; 0: the budget has no room for it, and all knobs are tuned.
        carried: knobs as another study ranked them, most important first; empty for none.
        carried_knee: how many of those are worth tuning.
        source: what the carried ranks are of, in words.
    """

    want: int = 0
    runs: int = 0
    carried: tuple[str, ...] = ()
    carried_knee: int = 0
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneLevel:
    """How many knobs were tuned, and how many trials there were before that."""

    n_knobs: int
    n_trials_before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneSummary:
    """What a pruned search did: knobs by their ranks, levels, what it tuned and left out; the plan alone while it runs."""

    plan: PrunePlan
    order: tuple[str, ...] = ()
    levels: tuple[PruneLevel, ...] = ()
    tuned: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassesPlan:
    """What a search in passes settles before it begins.

    Attributes:
        kind: "restart-first", "alternate" or "tiers".
        room: trials that the search will have, of the cost of a run of the baseline; None when that is not known.
        unit_cost_s: what such a run costs; 0: every trial counts as one.
    """

    kind: str
    room: int | None = None
    unit_cost_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PassSummary:
    """What one pass brought and cost.

    Attributes:
        name: "restart" or "reload", what its knobs need; or that of the tier that they are of.
        knobs: that it searched.
        trials: that it made, runs of the baseline not counted.
        cost_s: seconds that they took, runs of the baseline included.
        gain: how many times better the best config was after it than before it, by the search's own measurements.
        has_gained: whether that is more than 1 % and more than the noise of the best config.
    """

    name: str
    knobs: tuple[str, ...]
    trials: int
    cost_s: float
    gain: float
    has_gained: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PassesSummary:
    """A search in passes: its plan, the passes in order (none while only the plan is settled), and why they ended."""

    plan: PassesPlan
    passes: tuple[PassSummary, ...] = ()
    end: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmStudy:
    """One past study that served: how near it is (0 to 1, with its parts), and what became of its prior.

    Attributes:
        id: in the history of then.
        study, name: its name, and the same with its id where two have one name.
        digest: hash of what was taken over.
        n_trials: that it had.
        nearness, overlap, workload, machine: in [0, 1].
        dropped: why its prior was dropped; "" when it was not.
        weight: of its prior at the end of the search.
    """

    id: int
    study: str
    name: str
    digest: str = ""
    n_trials: int
    nearness: float
    overlap: float = 0.0
    workload: float = 0.0
    machine: float = 0.0
    dropped: str = ""
    weight: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PastTrials:
    """What was taken over of one past study: values by the columns `knobs`, one row a config."""

    name: str
    nearness: float
    knobs: tuple[str, ...]
    configs: tuple[tuple[Value, ...], ...]
    losses: tuple[float, ...]
    failed: tuple[tuple[Value, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmStartSummary:
    """What a study took over from past ones; `past` and `starts` are None once it cannot be resumed any more."""

    studies: tuple[WarmStudy, ...] = ()
    n_asks: int = 0
    past: tuple[PastTrials, ...] | None = None
    starts: tuple[Config, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRanks:
    """Which knobs explain the gain, ranked when the study had `n_trials`; `consensus` as the importance room gives it."""

    n_trials: int
    text: str
    consensus: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignPlan:
    """Runs of an experimental design: runs asked for by batch (None: as many as it needs), and how many it has."""

    kind: str
    batches: tuple[int | None, ...]
    n_runs: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchSummary:
    """What a measurement of one config showed.

    Attributes:
        settings: what was set beside the running config; empty for the running config itself.
        value: the objective over all runs; None for a search of a rate.
        noise: relative standard deviation from run to run; None for fewer than two runs.
        slo: promise about the latency whose highest rate was searched; "" for plain runs.
        rate_per_s, broken_at_per_s: highest rate that kept it, and the lowest above that broke it; None when there is none.
        limit: what broke it: "server", "generator" or "none"; "" for plain runs.
    """

    settings: Config = field(default_factory=lambda: Config({}))
    value: GainInterval | None = None
    noise: float | None = None
    slo: str = ""
    rate_per_s: float | None = None
    broken_at_per_s: float | None = None
    limit: str = ""


class StopKind(StrEnum):
    """Why a study measures no more, for programs; `Verdict.stop_reason` says it in a sentence."""

    UNSAID = ""
    """It goes on; or whoever stored it did not say."""
    OVER = "over"
    """Its search, or the runs of its design, came to their end."""
    UNPROVEN = "unproven"
    """The same, and no proof was to follow."""
    ASKED = "asked"
    """It was asked to stop before its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of a study; docs/reference/history.md describes each field. Equal to `Verdict()` while nothing is known.

    Attributes:
        result: "better", "no_improvement", "interrupted", "design" or "bench"; "" while the study runs. One that was stopped
            after a proof was accepted is "better".
    """

    result: str = ""
    metric: str = ""
    objective: str = ""
    unit: str = ""
    noise_floor: float | None = None
    stop_reason: str = ""
    stop_kind: StopKind = StopKind.UNSAID
    candidate: Config | None = None
    config: Config = field(default_factory=lambda: Config({}))
    knobs: Mapping[str, KnobChange] = field(default_factory=dict)
    search_gain: float | None = None
    gain: GainInterval | None = None
    advice_gain: GainInterval | None = None
    beside_advice: GainInterval | None = None
    pairs: tuple[tuple[float, float], ...] = ()
    advice_pairs: tuple[tuple[float, float], ...] = ()
    delta: float | None = None
    failure: str = ""
    is_by_constraints: bool = False
    conditions: tuple[Condition, ...] = ()
    refused_by: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    ablation: AblationSummary | None = None
    dropped: tuple[DroppedKnob, ...] = ()
    worth: Mapping[str, KnobWorth] = field(default_factory=dict)
    plays: PlaysSummary | None = None
    pruned: PruneSummary | None = None
    passes: PassesSummary | None = None
    warm_start: WarmStartSummary | None = None
    cycle: CycleSummary | None = None
    design: DesignPlan | None = None
    bench: BenchSummary | None = None
    importance: KeptRanks | None = None
    memory: MemoryUse | None = None
    unlocked: tuple[str, ...] = ()
    drift: DriftSummary | None = None
    wall_s: Mapping[str, float] = field(default_factory=dict)
    log_lines: tuple[str, ...] = ()
    fragment: str = ""
    fragment_path: str = ""
    apply_command: str = ""
    undo_command: str = ""

    @property
    def is_stopped(self) -> bool:
        """Whether somebody stopped the study before its end: the same command goes on with it, also where a winner is proven."""
        return self.stop_kind is StopKind.ASKED

    @property
    def is_better(self) -> bool:
        """Whether a winner was proven."""
        return self.result == "better"
