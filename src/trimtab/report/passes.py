"""What each pass of a search in passes brought and cost, one row each."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.records import PassSummary, Verdict
from trimtab.report.words import clean, counted, first_line, percent_text
from trimtab.units import format_duration

__all__ = ["PassRow", "passes_note", "passes_rows"]

_KINDS = {"restart": "need a restart", "reload": "take effect at once"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRow:
    """One pass, as people read it.

    Attributes:
        number: from 1 on.
        what: how many knobs it searched, and of which tier they are, or what they need.
        knobs: their names.
        trials, cost_s: that it made, and seconds that they took; `cost` as text.
        gain: how many times as fast the best config was after it as before it; by single runs, so it flatters.
        has_gained: whether that is more than the noise; `brought` says it in words.
    """

    number: int
    what: str
    knobs: tuple[str, ...]
    trials: int
    cost_s: float
    cost: str
    gain: float
    has_gained: bool
    brought: str


def passes_rows(verdict: Verdict) -> tuple[PassRow, ...]:
    """The passes in order; nothing for a search over all knobs at once."""
    if verdict.passes is None:
        return ()
    kind = verdict.passes.plan.kind
    return tuple(_row(number, each, kind) for number, each in enumerate(verdict.passes.passes, 1))


def _what(name: str, kind: str) -> str:
    """Which knobs a pass of that name searched: a tier's, or those of a restart class."""
    return f"of {clean(name)}" if kind == "tiers" or name not in _KINDS else f"that {_KINDS[name]}"


def _row(number: int, each: PassSummary, kind: str) -> PassRow:
    return PassRow(
        number=number,
        what=f"{counted(len(each.knobs), 'knob')} {_what(each.name, kind)}",
        knobs=tuple(clean(name) for name in each.knobs),
        trials=each.trials,
        cost_s=each.cost_s,
        cost=format_duration(each.cost_s),
        gain=each.gain,
        has_gained=each.has_gained,
        brought=_brought(each),
    )


def _brought(each: PassSummary) -> str:
    if not each.has_gained:
        return "nothing"
    # The first config that meets the constraints may be no faster than one that misses them.
    return f"+{percent_text(each.gain - 1)}" if each.gain > 1 else "a config that meets the constraints"


def passes_note(verdict: Verdict) -> str:
    """Why the passes ended, "" when they did not, or there were none."""
    return "" if verdict.passes is None else first_line(verdict.passes.end)
