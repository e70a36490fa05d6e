"""trimtab recover: puts back what a killed Trimtab left changed."""

from __future__ import annotations

from pathlib import Path

import click

from trimtab.cli.options import json_option, print_json, state_option

__all__ = ["command"]


@click.command("recover")
@state_option
@json_option
def command(state_dir: Path, as_json: bool) -> int:
    """Restore every server that a killed or crashed Trimtab may have left with a config of its own. Safe to repeat."""
    from trimtab.study import recover

    done = recover(state_dir)
    if as_json:
        print_json({"recovered": [{"study": d.study, "target": d.target, "action": d.action} for d in done]})
    elif not done:
        click.echo("nothing to recover")
    for item in done if not as_json else []:
        click.echo(f"study {item.study}: target {item.target} {item.action}")
    return 0
