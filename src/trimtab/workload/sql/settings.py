"""The [workload] table of a study on the user's own SQL, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from trimtab.errors import LoadError, UsageError
from trimtab.workload.database import check_their_name
from trimtab.workload.load_model import LoadModel
from trimtab.workload.scripts import ScriptText, read_scripts, with_weights
from trimtab.workload.sql.generators import Generator, parse_generators
from trimtab.workload.table import Table

__all__ = ["SqlSettings", "StartStateChoice", "parse_settings", "require_possible_in_cql"]

StartStateChoice = Literal["none", "rollback", "template", "undo"]

_KEYS = (
    "kind", "database", "folder", "files", "transaction", "weights", "parameters", "read_only", "start_state", "undo",
    "operation_timeout", "load",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlSettings:
    """What to run on a database that the user has.

    Attributes:
        database: its name.
        scripts: the transaction types, each with its weight.
        generators: by the name of the placeholder.
        in_transaction: whether the statements of a script run in one transaction.
        is_read_only: what the user says; None: told by the statements' first words.
        start_state: how every trial gets the same start state; "" when the user has not said.
        undo: SQL that undoes a run, for start_state "undo".
        operation_timeout_s: a transaction that takes longer is cut off.
        load: clients and load model.
    """

    database: str
    scripts: tuple[ScriptText, ...]
    generators: Mapping[str, Generator]
    in_transaction: bool = False
    is_read_only: bool | None = None
    start_state: StartStateChoice | Literal[""] = ""
    undo: str = ""
    operation_timeout_s: float = 60.0
    load: LoadModel


def parse_settings(settings: Mapping[str, Any], directory: Path) -> SqlSettings:
    """The checked settings; files are relative to `directory`.

    Raises:
        UsageError: an unknown key, a wrong value, or a file that cannot be read.
    """
    table = Table(settings, "[workload]", _KEYS)
    scripts = with_weights(read_scripts(_files(table, directory), directory), settings.get("weights", {}))
    start_state = table.choice("start_state", ("none", "rollback", "template", "undo"), "none")
    if (start_state == "undo") != ("undo" in table):
        raise UsageError(
            f"[workload] start_state={start_state!r} and undo={settings.get('undo')!r} do not fit",
            hint='start_state = "undo" needs undo = "file.sql" with the statements that undo a run, and the reverse',
        )
    return SqlSettings(
        database=check_their_name(table.text("database")),
        scripts=tuple(scripts),
        generators=parse_generators(settings.get("parameters", {})),
        in_transaction=table.flag("transaction", False),
        is_read_only=table.flag("read_only", False) if "read_only" in table else None,
        start_state=cast(StartStateChoice, start_state) if "start_state" in table else "",
        undo=read_scripts([settings["undo"]], directory)[0].text if "undo" in table else "",
        operation_timeout_s=table.seconds("operation_timeout", "60s"),
        load=LoadModel.from_settings(settings.get("load", {})),
    )


def require_possible_in_cql(settings: SqlSettings) -> None:
    """Cassandra has no transactions, and columns are sampled in SQL.

    Raises:
        LoadError: the study wants what is not possible there.
    """
    if settings.start_state in ("rollback", "undo"):
        what, hint = f'start_state="{settings.start_state}"', 'choose start_state = "template" or "none"'
    elif settings.in_transaction:
        what, hint = "transaction=true", "leave it out; a script may be a BATCH"
    elif column := next((name for name, one in settings.generators.items() if one.type == "column"), ""):
        what, hint = f'parameter={column} of type="column"', 'give its values: type = "int", "text", "choice", ...'
    else:
        return
    raise LoadError(f"[workload] {what} is not possible on Cassandra", hint=hint)


def _files(table: Table, directory: Path) -> Sequence[object]:
    if ("folder" in table) == ("files" in table):
        raise UsageError(
            "[workload] of kind=sql needs either folder or files",
            hint='folder = "queries" takes every .sql file in it; or files = ["a.sql@3", "b.sql"]',
        )
    if "files" in table:
        files = table.values["files"]
        if not isinstance(files, list) or not files:
            raise table.refuse("files", 'use a list of file names: files = ["a.sql@3", "b.sql"]')
        return files
    folder = Path(table.text("folder"))
    if not (directory / folder).is_dir():
        raise UsageError(
            f"[workload] folder={table.values['folder']!r} is not a directory",
            hint="paths are relative to the study file",
        )
    # With a weight each: an @ in the name of a folder or a file that the user did not list is part of that name.
    found = [f"{folder / name}@1" for name in sorted(path.name for path in (directory / folder).glob("*.sql"))]
    if not found:
        raise UsageError(
            f"[workload] folder={table.values['folder']!r} holds no .sql file", hint="one file a transaction type"
        )
    return found
