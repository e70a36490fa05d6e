"""trimtab apply: sets a proven winner to stay."""

from __future__ import annotations

from pathlib import Path

import click

from trimtab.cli.options import history_option, json_option, print_json, say, state_option

__all__ = ["command"]


@click.command("apply")
@click.argument("name")
@state_option
@history_option
@json_option
@click.option("--yes", is_flag=True, help="Do not ask.")
def command(name: str, state_dir: Path, history_url: str | None, as_json: bool, yes: bool) -> int:
    """Set the proven winner of the study NAME on its server, to stay. Shows current → proposed first."""
    from trimtab.study import apply_winner, find_study, open_history_at, winner_of

    with open_history_at(history_url, state_dir) as history:
        record = find_study(history, name)
    config = winner_of(record)
    knobs = record.verdict["knobs"]
    for knob in config:
        row = knobs[knob]
        say(f"  {knob}: {row['old_text']} → {row['new_text']}" + (" (restart)" if row["restart"] == "restart" else ""))
    if not yes:
        click.confirm("Set these on the server?", abort=True, err=True)
    effective = apply_winner(record, state_dir)
    if as_json:
        print_json({"applied": dict(config), "effective": dict(effective), "undo": f"trimtab rollback {name}"})
    else:
        click.echo(f"applied {len(config)} settings; undo: trimtab rollback {name}")
    return 0
