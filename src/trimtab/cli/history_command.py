"""trimtab history: the studies that are kept."""

from __future__ import annotations

import datetime
from pathlib import Path

import click

from trimtab.cli.options import history_option, json_option, print_json, state_option

__all__ = ["command"]


@click.group("history")
def command() -> None:
    """What was measured before."""


@command.command("list")
@state_option
@history_option
@json_option
def list_studies(state_dir: Path, history_url: str | None, as_json: bool) -> int:
    """List every study: name, status, trials, when, objective, workload."""
    from trimtab.study import open_history_at

    with open_history_at(history_url, state_dir) as history:
        rows = [
            {
                "name": study.name,
                "status": study.status,
                "n_trials": len(history.trials(study.id)),
                "created_at": study.created_at,
                "objective": study.objective,
                "workload": study.context.workload,
            }
            for study in history.studies()
        ]
    if as_json:
        print_json({"studies": rows})
        return 0
    if not rows:
        click.echo("no studies yet")
    for row in rows:
        when = datetime.datetime.fromtimestamp(float(row["created_at"])).strftime("%Y-%m-%d %H:%M")  # type: ignore[arg-type]
        click.echo(
            f"{row['name']}  {row['status']}  {row['n_trials']} trials  {when}  {row['objective']}  {row['workload']}"
        )
    return 0
