"""The `trimtab` group: knows its commands by name and imports one only when it is called."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

import click

__all__ = ["COMMANDS", "LazyGroup", "trimtab"]

COMMANDS: dict[str, str] = {
    "demo": "tune a private PostgreSQL for some minutes, to see how it works",
    "init": "write a commented study file for a server found here",
    "doctor": "check access, rights and restarts; changes nothing",
    "knobs": "list the settings: running value, useful range, restart and safety class",
    "advise": "suggest a config by rules of thumb, without measuring",
    "bench": "measure one config and the noise of this machine",
    "profile": "turn a live server's statements into a workload",
    "engine": "show what PostgreSQL has learnt about its queries",
    "tune": "find a better config and prove it",
    "rank": "rank the knobs by their effect",
    "report": "show what was tried, found and proven, and how to undo it",
    "apply": "apply a proven winner permanently",
    "rollback": "undo apply",
    "recover": "restore a server after a crash of Trimtab or the machine",
    "history": "find, show, share and check past studies",
    "serve": "serve sessions over HTTP to programs that tune themselves, and a dashboard",
    "exec": "tune the options of any program by running it",
    "bench-search": "compare searchers on a past study",
    "catalog": "check the catalogue of a program that you describe yourself",
    "plugins": "list targets, workloads, searchers, rankers, layers and formats",
}
"""Command -> one line of help; its code is in trimtab.cli.<command>_command."""


class LazyGroup(click.Group):
    """Commands by name, one line of help each; the module of one (`module` with its name) is imported when it is called."""

    def __init__(self, *, lines: Mapping[str, str], module: str, **settings: Any) -> None:
        super().__init__(**settings)
        self._lines, self._module = lines, module

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._lines)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._lines:
            return None
        return cast(click.Command, import_module(self._module.format(cmd_name.replace("-", "_"))).command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        from difflib import get_close_matches

        close = [] if args[0] in self._lines else get_close_matches(args[0], self._lines, n=1)
        if close:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {close[0]!r}?")  # as of an option
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """As ever; an error of the parser, which does not say of which command it is, gets to know that."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            if error.ctx is None and ctx.invoked_subcommand is not None:
                command = self.get_command(ctx, ctx.invoked_subcommand)
                error.ctx = click.Context(command, parent=ctx, info_name=ctx.invoked_subcommand) if command else ctx
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self._lines.items()))


@click.group(
    cls=LazyGroup,
    lines=COMMANDS,
    module="trimtab.cli.{}_command",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="trimtab", prog_name="trimtab")
def trimtab() -> None:
    """Find the few settings that make a server faster, prove it by measurement, and set them safely.

    A study file (`trimtab init`) says what is tuned, under which load, and for how long. Nothing stays changed unless
    `trimtab apply` is used.
    """
