"""trimtab knobs: the live catalogue."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from trimtab.cli.options import json_option, print_json, state_option, study_file_argument
from trimtab.units import counted

__all__ = ["command"]

_RAW = re.compile(r" \([^)]* in \w+\)(?: in steps of \d+)?")
"""The range once more in the server's own unit, and its grid: --json has them."""

_PIPED_WIDTH = 160
"""Of a file or pipe, in which nothing has to be folded."""


def _table(rows: list[dict[str, Any]], selected: set[str], tunes: str) -> None:
    from rich.table import Table
    from rich.text import Text

    from trimtab.report.printing import printing

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("knob", "running", "useful range", "needs", "what it does, or why it is locked"):
        table.add_column(column, overflow="fold", no_wrap=column == "knob")
    for row in rows:
        mark = "* " if row["name"] in selected else "  "
        why = f"locked: {row['lock_reason']}" if row["lock_reason"] else row["doc"]
        cells = (mark + row["name"], row["running_text"], _RAW.sub("", row["range"]), row["restart"], why)
        table.add_row(*map(Text, cells))  # as text: a value may hold [brackets] or :colons:
    with printing(width=_PIPED_WIDTH) as out:
        out.print(table)
        out.print(Text(f"\n{counted(len(rows), 'knob')}; * marks the {len(selected)} that this study {tunes}"))


@click.command("knobs")
@study_file_argument
@state_option
@json_option
@click.option("--all", "show_all", is_flag=True, help="Include settings that Trimtab's catalogue does not know.")
def command(study_file: Path, state_dir: Path, as_json: bool, show_all: bool) -> int:
    """Show each knob's running value, useful range, restart class and safety class."""
    from trimtab.study import load_study_file, open_stage

    with open_stage(load_study_file(study_file), state_dir, changes=False) as stage:
        selected, tunes = set(stage.space.knobs), "would tune" if stage.locked else "tunes"
        states = [s for s in stage.states.values() if show_all or s.is_curated or s.knob.name in selected]
        rows = [state.to_json() for state in sorted(states, key=lambda state: state.knob.name)]
    if as_json:
        print_json({"knobs": rows, "selected": sorted(selected)})
    else:
        _table(rows, selected, tunes)
    return 0
