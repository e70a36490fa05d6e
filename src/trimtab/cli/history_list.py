"""trimtab history list: every study."""

from __future__ import annotations

from pathlib import Path

import click

from trimtab.cli.options import history_option, json_option, state_option

__all__ = ["command"]


@click.command("list")
@state_option
@history_option
@json_option
def command(state_dir: Path, history_url: str | None, as_json: bool) -> int:
    """List every study: id, name, status, trials, when, objective, target, version, workload, and what it was imported from."""
    from trimtab.cli.history_options import print_studies
    from trimtab.history import read_history_at

    with read_history_at(history_url, state_dir) as history:
        studies = history.summaries()
    if not studies and not as_json:
        click.echo("no studies yet")
        return 0
    print_studies(studies, as_json)
    return 0
