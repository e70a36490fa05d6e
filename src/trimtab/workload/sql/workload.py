"""SqlWorkload: the user's own statements on the user's own database."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from trimtab.errors import LoadError, UsageError
from trimtab.records import Context, DataRights, Endpoint
from trimtab.workload.base import Preparation, StartState, require_protocol
from trimtab.workload.engine_run import ScriptPart, check_scripts, compile_scripts, script_source
from trimtab.workload.engine_workload import EngineWorkload
from trimtab.workload.load_model import LoadModel
from trimtab.workload.run_database import RunDatabase
from trimtab.workload.scripts import ScriptText, digest
from trimtab.workload.server import ServerError, server_of, store_of
from trimtab.workload.sql.samples import native_generators
from trimtab.workload.sql.settings import SqlSettings, parse_settings, require_possible_in_cql
from trimtab.workload.sql.statements import require_transactional, require_wrappable, writes

__all__ = ["SqlWorkload"]


class SqlWorkload(EngineWorkload):
    """Statements of your own with generated parameters, on a database of your own.

    See `Workload`; immutable after construction.
    """

    kind = "sql"
    protocols = ("postgresql", "mysql", "cql")
    settings: SqlSettings

    def __init__(self, settings: SqlSettings) -> None:
        super().__init__(settings, RunDatabase(settings.database, settings.start_state == "template"))
        self._parameters: list[dict[str, Any]] | None = None
        if not self.is_read_only and not settings.start_state:
            raise UsageError(
                f"the scripts of [workload] write to database={settings.database}, and start_state is not set",
                hint='choose how every trial gets the same start state: "rollback" (transactions are rolled back), "template" '
                '(each trial on a fresh copy), "undo" (your script), or "none"; or read_only = true if they do not write',
            )

    def _with_load(self, load: LoadModel) -> Self:
        """With the same values of columns."""
        other = super()._with_load(load)
        other._parameters = self._parameters
        return other

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], *, directory: Path = Path()) -> SqlWorkload:
        """Built from the study file's [workload] table; its files are relative to `directory`.

        Raises:
            UsageError: an unknown key, a wrong value, a file that cannot be read, or scripts that write without a start state.
        """
        return cls(parse_settings(settings, directory))

    @property
    def is_read_only(self) -> bool:
        """As the user says; else whether no statement of a script may write."""
        settings = self.settings
        if settings.is_read_only is not None:
            return settings.is_read_only
        return not any(writes(script.text) for script in settings.scripts)

    @property
    def context(self) -> Context:
        """Number of the scripts with a digest of them and of the one that undoes a run, users, and the share of scripts that only
        read."""
        settings = self.settings
        total = sum(script.weight for script in settings.scripts)
        shares = {f"share_{script.label}": script.weight / total for script in settings.scripts}
        reads = sum(s.weight for s in settings.scripts if self.is_read_only or not writes(s.text)) / total
        undo = [ScriptText("undo", 0.0, settings.undo, "")] if settings.undo else []
        name = f"sql {settings.database} {len(settings.scripts)} scripts {digest([*settings.scripts, *undo])}"
        return Context(name, settings.load.users, reads, shares | settings.load.features)

    @property
    def texts(self) -> Mapping[str, str]:
        """Label -> text of each script."""
        undo = {"undo": self.settings.undo} if self.settings.undo else {}
        return {script.label: script.text for script in self.settings.scripts} | undo

    @property
    def rights(self) -> DataRights:
        """What a user must be allowed to do with the data."""
        return DataRights(
            database=self.settings.database,
            makes_databases=self.database.is_copied,
            is_users_own=True,
            reads_only=self.context.read_share == 1.0,
        )

    def prepare(self, endpoint: Endpoint, report: Callable[[str], None]) -> Preparation:
        """Checks that the database is there and that the server understands every statement; changes nothing.

        Cassandra is asked that by the connections of the load, which prepare them.

        Raises:
            LoadError: it does not, or cannot roll back what they write; the message names the script, and has the server's words.
            UsageError: a script does not fit into the transaction around it.
        """
        require_protocol(self.kind, self.protocols, endpoint)
        there = endpoint.with_database(self.settings.database)
        if there.protocol == "cql":
            return self._prepare_cql(there, report)
        require_wrappable(self.settings.scripts, there.protocol, self._wrap)
        server = server_of(there)
        with server.connect() as session:
            size_bytes = server.size_bytes(session, there.database)
            if self._wrap == "rollback" and there.protocol == "mysql":
                require_transactional(session, self.settings.scripts)
            check_scripts(server, session, self._parts(there, report))
            left = server.left_behind(session, there.database) if self.database.is_copied else ""
        if left:
            report(left)
        for name in self._unused():
            report(f"no script uses the parameter {name}")
        return Preparation(0.0, size_bytes, True, "the database is the user's own")

    def _prepare_cql(self, there: Endpoint, report: Callable[[str], None]) -> Preparation:
        """For a keyspace of the user's."""
        require_possible_in_cql(self.settings)
        compile_scripts(self._parts(there), dialect=there.protocol, users=1)
        store = store_of(there)
        with store.connect("") as session:
            if not store.exists(session, there.database):
                raise LoadError(f"the node has no keyspace={there.database}", hint="name yours: database in [workload]")
            size_bytes = store.size_bytes(session, there.database)
        if remark := store.remark():
            report(remark)
        for name in self._unused():
            report(f"no script uses the parameter {name}")
        return Preparation(0.0, size_bytes, True, "the keyspace is the user's own")

    def reset(self, endpoint: Endpoint, report: Callable[[str], None]) -> StartState | None:
        """The start state as [workload] start_state says; None when nothing has to be done."""
        settings = self.settings
        if settings.start_state == "undo":
            return self._undo(endpoint.with_database(settings.database))
        if settings.start_state == "rollback":
            return StartState("every transaction is rolled back", 0.0, is_fresh=False)
        return super().reset(endpoint, report)

    def _undo(self, there: Endpoint) -> StartState:
        started = time.monotonic()
        try:
            server_of(there).run_script(self.settings.undo)
        except ServerError as error:
            raise LoadError(
                f"the undo script failed on database={there.database}: {error.message}",
                hint="a run must find the same data each time: fix the script",
            ) from error
        return StartState("the undo script of the study", time.monotonic() - started)

    def clean_up(self, endpoint: Endpoint) -> None:
        """Undoes the last run, or drops the copy that runs used.

        Raises:
            LoadError: the server refuses.
        """
        if self.settings.start_state == "undo":
            self._undo(endpoint.with_database(self.settings.database))
        super().clean_up(endpoint)

    def source(self, there: Endpoint, duration_s: float) -> dict[str, Any]:
        """The transactions as the load engine takes them, with columns sampled from the database of `there`."""
        return script_source(self._parts(there), dialect=there.protocol, users=self.settings.load.users)

    def _parts(self, there: Endpoint, report: Callable[[str], None] = lambda text: None) -> list[ScriptPart]:
        settings = self.settings
        if self._parameters is None:
            # Once: a sample reads much, and must not stand between a restart and a measurement.
            unused = self._unused()
            used = {name: each for name, each in settings.generators.items() if name not in unused}
            self._parameters = native_generators(there, used, report)
        # To each its own: the engine keeps all values of a sample for each script that it comes with.
        parts: list[ScriptPart] = []
        for script in settings.scripts:
            own = [each for each in self._parameters if _uses(script.text, each["name"])]
            parts.append(("own", script, own, self._wrap))
        return parts

    @property
    def _wrap(self) -> str:
        """What stands around the statements of a script."""
        if self.settings.start_state == "rollback":
            return "rollback"
        return "commit" if self.settings.in_transaction else "none"

    def _unused(self) -> list[str]:
        scripts = self.settings.scripts
        return [name for name in self.settings.generators if not any(_uses(script.text, name) for script in scripts)]


def _uses(text: str, name: str) -> bool:
    """Whether the placeholder may be in a script: also where it stands in a comment."""
    return re.search(rf":{re.escape(name)}(?!\w)", text) is not None
