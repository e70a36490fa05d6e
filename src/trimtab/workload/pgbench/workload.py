"""PgbenchWorkload: pgbench's built-in scripts and script files as they are, run by the native engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trimtab.records import Context, DataRights, Endpoint
from trimtab.workload.base import Preparation, require_protocol
from trimtab.workload.database import ensure
from trimtab.workload.engine_run import ScriptPart, check_scripts, compile_scripts, script_source
from trimtab.workload.engine_workload import EngineWorkload
from trimtab.workload.pgbench.settings import PgbenchSettings, parse_settings
from trimtab.workload.pgbench.tables import dataset
from trimtab.workload.run_database import RunDatabase
from trimtab.workload.scripts import ScriptText, digest
from trimtab.workload.server import server_of

__all__ = ["PgbenchWorkload"]


class PgbenchWorkload(EngineWorkload):
    """pgbench's scripts, built in or from files as they are.

    See `Workload`; immutable after construction.
    """

    kind = "pgbench"
    settings: PgbenchSettings

    def __init__(self, settings: PgbenchSettings) -> None:
        is_own = not settings.database
        is_copied = settings.start_state == "template" or (
            settings.start_state == "auto" and is_own and not settings.is_read_only
        )
        database = settings.database or dataset(settings.scale).database
        super().__init__(settings, RunDatabase(database, is_copied))
        self.max_tries = settings.max_tries

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], *, directory: Path = Path()) -> PgbenchWorkload:
        """Built from the study file's [workload] table; its files are relative to `directory`.

        Raises:
            UsageError: an unknown key, a wrong value, or a file that cannot be read.
        """
        return cls(parse_settings(settings, directory))

    @property
    def context(self) -> Context:
        """Name of the script, or names with a digest; scale; users. Only the built-in scripts' reads are known."""
        settings = self.settings
        where = f"database {settings.database}" if settings.database else f"scale {settings.scale}"
        name = settings.builtin or f"{len(settings.scripts)} scripts {digest(settings.scripts)}"
        reads = {"select-only": 1.0, "tpcb-like": 0.2, "simple-update": 1 / 3}.get(settings.builtin, 0.5)
        features = {"scale": float(settings.scale)} | settings.load.features
        return Context(f"pgbench {name} {where}", settings.load.users, reads, features)

    @property
    def texts(self) -> Mapping[str, str]:
        """Label -> text of each script."""
        return {script.label: script.text for script in self.settings.scripts}

    @property
    def rights(self) -> DataRights:
        """What a user must be allowed to do with the data."""
        return DataRights(
            database=self.database.data,
            makes_databases=not self.settings.database or self.database.is_copied,
            is_users_own=bool(self.settings.database),
            reads_only=self.context.read_share == 1.0,
        )

    def prepare(self, endpoint: Endpoint, report: Callable[[str], None]) -> Preparation:
        """Makes pgbench's tables exist, or looks at the user's own database; checks every statement there.

        Raises:
            LoadError: the data cannot be made, or the server does not understand a statement.
        """
        require_protocol(self.kind, self.protocols, endpoint)
        # A script that cannot be read is said before data is made for it.
        compile_scripts(self._parts(), **self._how(endpoint))
        preparation = Preparation(0.0, 0, True, "the database is the user's own")
        if not self.settings.database:
            preparation = ensure(endpoint, dataset(self.settings.scale), report)
        elif self.settings.start_state == "auto" and not self.settings.is_read_only:
            report(
                f"runs use database={self.settings.database} itself: what the scripts write stays in it "
                '(start_state = "template" gives each run a copy)'
            )
        there = endpoint.with_database(self.database.data)
        server = server_of(there)
        with server.connect() as session:
            check_scripts(
                server,
                session,
                self._parts(),
                mode=self.settings.protocol,
                variables=self._variables(),
            )
        return preparation

    def source(self, there: Endpoint, duration_s: float) -> dict[str, Any]:
        """The scripts as the load engine takes them."""
        return script_source(self._parts(), **self._how(there))

    def _how(self, there: Endpoint) -> dict[str, Any]:
        settings = self.settings
        return {
            "dialect": there.protocol,
            "users": settings.load.users,
            "mode": settings.protocol,
            "variables": self._variables(),
        }

    def _parts(self) -> list[ScriptPart]:
        if self.settings.builtin:
            return [("builtin", ScriptText(self.settings.builtin, 1.0, "", ""), [], "none")]
        return [("pgbench", script, [], "none") for script in self.settings.scripts]

    def _variables(self) -> tuple[tuple[str, str], ...]:
        own = {} if self.settings.database else {"scale": str(self.settings.scale)}
        return tuple((own | dict(self.settings.variables)).items())
