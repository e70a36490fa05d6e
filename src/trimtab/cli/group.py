"""The `trimtab` group: knows its commands by name and imports one only when it is called."""

from __future__ import annotations

from importlib import import_module
from typing import cast

import click

from trimtab import __version__

__all__ = ["COMMANDS", "trimtab"]

COMMANDS: dict[str, str] = {
    "init": "write an explained study file for what is found",
    "doctor": "what can be reached, read, changed, restarted; changes nothing",
    "knobs": "the catalogue: running value, useful range, restart and safety class",
    "advise": "a rule-based config without measuring",
    "bench": "measure one config, with the noise floor of this machine",
    "profile": "a live server's own statements as a workload",
    "tune": "find a better config and prove it",
    "rank": "which knobs matter",
    "report": "what was tried, found and proven; how to undo",
    "apply": "set a proven winner to stay",
    "rollback": "take back what apply set",
    "recover": "put back what a killed Trimtab left changed",
    "history": "what was measured before: find, show, share, look after it",
    "bench-search": "which searcher would have done best on a past study",
    "plugins": "list targets, workloads, searchers, rankers and formats",
}
"""Command -> one line of help; its code is in trimtab.cli.<command>_command."""


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"trimtab.cli.{cmd_name.replace('-', '_')}_command")
        return cast(click.Command, module.command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="trimtab")
def trimtab() -> None:
    """Find the few settings that make a server faster, prove it by measurement, and set them safely.

    A study file (`trimtab init`) says what is tuned, under which load, and for how long. Nothing stays changed unless
    `trimtab apply` is used.
    """
