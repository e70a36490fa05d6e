"""The classes of queries that a server tunes itself, as text for a terminal; and what of them a study may begin with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from trimtab.errors import HistoryError
from trimtab.records import CLASSES_KEPT, QueryClass, classes_from_json
from trimtab.report.words import one_line
from trimtab.units import counted, format_duration, format_figure

if TYPE_CHECKING:
    from trimtab.history import Event

__all__ = ["advice_toml", "engine_text", "kept_classes"]

_MAJORITY = 0.5
"""A setting that helps classes with less than this share of the time is no advice for a whole server."""


def engine_text(classes: Sequence[QueryClass]) -> str:
    """A line for each class and one for all; times in milliseconds."""
    if not classes:
        return "no classes yet: no statement has taken trimtab.min_duration often enough"
    rows = [f"{'query id':>20}  {'calls':>7} {'probes':>6} {'own ms':>9}  {'gain (95 %)':<22} settings, or why none"]
    rows += [_row(each) for each in classes]
    total, lost, gained = (
        sum(getattr(each, name) for each in classes) for name in ("total_ms", "lost_ms", "gained_ms")
    )
    rows.append(
        f"{counted(len(classes), 'class')}: {format_duration(total / 1e3)} in all, "
        f"{format_duration(lost / 1e3)} lost to probing, {format_duration(gained / 1e3)} gained"
    )
    return "\n".join(rows)


def _row(each: QueryClass) -> str:
    gain = f"{each.gain:.2f} ({each.gain_low:.2f} to {each.gain_high:.2f})" if each.settings and each.gain != 1 else "-"
    settings = ", ".join(f"{name}={value}" for name, value in each.settings.items())
    why = one_line(settings or (f"left alone: {each.left_alone}" if each.left_alone else each.phase))
    return f"{one_line(each.query_id):>20}  {each.calls:>7} {each.probes:>6} {format_figure(each.own_ms):>9}  {gain:<22} {why}"


def kept_classes(events: Iterable[Event]) -> list[QueryClass] | None:
    """What a study's server had learnt at its end; None where it does not tune its queries.

    Raises:
        HistoryError: what is stored is none of that.
    """
    found = None
    try:
        for event in events:
            if event.kind == CLASSES_KEPT:
                found = classes_from_json(event.text)
    except ValueError as error:
        raise HistoryError(
            f"an event of kind={CLASSES_KEPT!r} cannot be read: {error}",
            hint="it is damaged, or was written by another version of Trimtab",
        ) from error
    return found


def advice_toml(classes: Sequence[QueryClass]) -> str:
    """Settings that were faster for more than half of all measured time, as lines of a study file; a comment without any."""
    total = sum(each.total_ms for each in classes) or 1.0
    helped: dict[tuple[str, str], float] = defaultdict(float)
    for each in classes:
        if each.is_faster:
            for name, value in each.settings.items():
                helped[name, value] += each.total_ms
    lines = [
        f'{name} = "{value}"  # faster for {ms / total:.0%} of the time'
        for (name, value), ms in sorted(helped.items())
        if ms / total > _MAJORITY
    ]
    if not lines:
        return "# no setting was faster for most of the measured time"
    return "\n".join(["[search.advice]  # measured instead of the rule-based advice", *lines])
