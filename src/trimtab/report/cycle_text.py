"""The contexts of a cycle in the terminal: three tables."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from trimtab.report.summary import Summary
from trimtab.report.tables import make_table

__all__ = ["cycle_tables"]


def cycle_tables(summary: Summary) -> RenderableType:
    """What each context's own best and the config for all are worth, how the search went by cycle, and knobs that differ."""
    parts: list[RenderableType] = [_contexts(summary), Text(""), _by_cycle(summary)]
    if summary.differing:
        parts += [Text("\nKnobs whose best values differ between the contexts"), _differing(summary)]
    return Group(*parts, *(Text(line, style="dim") for line in summary.cycle_notes))


def _contexts(summary: Summary) -> Table:
    table = make_table("context", "load", "trials", "its own best", "the config for all", "changing configs")
    for row in summary.contexts:
        own = Text(row.own, style="green" if row.own_is_proven else "")
        if row.reason:
            own.append(f"\n{row.reason}", style="dim")
        table.add_row(*map(Text, (row.name, row.load, row.trials)), own, Text(row.shared), Text(row.apply))
    return table


def _by_cycle(summary: Summary) -> Table:
    table = make_table("context", "best so far, by cycle", "slower than its own best, by cycle")
    for row in summary.contexts:
        table.add_row(Text(row.name), Text("  ".join(row.best)), Text("  ".join(row.regret)))
    return table


def _differing(summary: Summary) -> Table:
    table = make_table("knob", *(row.name for row in summary.contexts))
    for row in summary.differing:
        table.add_row(Text(row.knob, style="bold"), *map(Text, row.values))
    return table
