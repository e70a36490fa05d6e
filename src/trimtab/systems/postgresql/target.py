"""PostgresTarget: a PostgreSQL server as a target; ties the parts of this folder together."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg

from trimtab.errors import ApplyError, TargetError
from trimtab.records import Context, DataRights, Fault
from trimtab.space import Config, Knob, Value
from trimtab.systems.base import KnobState, Snapshot
from trimtab.systems.capabilities import FoundServer
from trimtab.systems.database import DatabaseSystem
from trimtab.systems.evidence import Forensics
from trimtab.systems.knobs import Reading
from trimtab.systems.network import Link
from trimtab.systems.picture import Sentry
from trimtab.systems.postgresql import doctor, grant, preflight
from trimtab.systems.postgresql.catalogue import (
    CATALOG,
    Facts,
    missing_knobs,
    read_facts,
    read_rows,
    require_changeable,
)
from trimtab.systems.postgresql.change import AlterSystem
from trimtab.systems.postgresql.counters import read_counters
from trimtab.systems.postgresql.discover import EMBEDDED, discover
from trimtab.systems.postgresql.disk import check_disk, low_disk
from trimtab.systems.postgresql.embedded import EmbeddedReach
from trimtab.systems.postgresql.foreign import take_picture
from trimtab.systems.postgresql.install import is_installed
from trimtab.systems.postgresql.lock import TunerLock
from trimtab.systems.postgresql.reach import Reach
from trimtab.systems.postgresql.remote import ConnectionReach, LocalReach
from trimtab.systems.postgresql.session import ConnectionLostError, NotYetError, is_cut_off
from trimtab.systems.postgresql.settings import Settings
from trimtab.systems.postgresql.values import file_text
from trimtab.systems.postgresql.vitals import folders, lag_s, quick
from trimtab.systems.vitals import Lag, Watch
from trimtab.systems.ways import Ways
from trimtab.units import format_value

__all__ = ["PostgresTarget"]

_RECOVERY_S = 60.0
"""How long a server that says that it starts or recovers is waited for."""
_POLL_S = 0.05


class PostgresTarget(DatabaseSystem[Settings, Reach]):
    """PostgreSQL 13 to 18: embedded, on this machine, or by connection alone. A `Target`.

    Attributes:
        name: of the table in the study file.
        kind: "postgresql".
        settings: the table, checked.
        SETTINGS: its model, for the reference page.
    """

    kind = "postgresql"
    catalog = CATALOG
    SETTINGS = Settings
    WAYS = Ways(embedded=EmbeddedReach, local=LocalReach, connection=ConnectionReach, files="data_dir")
    PASSWORD_FILE = "~/.pgpass"
    SKIPS_ABSENT = True  # what another version has is told by `notes`
    FAILURES = (TargetError, psycopg.Error)

    def __init__(self, name: str, settings: Settings, state_dir: Path, found: Mapping[str, Any] | None = None) -> None:
        super().__init__(name, settings, state_dir, found)
        self._link = Link(self._reach.endpoint, self._reach.connect, lambda connection: connection.execute("SELECT 1"))
        forensics = Forensics(self._reach, CATALOG.log, "server")
        self._sentry = Sentry(forensics, lambda: take_picture(self._reach), self._troubles)
        self._channel = AlterSystem(self._reach)
        self._lock = TunerLock(self._lock_file(state_dir), lambda: self._reach.connect())

    @classmethod
    def found_servers(cls) -> Sequence[FoundServer]:
        """Those that run on this machine."""
        return discover()

    @classmethod
    def embedded_server(cls) -> FoundServer | None:
        """One from a wheel; None when the wheel is not installed."""
        return EMBEDDED if is_installed() else None

    def _look(self) -> tuple[dict[str, Reading], Facts]:
        try:
            with self._reach.connect() as connection:
                rows = read_rows(connection)
                return rows, read_facts(connection, rows)
        except psycopg.Error as error:
            raise TargetError(f"the server's state cannot be read: {str(error).strip()}", hint="see its log") from error

    @property
    def _room_bytes(self) -> int:
        """The budget, or what the machine or its cgroup has where that is less and known."""
        return min(self.budget_bytes, self.limits.memory_bytes) if self._reach.is_here else self.budget_bytes

    def _version(self) -> str:
        with self._reach.connect() as connection:
            found = connection.execute("SELECT current_setting('server_version')").fetchone()
        return f"PostgreSQL {found[0]}" if found is not None else ""

    def _require_changeable(self, states: Mapping[str, KnobState]) -> None:
        require_changeable(states)

    def _check(self, config: Config, states: Mapping[str, KnobState]) -> None:
        check_disk(config, states, self._reach)
        preflight.check_shared_memory(config, states, self._reach, self._room_bytes)

    def snapshot(self) -> Snapshot:
        """As `System.snapshot`; the network's counters count from here, too."""
        found = super().snapshot()
        self._link.learn()
        return found

    def _troubles(self) -> Iterator[tuple[Fault, str]]:
        """What makes a measurement worthless now."""
        for fault, text in ((Fault.RESOURCE, low_disk(self._reach)), (Fault.ENVIRONMENT, self._link.trouble())):
            if text:
                yield fault, text

    def _failing(self, error: Exception) -> None:
        if is_cut_off(error):
            self._sentry.await_reason()

    def _told(self, error: Exception) -> TargetError:
        if isinstance(error, psycopg.Error):
            return TargetError(str(error).strip())
        if isinstance(error, ConnectionLostError):
            return ApplyError(error.message, hint=error.hint, fault=Fault.ENVIRONMENT)
        return super()._told(error)

    def counters(self) -> Mapping[str, float]:
        """What the server has counted of its own work since its statistics were reset (see `read_counters`)."""
        return read_counters(self._reach.connect)

    def health(self) -> None:
        """A fresh login and a query; a server that says that it starts or recovers is waited for.

        Raises:
            TargetError: the server does not answer.
        """
        until = time.monotonic() + _RECOVERY_S
        while True:
            try:
                with self._reach.connect() as connection:
                    connection.execute("SELECT 1")
                    return
            except NotYetError:
                if time.monotonic() > until:
                    raise
                time.sleep(_POLL_S)
            except psycopg.Error as error:
                raise TargetError(
                    f"the server accepts logins but no query: {str(error).strip()}", hint="see its log"
                ) from error

    def notes(self) -> tuple[str, ...]:
        """Which knobs of those asked for this server does not have, and what `recover` could not do later."""
        rows, facts = self._look()
        return (*missing_knobs(self.settings.knobs, rows, facts.major), *super().notes())

    def _make_watch(self) -> Watch:
        try:
            limit: int | None = self.budget_bytes
        except TargetError:
            limit = None  # a server on another machine: nothing there is watched either
        return Watch(self._reach, self._folders, limit, Lag(lambda: quick(self._reach.connect("trimtab guard")), lag_s))

    def _folders(self) -> Iterator[Path]:
        return folders(self._reach.data_dir)

    def _file_text(self, knob: Knob, value: Value) -> str:
        return file_text(format_value(value, knob.unit))

    def grant_sql(self, context: Context, rights: DataRights | None, *, role: str) -> tuple[str, bool]:
        """The role that may tune what the settings ask for and nothing else (see `grant`); and whether it can be had.

        Raises:
            TargetError: the server cannot be reached.
            UsageError: a named knob is unknown or locked for another reason than a missing right.
        """
        rows, facts = self._look()
        permitted = {name: replace(row, is_permitted=True) for name, row in rows.items()}
        names = self._names_of(self._states_of(permitted, replace(facts, may_reload=True)), context)
        endpoint = self._reach.endpoint()
        with self._reach.connect() as connection:
            found = connection.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone()
        is_admin = found is None or found[0]
        role = role or (grant.DEFAULT_ROLE if is_admin else endpoint.user)
        server = grant.Server(facts.major, endpoint.database)
        return grant.grant_text(server, names, rights, role), facts.major >= grant.SINCE

    def doctor(self) -> Sequence[tuple[str, bool, str]]:
        """(check, is_fine, explanation) lines; changes nothing."""
        states = self.states()
        return doctor.examine(self._reach, states, self._memory_lines(states))
