"""trimtab history check: is all of it readable."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from trimtab.cli.options import history_option, json_option, print_json, say, state_option

__all__ = ["command"]


@click.command("check")
@state_option
@history_option
@json_option
def command(state_dir: Path, history_url: str | None, as_json: bool) -> int:
    """Read the whole history and list what is damaged. Changes nothing. Exit code 1: something is damaged."""
    from trimtab.history import check, place_of
    from trimtab.report.words import counted, one_line

    health = check(place_of(history_url, state_dir))
    if as_json:
        print_json({"is_sound": not health.findings, **asdict(health)})
        return 1 if health.findings else 0
    for note in health.notes:
        say(f"note: {one_line(note)}")
    for finding in health.findings:
        click.echo(one_line(finding))
    if health.findings:
        # No export opens a file that is damaged itself.
        more = ", or save what can be read with `trimtab history export`" if health.n_studies else ""
        say(f"nothing was changed; restore a backup{more}")
        return 1
    if health.notes:  # its rows are of another version
        click.echo("no damage found, as far as this version can tell")
        return 0
    click.echo(f"sound: {counted(health.n_studies, 'study')} with {counted(health.n_trials, 'trial')}")
    return 0
