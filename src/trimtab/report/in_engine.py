"""The classes of queries that a server tunes itself, as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from trimtab.records import QueryClass
from trimtab.units import format_figure

__all__ = ["engine_text"]


def engine_text(classes: Sequence[QueryClass]) -> str:
    """A line for each class and one for all; times in milliseconds."""
    if not classes:
        return "no classes yet: no statement has taken trimtab.min_duration often enough"
    rows = [f"{'query id':>20}  {'calls':>7} {'probes':>6} {'own ms':>9}  {'gain (95 %)':<22} settings, or why none"]
    rows += [_row(each) for each in classes]
    total, lost, gained = (
        sum(getattr(each, name) for each in classes) for name in ("total_ms", "lost_ms", "gained_ms")
    )
    n = f"{len(classes)} class{'es' if len(classes) != 1 else ''}"
    rows.append(
        f"{n}: {format_figure(total / 1e3)} s in all, {format_figure(lost / 1e3)} s lost to probing, "
        f"{format_figure(gained / 1e3)} s gained"
    )
    return "\n".join(rows)


def _row(each: QueryClass) -> str:
    gain = f"{each.gain:.2f} ({each.gain_low:.2f} to {each.gain_high:.2f})" if each.settings and each.gain != 1 else "-"
    settings = ", ".join(f"{name}={value}" for name, value in each.settings.items())
    why = settings or (f"left alone: {each.left_alone}" if each.left_alone else each.phase)
    return f"{each.query_id:>20}  {each.calls:>7} {each.probes:>6} {format_figure(each.own_ms):>9}  {gain:<22} {why}"
