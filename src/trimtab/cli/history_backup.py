"""trimtab history backup: a copy in one file."""

from __future__ import annotations

from pathlib import Path

import click

from trimtab.cli.options import history_option, json_option, print_json, state_option

__all__ = ["command"]


@click.command("backup")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@state_option
@history_option
@json_option
def command(file: Path, state_dir: Path, history_url: str | None, as_json: bool) -> int:
    """Copy the whole history into the new SQLite file FILE, even if the history is in PostgreSQL.

    Other processes may keep writing. To use the copy, name it with --history, or replace a damaged history with it.
    """
    from trimtab.history import back_up, place_of
    from trimtab.units import format_size

    size = back_up(place_of(history_url, state_dir), file)
    if as_json:
        print_json({"file": str(file), "bytes": size})
    else:
        click.echo(f"wrote {file}: {format_size(size)}")
    return 0
