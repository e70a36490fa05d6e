"""trimtab catalog: catalogues of systems that Trimtab does not know by itself."""

from __future__ import annotations

from pathlib import Path

import click

from trimtab.cli import in_repository
from trimtab.cli.options import json_option, print_json

__all__ = ["command"]


@click.group("catalog")
def command() -> None:
    """Check the catalogue of a program that you describe yourself (kind = "program")."""


@command.command("check", short_help="list everything that is wrong with a catalogue")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE.toml")
@json_option
def check(file: Path, as_json: bool) -> int:
    """List everything that is wrong with a catalogue, and what to do about it. Changes nothing. Exit code 1: it has errors."""
    from trimtab.systems.catalog_check import check_catalog
    from trimtab.units import counted

    report = check_catalog(file)
    if as_json:
        faults = [{"message": message, "hint": hint} for message, hint in report.faults]
        print_json({"is_sound": not faults, "kind": report.kind, "faults": faults, "n_knobs": report.n_knobs})
        return 1 if faults else 0
    for message, hint in report.faults:
        click.echo(message)
        click.echo(f"  hint: {in_repository(hint)}")
    if report.faults:
        click.echo(f"{counted(len(report.faults), 'fault')} in {file}", err=True)
        return 1
    held = f"{counted(report.n_knobs, 'knob')} in {counted(report.n_files, 'file')}"
    click.echo(f"sound: {report.kind}, {held}, {counted(report.n_constraints, 'constraint')}")
    return 0
