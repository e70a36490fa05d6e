"""trimtab plugins: what is registered, with its options."""

from __future__ import annotations

import inspect
import re
from typing import Any, get_args

import click

from trimtab.cli.options import json_option, print_json, toml_text
from trimtab.errors import UsageError

__all__ = ["command"]

_FOR_PROGRAMMERS = re.compile(r"(?:A|See) `\w+`(?:; immutable after construction|; see `\w+`)?\.")
"""Sentences of a docstring that say nothing to who lists plug-ins."""


def _describe(group: Any, name: str) -> dict[str, Any]:
    """One plug-in; with the reason under `problem` when it cannot be imported."""
    from trimtab import plugins

    try:
        cls = plugins.load(group, name)
    except UsageError as error:
        return {"doc": "", "options": {}, "problem": f"{error.message}: {error.hint}"}
    options = getattr(cls, "OPTIONS", {})
    about = " ".join((inspect.getdoc(cls) or "").partition("\n\n")[0].split())
    return {
        "doc": _FOR_PROGRAMMERS.sub("", about).strip(),
        "options": {name: {"default": default, "help": text} for name, (default, text) in options.items()},
    }


@click.command("plugins")
@json_option
def command(as_json: bool) -> int:
    """List targets, workloads, searchers, rankers, layers and formats by their short name, with their options."""
    from trimtab import plugins

    groups = get_args(plugins.Group)
    if as_json:
        print_json({group: {name: _describe(group, name) for name in plugins.names(group)} for group in groups})
        return 0
    for group in groups:
        click.echo(f"{group}:")
        for name in plugins.names(group):
            entry = _describe(group, name)  # which imports it: none waits for the others
            click.echo(f"  {name}: {entry.get('problem') or entry['doc']}".rstrip(": "))
            for option, row in entry["options"].items():
                click.echo(f"    {option} = {toml_text(row['default'])}: {row['help']}")
    return 0
