"""The [workload] table of a pgbench study, checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from trimtab.errors import UsageError
from trimtab.workload.database import check_their_name
from trimtab.workload.load_model import LoadModel
from trimtab.workload.scripts import ScriptText, read_scripts, with_weights
from trimtab.workload.table import Table

__all__ = ["BUILTINS", "PgbenchSettings", "parse_settings"]

BUILTINS = ("tpcb-like", "simple-update", "select-only")
StartStateChoice = Literal["auto", "template", "none"]
Protocol = Literal["prepared", "simple"]

_KEYS = (
    "kind", "script", "scripts", "weights", "scale", "variables", "protocol", "database", "start_state", "max_tries",
    "operation_timeout", "load",
)  # fmt: skip
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class PgbenchSettings:
    """What to run, on which tables.

    Attributes:
        builtin: name of a built-in script; "" for files.
        scripts: the files' texts with their weights.
        scale: of pgbench's tables, 100,000 accounts a unit.
        variables: as with pgbench's -D.
        protocol: how statements are sent.
        database: an existing database of the user's, used as it is; "" for one of Trimtab's own with pgbench's tables.
        start_state: how every trial gets the same start state.
        max_tries: a transaction that fails by a serialization error or a deadlock is tried so often.
        operation_timeout_s: a transaction that takes longer is cut off.
        load: clients and load model.
    """

    builtin: str = ""
    scripts: tuple[ScriptText, ...] = ()
    scale: int = 1
    variables: tuple[tuple[str, str], ...] = ()
    protocol: Protocol = "prepared"
    database: str = ""
    start_state: StartStateChoice = "auto"
    max_tries: int = 1
    operation_timeout_s: float = 60.0
    load: LoadModel

    @property
    def is_read_only(self) -> bool:
        """Whether it is sure that nothing is written."""
        return self.builtin == "select-only"


def parse_settings(settings: Mapping[str, Any], directory: Path) -> PgbenchSettings:
    """The checked settings; files are relative to `directory`.

    Raises:
        UsageError: an unknown key, a wrong value, or a file that cannot be read.
    """
    table = Table(settings, "[workload]", _KEYS)
    if ("script" in table) == ("scripts" in table):
        raise UsageError(
            "[workload] of kind=pgbench needs either script or scripts",
            hint=f'script = "{BUILTINS[0]}" (or {", ".join(BUILTINS[1:])}), or files: scripts = ["a.sql@3", "b.sql"]',
        )
    if "script" in table and "weights" in table:
        raise UsageError(
            f"[workload] weights={settings['weights']!r} has no meaning with script={settings['script']!r}",
            hint="remove it, or name files: scripts = [...]",
        )
    scripts = [] if "script" in table else with_weights(_files(table, directory), settings.get("weights", {}))
    if "database" in table and "scale" in table:
        raise UsageError(
            f"database={settings['database']!r} and scale={settings['scale']!r} exclude each other",
            hint="leave out database, and Trimtab makes one of that scale; or scale, and yours is used as it is; "
            "a script learns the scale by variables = { scale = ... }",
        )
    return PgbenchSettings(
        builtin=table.choice("script", BUILTINS, "") if "script" in table else "",
        scripts=tuple(scripts),
        scale=table.integer("scale", 1, 1, 1_000_000),
        variables=_variables(settings.get("variables", {})),
        protocol=cast(Protocol, table.choice("protocol", ("prepared", "simple"), "prepared")),
        database=check_their_name(settings["database"]) if "database" in table else "",
        start_state=cast(StartStateChoice, table.choice("start_state", ("auto", "template", "none"), "auto")),
        max_tries=table.integer("max_tries", 1, 1, 1000),
        operation_timeout_s=table.seconds("operation_timeout", "60s"),
        load=LoadModel.from_settings(settings.get("load", {})),
    )


def _files(table: Table, directory: Path) -> list[ScriptText]:
    files = table.values["scripts"]
    if not isinstance(files, list) or not files:
        raise table.refuse("scripts", 'use a list of file names: scripts = ["a.sql@3", "b.sql"]')
    return read_scripts(files, directory)


def _variables(value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, Mapping):
        raise UsageError(
            f"[workload] variables={value!r} is not a table", hint="for example: variables = { naccounts = 1000 }"
        )
    for name, content in value.items():
        is_plain = isinstance(content, str | int | float) and not isinstance(content, bool)
        if not _VARIABLE.fullmatch(name) or not is_plain:
            raise UsageError(
                f"[workload] variables {name}={content!r} is not a variable", hint="use a name, and a number or a text"
            )
    return tuple((name, str(content)) for name, content in value.items())
