"""trimtab rollback: takes back what apply set."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from trimtab.cli.options import json_option, print_json, say, state_option, study_named
from trimtab.errors import UsageError

__all__ = ["command"]


@click.command("rollback")
@click.argument("name", metavar="NAME|STUDY.toml")
@state_option
@json_option
@click.option("--leave", is_flag=True, help="Keep the applied config for good: give up its rollback point.")
def command(name: str, state_dir: Path, as_json: bool, leave: bool) -> int:
    """Undo `trimtab apply NAME`: restore the settings that it changed on the server."""
    from trimtab.study import leave_applied, rollback

    name = _name_of(name)
    if leave:
        folder = leave_applied(state_dir, name)
        if as_json:
            print_json({"left": name, "found": str(folder)})
        else:
            click.echo(f"study {name} is not rolled back any more; the files as found lie in {folder}")
        return 0
    taken = rollback(name, state_dir, say=say)
    return _show(taken.target, taken.files, taken.action, as_json)


def _name_of(text: str) -> str:
    """The study's name. Its file, which may have been changed since, says no more: whoever has broken it must find the way."""
    try:
        return study_named(text)[1]
    except UsageError as error:
        hint = "give the study's name instead of its file: trimtab rollback NAME (`trimtab recover --show` lists it)"
        raise UsageError(error.message, hint=hint) from error


def _show(target: str, files: Iterable[str], action: str, as_json: bool) -> int:
    if as_json:
        print_json({"target": target, "restored": sorted(files), "action": action})
    elif "left as it is" in action:
        click.echo(f"target {target}: {action}")
    else:
        click.echo(f"target {target}: all settings that Trimtab changed have their former values again")
    return 0
