"""The contexts of a cycle as people read them: what each one's own best and the one config for all are worth there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trimtab.records import ContextResult, Trial, Verdict
from trimtab.report.facts import Gain
from trimtab.report.values import ValueTexts
from trimtab.report.words import (
    clean,
    counted,
    failed_in_proof,
    first_line,
    number_text,
    percent_text,
    ratio_text,
    workload_text,
)
from trimtab.units import format_duration

if TYPE_CHECKING:
    from trimtab.history import StudyRecord

__all__ = [
    "ContextRow",
    "DifferingRow",
    "are_of_several",
    "context_rows",
    "cycle_headline",
    "cycle_lines",
    "differing_rows",
]

_UNKNOWN = "–"
_MOST_CYCLES = 8
"""Cycles shown in a row: of more, the first and the last ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRow:
    """One context.

    Attributes:
        name, load: its name, and what is asked in it.
        trials: search trials, failed ones named.
        own: gain of its own best config, and whether it is proven; `own_is_proven`.
        reason: why it is not; "" when it is.
        settings: what that config changes.
        shared: gain of the config for the whole cycle here.
        best, regret: by cycle, the best so far and the mean distance of the trials from the context's own best.
        apply: time for changing configs, of all its time.
    """

    name: str
    load: str
    trials: str
    own: str
    own_is_proven: bool
    reason: str
    settings: str
    shared: str
    best: tuple[str, ...]
    regret: tuple[str, ...]
    apply: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingRow:
    """A knob whose best value is not the same in all contexts: its values in the order of the contexts."""

    knob: str
    values: tuple[str, ...]


def are_of_several(trials: Sequence[Trial]) -> bool:
    """Whether trials were made under more than one context: then figures of them all have no mean worth showing."""
    return any(trial.context != trials[0].context for trial in trials)


def context_rows(study: StudyRecord) -> tuple[ContextRow, ...]:
    """One row a context; nothing for a study of one context."""
    cycle = study.verdict.cycle
    return () if cycle is None else tuple(_row(ValueTexts(study), result) for result in cycle.contexts)


def _row(texts: ValueTexts, result: ContextResult) -> ContextRow:
    failed = f" ({result.failed} failed)" if result.failed else ""
    context, changed = result.context, sorted(result.config.items())
    return ContextRow(
        name=clean(result.name),
        load=workload_text(context),
        trials=f"{result.trials}{failed}",
        own=_own(result),
        own_is_proven=result.is_proven,
        reason=first_line(result.reason),
        settings=", ".join(f"{clean(name)} = {texts.of(name, value)}" for name, value in changed),
        shared=gain.short_text if (gain := Gain.of(result.shared)) is not None else _UNKNOWN,
        best=tuple(_UNKNOWN if value is None else ratio_text(value) for value in _shown(result.best)),
        regret=tuple(_UNKNOWN if value is None else percent_text(max(0.0, value)) for value in _shown(result.regret)),
        apply=f"{format_duration(result.apply_s)} of {format_duration(result.cost_s)}",
    )


def _own(result: ContextResult) -> str:
    if not result.config:
        return "yours"
    if (gain := Gain.of(result.gain)) is not None:
        return gain.short_text + ("" if result.is_proven else ", not proven")
    return _UNKNOWN if result.search_gain is None else f"{ratio_text(result.search_gain)} in the search, not proven"


def _shown(values: Sequence[float | None]) -> Sequence[float | None]:
    return [values[i] for i in shown_cycles(len(values))]


def shown_cycles(n: int) -> tuple[int, ...]:
    """Which of `n` cycles are shown, from 0: all of few, the first and the last ones of many."""
    half = _MOST_CYCLES // 2
    return tuple(range(n)) if n <= _MOST_CYCLES else (*range(half), *range(n - half, n))


def differing_rows(study: StudyRecord) -> tuple[DifferingRow, ...]:
    """The knobs whose best values differ between contexts, with the values; of a best that is not proven nothing is shown."""
    cycle, texts = study.verdict.cycle, ValueTexts(study)
    if cycle is None:
        return ()

    def value(name: str, result: ContextResult) -> str:
        return texts.of(name, result.config.get(name, study.baseline.get(name))) if result.is_proven else _UNKNOWN

    changed = {name for result in cycle.contexts if result.is_proven for name in result.config}
    return tuple(
        DifferingRow(knob=clean(name), values=tuple(value(name, result) for result in cycle.contexts))
        for name in cycle.differing
        if name in changed
    )


def cycle_lines(verdict: Verdict) -> tuple[str, ...]:
    """What has to be known to read the rows."""
    cycle = verdict.cycle
    if cycle is None:
        return ()
    unproven = cycle.differing and not any(result.is_proven for result in cycle.contexts)
    mixed = "each gain is against your config under the same context"
    return (
        f"{counted(cycle.cycles, 'cycle')} begun, searched by {clean(cycle.searcher)}; {mixed}.",
        "By cycle: the best trial so far (times your config), and how much slower than the context's own best the trials were on "
        "average; failed ones are not in it.",
        "`trimtab apply` sets the one config for the whole cycle: a server has one config at a time.",
        *(["No context's own best is proven: the knobs in which they differ are not shown."] if unproven else []),
    )


def cycle_headline(verdict: Verdict) -> str:
    """The outcome of a study over a cycle in one sentence."""
    cycle, gain = verdict.cycle, Gain.of(verdict.gain)
    if cycle is None:
        return ""
    n, n_own = len(cycle.contexts), sum(result.is_proven for result in cycle.contexts)
    own = f"A separate best config is proven for {n_own} of {counted(n, 'context')}."
    if verdict.is_better and gain is not None:
        return (
            f"This config is {ratio_text(gain.estimate)} times as fast as yours over the whole cycle "
            f"({gain.interval_text}): {counted(len(verdict.config), 'setting')}. {own}"
        )
    return f"No one config is proven to be better over the whole cycle{_why(verdict, gain)}. {own} Keep your config."


def _why(verdict: Verdict, gain: Gain | None) -> str:
    unmet = [first_line(row.text) for row in verdict.conditions if not row.is_met]
    if verdict.failure:
        return f": {failed_in_proof(first_line(verdict.failure))}"
    if unmet:
        return f": {'; '.join(unmet)}"
    if gain is None or not math.isfinite(gain.estimate):
        return ": no config beat yours on average"
    return f": the best candidate is {number_text(gain.estimate)} times as fast ({gain.interval_text})"
