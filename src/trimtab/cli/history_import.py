"""trimtab history import: studies from a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.cli.options import history_option, json_option, print_json, say, state_option

if TYPE_CHECKING:
    from trimtab.history import Arrivals

__all__ = ["command", "print_arrivals"]


@click.command("import")
@click.argument("place", metavar="FILE|URL")
@click.option(
    "--format", "format_name", metavar="NAME", help="Format; default: by the file's suffix. See `trimtab plugins`."
)
@state_option
@history_option
@json_option
def command(place: str, format_name: str | None, state_dir: Path, history_url: str | None, as_json: bool) -> int:
    """Import every study of FILE (or of a TAUdb at a postgresql:// URL), all or none. Executes nothing in it.

    Skips studies that are already present. Renames a study if its name is in use. Warns about data that could not be mapped.
    """
    from trimtab.history import load_format, open_history_at, read_file, take_in

    imported = read_file(load_format(format_name, place), place)
    with open_history_at(history_url, state_dir) as history:
        arrivals = take_in(history, imported, place)
    print_arrivals(arrivals, as_json)
    return 0


def print_arrivals(arrivals: Arrivals, as_json: bool) -> None:
    """What came, and under which name it is kept."""
    from trimtab.report.words import one_line

    if as_json:
        studies = [{"name": one.name, "kept_as": one.kept_as} for one in arrivals.studies]
        print_json({"studies": studies, "notes": list(arrivals.notes)})
        return
    for note in arrivals.notes:
        say(f"note: {one_line(note)}")
    for one in arrivals.studies:
        if one.kept_as is None:
            click.echo(f"{one_line(one.name)}: already present, skipped")
        elif one.kept_as != one.name:
            click.echo(f"{one_line(one.name)}: imported as {one_line(one.kept_as)} (name in use)")
        else:
            click.echo(f"{one_line(one.name)}: imported")
    if not arrivals.studies:
        click.echo("the file contains no study")
