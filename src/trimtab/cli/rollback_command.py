"""trimtab rollback: takes back what apply set."""

from __future__ import annotations

from pathlib import Path

import click

from trimtab.cli.options import json_option, print_json, state_option

__all__ = ["command"]


@click.command("rollback")
@click.argument("name")
@state_option
@json_option
def command(name: str, state_dir: Path, as_json: bool) -> int:
    """Take back what `trimtab apply NAME` set: the server's configuration is again what it was before."""
    from trimtab.study import rollback

    snapshot = rollback(name, state_dir)
    if as_json:
        print_json({"target": snapshot.target, "restored": sorted(snapshot.files)})
    else:
        click.echo(f"target {snapshot.target} has again the configuration it had before")
    return 0
