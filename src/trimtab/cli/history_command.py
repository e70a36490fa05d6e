"""trimtab history: what was measured before: find it, show it, share it, look after it. One file per subcommand."""

from __future__ import annotations

import click

from trimtab.cli.group import LazyGroup

__all__ = ["SUBCOMMANDS", "command"]

SUBCOMMANDS: dict[str, str] = {
    "list": "every study",
    "query": "list the studies that match filters",
    "show": "show one study and its trials",
    "export": "write studies to a file",
    "import": "import studies from a file",
    "merge": "import every study of another history",
    "check": "check the whole history for damage",
    "backup": "copy the history into one file",
    "compact": "free unused space",
}
"""Subcommand -> one line of help; its code is in trimtab.cli.history_<subcommand>."""


@click.group("history", cls=LazyGroup, lines=SUBCOMMANDS, module="trimtab.cli.history_{}")
def command() -> None:
    """Find, show, share and check past studies."""
