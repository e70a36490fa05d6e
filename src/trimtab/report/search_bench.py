"""The comparison of searchers on a replayed study: a table, and what it allows to say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from trimtab.report.printing import PLAIN_WIDTH, printing
from trimtab.report.words import clean, counted
from trimtab.units import format_percent

__all__ = ["print_search_bench"]


def print_search_bench(found: Mapping[str, Any], console: Console | None = None) -> None:
    """Prints the table and the verdict (to stdout unless `console` says otherwise).

    Args:
        found: as `trimtab bench-search --json` prints it (docs/reference/cli.md).
        console: where to.
    """
    how = "the nearest of them answers" if found["mode"] == "exact" else "a forest fitted to them answers"
    recorded = f"{counted(found['configs'], 'recorded config')}, {found['failed_configs']} of them failed"
    head = f"{clean(found['study'])}: {recorded}; {how}; noise {format_percent(found['noise'], 1)} a trial"
    with printing(console) as out:
        out.print(Text(head, style="dim"))
        width = out.width
        out.width = max(width, PLAIN_WIDTH)  # a narrow terminal breaks the lines: figures are not cut off
        out.print(_table(found))
        out.width = width
        out.print(Text(_verdict(found), style="bold"))


def _table(found: Mapping[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("searcher")
    for n in found["searchers"][0]["share"]:
        table.add_column(f"after {n}", justify="right")
    for head in ("failed", "s/ask", "chance"):
        table.add_column(head, justify="right")
    for score in found["searchers"]:
        shares = [f"{median:.2f} ({low:.2f}–{high:.2f})" for low, median, high in score["share"].values()]
        p = score["p_value"]
        chance = "" if p is None else f"{p:.3f}"
        table.add_row(
            Text(clean(score["searcher"])), *shares, format_percent(score["failed"], 1), f"{score['ask_s']:.3f}", chance
        )
    return table


def _verdict(found: Mapping[str, Any]) -> str:
    """Which did best, and whether that may be chance."""
    beaten = [clean(name) for name in found["beaten"]]
    level = [clean(s["searcher"]) for s in found["searchers"][1:] if s["searcher"] not in found["beaten"]]
    head = f"{clean(found['best'])} found most in {counted(found['trials'], 'trial')}"
    if not beaten and not level:
        return f"{head}: it was alone"
    if not beaten:
        return f"{head}, but the difference may be chance ({counted(found['repeats'], 'repeat')}): give more --repeats"
    text = f"{head}, more than {', '.join(beaten)} by more than chance"
    return f"{text}; not shown against {', '.join(level)}" if level else text
