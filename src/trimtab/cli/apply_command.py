"""trimtab apply: sets a proven winner to stay."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.cli.options import history_option, json_option, print_json, recover_first, say, state_option

if TYPE_CHECKING:
    from trimtab.study import Change

__all__ = ["command"]


@click.command("apply")
@click.argument("name")
@state_option
@history_option
@json_option
@click.option("--yes", is_flag=True, help="Do not ask.")
def command(name: str, state_dir: Path, history_url: str | None, as_json: bool, yes: bool) -> int:
    """Set the proven winner of the study NAME on its server, to stay. Shows current → proposed first."""
    from trimtab.history import find_study, read_history_at
    from trimtab.study import apply_winner, winner_of

    recover_first(state_dir)
    with read_history_at(history_url, state_dir) as history:
        record = find_study(history, name)
    config = winner_of(record)

    def agrees(changes: Sequence[Change]) -> bool:
        for change in changes:
            late = " (restart)" if change.needs_restart else ""
            say(f"  {change.knob}: {change.current} → {change.proposed}{late}")
        return yes or _says_yes(name)

    effective = apply_winner(record, state_dir, agrees=agrees)
    if effective is None:
        say("nothing was changed")
        raise click.exceptions.Abort
    if as_json:
        print_json({"applied": dict(config), "effective": dict(effective), "undo": f"trimtab rollback {name}"})
    else:
        click.echo(f"applied {len(config)} setting{'' if len(config) == 1 else 's'}; undo: trimtab rollback {name}")
    return 0


def _says_yes(name: str) -> bool:
    from trimtab.errors import UsageError

    if sys.stdin is None or sys.stdin.closed or not sys.stdin.isatty():
        raise UsageError(
            "nobody can answer: stdin is no terminal; nothing was changed",
            hint=f"to set these without a question: trimtab apply {name} --yes",
        )
    return click.confirm("Set these on the server?", err=True)
