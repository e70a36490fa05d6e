"""trimtab history query: the studies that fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from trimtab.cli.history_options import query_options
from trimtab.cli.options import history_option, json_option, state_option

__all__ = ["command"]


@click.command("query")
@query_options
@state_option
@history_option
@json_option
def command(state_dir: Path, history_url: str | None, as_json: bool, **options: Any) -> int:
    """List the studies that match every filter. Exit code 1: no study matches."""
    from trimtab.cli.history_options import print_studies, query_of
    from trimtab.history import read_history_at

    query = query_of(options)
    with read_history_at(history_url, state_dir) as history:
        studies = history.summaries(query)
    if not studies and not as_json:
        click.echo("no study fits")
        return 1
    print_studies(studies, as_json)
    return 0 if studies else 1
