"""trimtab history compact: give unused space back."""

from __future__ import annotations

from pathlib import Path

import click

from trimtab.cli.options import history_option, json_option, print_json, state_option

__all__ = ["command"]


@click.command("compact")
@state_option
@history_option
@json_option
def command(state_dir: Path, history_url: str | None, as_json: bool) -> int:
    """Free the space that the history does not use. Nothing is deleted; needs disk for a temporary copy."""
    from trimtab.history import compact, place_of
    from trimtab.units import format_size

    before, after = compact(place_of(history_url, state_dir))
    if as_json:
        print_json({"bytes_before": before, "bytes_after": after})
    else:
        click.echo(f"{format_size(before)} before, {format_size(after)} after")
    return 0
