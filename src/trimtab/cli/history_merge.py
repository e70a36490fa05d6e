"""trimtab history merge: every study of another history."""

from __future__ import annotations

from pathlib import Path

import click

from trimtab.cli.options import history_option, json_option, state_option

__all__ = ["command"]


@click.command("merge")
@click.argument("place", metavar="FILE|URL")
@state_option
@history_option
@json_option
def command(place: str, state_dir: Path, history_url: str | None, as_json: bool) -> int:
    """Import every study of another history, a file or a postgresql:// URL, all or none.

    The other history is not changed. Skips studies that are already present. Renames a study if its name is in use.
    """
    from trimtab.cli.history_import import print_arrivals
    from trimtab.history import open_history_at, reading_history, take_in

    with reading_history(place) as imported, open_history_at(history_url, state_dir) as history:
        arrivals = take_in(history, imported, place)
    print_arrivals(arrivals, as_json)
    return 0
