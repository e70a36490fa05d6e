"""trimtab rollback: takes back what apply set."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from trimtab.cli.options import json_option, print_json, recover_first, state_option

__all__ = ["command"]


@click.command("rollback")
@click.argument("name")
@state_option
@json_option
def command(name: str, state_dir: Path, as_json: bool) -> int:
    """Take back what `trimtab apply NAME` set: the server's configuration is again what it was before."""
    from trimtab.study import rollback

    for done in recover_first(state_dir):
        if (done.study, done.purpose) == (name, "rollback"):  # one that was killed: it is finished now
            return _show(done.target, done.files, as_json)
    snapshot = rollback(name, state_dir)
    return _show(snapshot.target, snapshot.files, as_json)


def _show(target: str, files: Iterable[str], as_json: bool) -> int:
    if as_json:
        print_json({"target": target, "restored": sorted(files)})
    else:
        click.echo(f"target {target} has again the configuration it had before")
    return 0
