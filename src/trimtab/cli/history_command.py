"""trimtab history: what was measured before: find it, show it, share it, look after it. One file per subcommand."""

from __future__ import annotations

from importlib import import_module
from typing import cast

import click

__all__ = ["SUBCOMMANDS", "command"]

SUBCOMMANDS: dict[str, str] = {
    "list": "every study",
    "query": "the studies that fit",
    "show": "one study and its trials",
    "export": "write studies to a file",
    "import": "take in studies from a file",
    "merge": "take in every study of another history",
    "check": "read all of it and tell what is damaged",
    "backup": "a copy in one file",
    "compact": "give unused space back",
}
"""Subcommand -> one line of help; its code is in trimtab.cli.history_<subcommand>."""


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in SUBCOMMANDS:
            return None
        return cast(click.Command, import_module(f"trimtab.cli.history_{cmd_name}").command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(SUBCOMMANDS.items()))


@click.group("history", cls=_LazyGroup)
def command() -> None:
    """What was measured before: find it, show it, share it, look after it."""
