"""PostgresTarget: a PostgreSQL server as a target; ties the parts of this folder together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from trimtab.errors import ApplyError, TargetError
from trimtab.records import DataRights, Fault, QueryClass
from trimtab.space import Config, Knob, Value
from trimtab.systems.base import Applied, KnobState, Own, Restarts, Snapshot, Undone, always
from trimtab.systems.database import DatabaseSystem
from trimtab.systems.doctor import Line
from trimtab.systems.knobs import Reading
from trimtab.systems.network import Link
from trimtab.systems.picture import Picture
from trimtab.systems.postgresql import extension_build, grant, in_engine, preflight
from trimtab.systems.postgresql.autoconf import file_faults, hidden_entries
from trimtab.systems.postgresql.catalogue import (
    CATALOG,
    Facts,
    major_version,
    missing_knobs,
    overridden_knobs,
    read_facts,
    read_rows,
    without_io_uring,
)
from trimtab.systems.postgresql.change import AlterSystem
from trimtab.systems.postgresql.embedded import EmbeddedReach
from trimtab.systems.postgresql.foreign import take_picture
from trimtab.systems.postgresql.install import is_installed
from trimtab.systems.postgresql.pending import unsettled
from trimtab.systems.postgresql.preload import preload_of
from trimtab.systems.postgresql.reach import Reach
from trimtab.systems.postgresql.remote import ConnectionReach, LocalReach
from trimtab.systems.postgresql.session import Connection, ConnectionLostError, is_cut_off
from trimtab.systems.postgresql.settings import Settings
from trimtab.systems.postgresql.values import file_text
from trimtab.systems.session import StatementError
from trimtab.systems.ways import Ways
from trimtab.units import format_value

__all__ = ["PostgresTarget"]


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
    _channel: AlterSystem
    SKIPS_ABSENT = True  # what another version has is told by `notes`

    def __init__(self, name: str, settings: Settings, state_dir: Path, found: Mapping[str, Any] | None = None) -> None:
        super().__init__(name, settings, state_dir, found)
        self._learnt = in_engine.Learnt()
        self._link = Link(self._reach.endpoint, self._reach.connect, lambda session: session.rows("SELECT 1"))

    def _make_channel(self) -> AlterSystem:
        return AlterSystem(self._reach)

    def _picture(self) -> Picture:
        return take_picture(self._reach)

    @classmethod
    def has_program(cls, which: str) -> bool:
        """Whether the wheel with the server is installed."""
        return is_installed()

    def _look(self) -> tuple[Mapping[str, Reading], Facts]:
        try:
            with self._reach.connect() as connection:
                rows = read_rows(connection)
                facts = read_facts(connection, rows)
        except StatementError as error:
            raise TargetError(f"the server's state cannot be read: {error.message}", hint="see its log") from error
        return (without_io_uring(rows) if self._reach.is_here else rows), facts

    @property
    def _room_bytes(self) -> int:
        """The budget, or what the machine or its cgroup has where that is less and known."""
        return min(self.budget_bytes, self.limits.memory_bytes) if self._reach.is_here else self.budget_bytes

    def _version(self) -> str:
        with self._reach.connect() as connection:
            version = connection.value("SELECT current_setting('server_version')")
        return f"PostgreSQL {version}"

    def _major(self, session: Connection) -> int:
        return major_version(session)

    def _check(self, config: Config, states: Mapping[str, KnobState]) -> None:
        super()._check(config, states)
        preflight.check_shared_memory(config, states, self._reach, self._room_bytes)

    def _disk_facts(self) -> Mapping[str, Value]:
        with self._reach.connect() as connection:
            return {"slots": float(bool(connection.rows("SELECT FROM pg_replication_slots LIMIT 1")))}

    def _volumes(self) -> Sequence[Path]:
        folder = self._reach.data_dir
        return [] if folder is None else [folder, (folder / "pg_wal").resolve()]

    def snapshot(self) -> Snapshot:
        """As `System.snapshot`; the network's counters count from here, too."""
        found = super().snapshot()
        self._link.learn()
        return found

    def _troubles(self) -> Iterator[tuple[Fault, str]]:
        yield from super()._troubles()
        far = self._link.trouble()
        if far:
            yield Fault.ENVIRONMENT, far

    def _failing(self, error: TargetError) -> None:
        if is_cut_off(error):
            self._sentry.await_reason()

    def _told(self, error: TargetError) -> TargetError:
        if isinstance(error, ConnectionLostError):
            return ApplyError(error.message, hint=error.hint, fault=Fault.ENVIRONMENT)
        return super()._told(error)

    def notes(self) -> tuple[str, ...]:
        """Which knobs of those asked for this server does not have, or others have fixed for some sessions, and what `recover`
        could not do later."""
        rows, facts = self._look()
        missing = missing_knobs(self.settings.knobs, rows, facts.major)
        with self._reach.connect() as connection:
            return (*missing, *overridden_knobs(self.settings.knobs, connection), *super().notes())

    def _folders(self) -> Iterator[Path]:
        """The data directory, and what lies elsewhere through a link: write-ahead log, tablespaces."""
        folder = self._reach.data_dir
        if folder is None:
            return
        yield folder
        try:
            links = [folder / "pg_wal", *(folder / "pg_tblspc").iterdir()]
            yield from (link for link in links if link.is_symlink())
        except OSError:
            return

    def _file_text(self, knob: Knob, value: Value) -> str:
        return file_text(format_value(value, knob.unit))

    def _granted(self, facts: Facts, names: Sequence[str], rights: DataRights | None, role: str) -> tuple[str, bool]:
        text = grant.grant_text(facts.major, self._reach.endpoint().database, names, rights, role)
        return text, facts.major >= grant.SINCE

    def _server_lines(self, states: Mapping[str, KnobState]) -> list[Line]:
        reach = self._reach
        with reach.connect() as connection:
            version, is_standby, is_superuser, user = connection.rows(CATALOG.sql["role"])[0]
            engine = in_engine.lines(connection, self._no_build) if self.settings.in_engine else []
            faults, waits = file_faults(connection), ", ".join(unsettled(connection, read_rows(connection)))
            hidden = hidden_entries(connection)
        managed = states["allow_alter_system"].running is False if "allow_alter_system" in states else False
        files = f"data directory {reach.data_dir}" if reach.data_dir else "not reachable, changed by SQL alone"
        pending = f"in the files, not yet in use: {waits}" if waits else "the server uses what the files say"
        pending = hidden or pending
        rights = "a superuser" if is_superuser else "no superuser: see the locked knobs"
        return [
            ("server", True, f"PostgreSQL {version} at {reach.endpoint()}"),
            ("role", not is_standby, "a standby: tune its primary" if is_standby else "a primary"),
            ("rights", True, f"user {user} is {rights}"),
            ("alter system", not managed, "allow_alter_system = off" if managed else "allowed"),
            ("files", not faults, "; ".join(faults) or f"{files}; no faults in the configuration files"),
            ("pending", not (hidden or waits), pending),
            *engine,
        ]

    def _no_build(self) -> str:
        """Why the extension cannot be built for this server; "" when it can."""
        try:
            extension_build.find_sources(self._reach.bin_dir)
        except TargetError as error:
            return error.message + (f" ({error.hint})" if error.hint else "")
        return ""

    def query_classes(self) -> Sequence[QueryClass]:
        """See `SelfTuningTarget`."""
        if self._channel.preload is not None:
            self._learn()
            return self._learnt.classes
        with self._reach.connect() as connection:
            return in_engine.query_classes(connection, self._no_build)

    def query_advice(self) -> str:
        """See `SelfTuningTarget`."""
        return in_engine.advice_sql(self.query_classes())

    def hint_engine(self, settings: Mapping[str, str]) -> Mapping[str, str]:
        """See `SelfTuningTarget`."""
        with self._reach.connect() as connection:
            return in_engine.hint(connection, settings)

    def switch_engine(self, mode: str) -> str:
        """See `SelfTuningTarget`."""
        with self._reach.connect() as connection:
            return in_engine.switch(connection, mode)

    def install_engine(self) -> Sequence[Path]:
        """See `SelfTuningTarget`."""
        return extension_build.install(self._reach.bin_dir)

    def watch_engine(self) -> None:
        """See `SelfTuningTarget`."""
        with self._reach.connect() as connection:
            is_here, _, mode = in_engine.state(connection)
            if mode:
                return
            if self._reach.data_dir is None:
                raise TargetError("its files cannot be reached, by which the way back is made", hint=in_engine.HINT)
            library = "trimtab" if is_here else str(extension_build.built(self._reach.bin_dir, self._reach.account))
            preload = preload_of(connection, library)
        held = self._reach.no_restart or ("" if self.settings.allow_restart else "allow_restart = false")
        if preload.is_late and held:
            raise TargetError(f"this version needs a restart for that: {held}", hint=in_engine.HINT)
        self._channel.preload = preload

    def announce(self, config: Config) -> Own:
        """As `System.announce`; our library is ours too."""
        own, preload = super().announce(config), self._channel.preload
        if preload is None:
            return own
        return replace(
            own,
            texts={**own.texts, preload.name: (preload.text,)},
            values={**own.values, preload.name: (preload.text,)},
            late=(*own.late, *([preload.name] if preload.is_late else [])),
        )

    def apply(self, config: Config, *, stays: bool = False) -> Applied:
        """As `System.apply`; what the server has learnt so far would be lost with a restart."""
        self._learn()
        return super().apply(config, stays=stays)

    def restore(self, snapshot: Snapshot, own: Own | None = None, *, restarts: Restarts = always) -> Undone:
        """As `System.restore`; see `apply`."""
        self._learn()
        return super().restore(snapshot, own, restarts=restarts)

    def _learn(self) -> None:
        """Keeps what the server has learnt by now, where it does so for a study only."""
        if self._channel.preload is None:
            return
        with suppress(TargetError), self._reach.connect() as connection:
            self._learnt.add(in_engine.watched_classes(connection, self._channel.preload))
