"""The [workload] table of a command, checked."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trimtab.errors import UsageError
from trimtab.workload.command.figure import Figure
from trimtab.workload.table import Table

__all__ = ["CommandSettings", "filled", "parse_settings", "places_in"]

_KEYS = ("kind", "command", "before", "figure", "line", "json", "unit", "timeout", "clients", "only_reads", "env")
_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
_PLACE = re.compile(r"\{\{|\}\}|\{([A-Za-z_][\w.-]*)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSettings:
    """What to run, and what of it is the figure.

    Attributes:
        command: the words of it; no shell sees them.
        before: words of a command that is run once before each trial's load; () for none.
        figure: what is measured.
        timeout_s: a run that takes longer is killed and counts as timed out.
        clients: how many clients the command simulates, for the context alone.
        only_reads: whether it writes nothing to the target.
        env: further variables of its environment.
        folder: where it runs: the study file's.
    """

    command: tuple[str, ...]
    before: tuple[str, ...] = ()
    figure: Figure = field(default_factory=Figure)
    timeout_s: float = 60.0
    clients: int = 1
    only_reads: bool = False
    env: tuple[tuple[str, str], ...] = ()
    folder: Path = Path()


def parse_settings(values: Mapping[str, Any], directory: Path) -> CommandSettings:
    """Checks the table.

    Raises:
        UsageError: an unknown key, or a wrong value; the message names it.
    """
    table = Table(values, "[workload]", _KEYS)
    figure = table.choice("figure", ("wall", "rate", "time"), "wall")
    if "unit" in table and figure != "time":
        raise UsageError(f'[workload] unit={values["unit"]!r} goes with figure = "time"', hint="leave it out")
    return CommandSettings(
        command=_words(table, "command"),
        before=_words(table, "before") if "before" in table else (),
        figure=Figure(
            kind=figure,  # type: ignore[arg-type]
            line=table.text("line") if "line" in table else "",
            path=table.text("json") if "json" in table else "",
            unit_s=_UNITS[table.choice("unit", tuple(_UNITS), "s")],
        ),
        timeout_s=table.seconds("timeout", "60s"),
        clients=table.integer("clients", 1, 1, 1_000_000),
        only_reads=table.flag("only_reads", False),
        env=_environment(table),
        folder=directory.absolute(),
    )


def _words(table: Table, key: str) -> tuple[str, ...]:
    text = table.text(key)
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(
            f"[workload] {key}={text!r} cannot be split into words: {error}", hint="close its quotes"
        ) from error
    if not words:
        raise UsageError(f"[workload] {key}={text!r} is empty", hint=f'write {key} = "PROGRAM ARGUMENTS"')
    return words


def _environment(table: Table) -> tuple[tuple[str, str], ...]:
    env = table.values.get("env", {})
    if not isinstance(env, Mapping) or not all(isinstance(v, str) and re.fullmatch(r"\w+", k) for k, v in env.items()):
        raise UsageError(f"[workload] env={env!r} is not a table of texts", hint='write env = { LANG = "C" }')
    return tuple(sorted(env.items()))


def places_in(words: tuple[str, ...]) -> tuple[str, ...]:
    """The names in {braces} that are filled in, each once."""
    return tuple(dict.fromkeys(place[1] for word in words for place in _PLACE.finditer(word) if place[1]))


def filled(words: tuple[str, ...], values: Mapping[str, str]) -> list[str]:
    """The words with {NAME} replaced; `{{` and `}}` are braces.

    Raises:
        KeyError: a name that `values` lacks.
    """
    return [_PLACE.sub(lambda place: values[place[1]] if place[1] else place[0][0], word) for word in words]
