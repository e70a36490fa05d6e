"""trimtab recover: puts back what a killed Trimtab left changed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.cli.options import json_option, print_json, state_option, tell_news

if TYPE_CHECKING:
    from trimtab.trial import Entry

__all__ = ["command"]


@click.command("recover")
@state_option
@json_option
@click.option("--check", is_flag=True, help="Only show what is open; exits with 1 when something needs recovery.")
def command(state_dir: Path, as_json: bool, check: bool) -> int:
    """Restore every server that a killed or crashed Trimtab may have left with a config of its own. Safe to repeat."""
    from trimtab.study import recover

    if check:
        return _check(state_dir, as_json)
    done = recover(state_dir)
    tell_news(state_dir)  # of a dead-man that was waited for
    if as_json:
        print_json({"recovered": [{"study": d.study, "target": d.target, "action": d.action} for d in done]})
    elif not done:
        click.echo("nothing to recover")
    for item in done if not as_json else []:
        click.echo(f"study {item.study}: target {item.target} {item.action}")
    return 0


def _check(state_dir: Path, as_json: bool) -> int:
    from trimtab.trial import Journal

    entries = Journal(state_dir).open_entries()
    tell_news(state_dir)  # of a dead-man that has ended since this command began
    if as_json:
        print_json({"open": [_row(entry) for entry in entries]})
    elif not entries:
        click.echo("nothing is open")
    for entry in entries if not as_json else []:
        row = _row(entry)
        who = f"pid {entry.pid} works on it" if row["is_alive"] else f"pid {entry.pid} is gone: run `trimtab recover`"
        click.echo(f"study {entry.study}: {entry.purpose} of {row['target']} since {row['opened_at']}; {who}")
    return 1 if any(not entry.is_owner_alive for entry in entries) else 0


def _row(entry: Entry) -> dict[str, object]:
    return {
        "study": entry.study,
        "purpose": entry.purpose,
        "target": ", ".join(snapshot.target for snapshot in entry.snapshots),
        "pid": entry.pid,
        "is_alive": entry.is_owner_alive,
        "opened_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(entry.opened_at)),
        "last_step": next((step for step, _ in reversed(entry.steps())), ""),
        "n_damaged_lines": entry.n_damaged,
    }
