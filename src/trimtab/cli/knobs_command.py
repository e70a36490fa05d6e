"""trimtab knobs: the live catalogue."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trimtab.cli.options import json_option, print_json, state_option, study_file_argument, tell_changed
from trimtab.units import counted

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["command"]

_RAW = re.compile(r" \([^)]* in \w+\)(?: in steps of \d+)?")
"""The range once more in the server's own unit, and its grid: --json has them."""

_PIPED_WIDTH = 160
"""Of a file or pipe, in which nothing has to be folded."""

_ROOMY = 120
"""Columns from which on a description has one of its own; in fewer it is below the knob's name."""
_RANGE_WIDTH = 18


def _table(rows: list[dict[str, Any]], selected: set[str], *, is_narrow: bool) -> Table:
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    about = "what it does, or why it is locked"
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column(f"knob\n    {about}" if is_narrow else "knob", overflow="fold", no_wrap=not is_narrow)
    table.add_column("running", overflow="fold")
    table.add_column("useful range", overflow="fold", max_width=_RANGE_WIDTH if is_narrow else None)
    table.add_column("needs", no_wrap=True)
    if not is_narrow:
        table.add_column(about, overflow="fold")
    for row in rows:
        name = Text(("* " if row["name"] in selected else "  ") + row["name"])
        why = Text(_locked(row["lock_reason"]) if row["lock_reason"] else row["doc"])
        cells = (row["running_text"], _RAW.sub("", row["range"]), row["restart"])
        told = map(Text, cells)  # as text: a value may hold [brackets] or :colons:
        below = Group(name, Padding(why, (0, 0, 0, 4)))
        table.add_row(*([below, *told] if is_narrow else [name, *told, why]))
    return table


def _locked(reason: str) -> str:
    """Why a knob is locked; a safety class says that itself."""
    return reason if " is locked" in reason else f"locked: {reason}"


def _print(rows: list[dict[str, Any]], selected: set[str], tunes: str) -> None:
    from rich.text import Text

    from trimtab.report.printing import printing

    with printing(width=_PIPED_WIDTH) as out:
        out.print(_table(rows, selected, is_narrow=out.width < _ROOMY))
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
        tell_changed(stage, state_dir)
        rows = [state.to_json() for state in sorted(states, key=lambda state: state.knob.name)]
    if as_json:
        print_json({"knobs": rows, "selected": sorted(selected)})
    else:
        _print(rows, selected, tunes)
    return 0
