"""PostgresTarget: a PostgreSQL server as a target; ties the parts of this folder together."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg

from trimtab.errors import ApplyError, TargetError
from trimtab.records import Context, DataRights, Fault, Play
from trimtab.space import Config, Constraint, Knob, SafetyClass, Value
from trimtab.systems.base import Applied, KnobState, Own, Restarts, Snapshot, Undone, Vitals
from trimtab.systems.discovery import FoundServer
from trimtab.systems.gate import check_config
from trimtab.systems.memory import MemoryModel
from trimtab.systems.orders import check_orders
from trimtab.systems.plays import fitting_plays, play_facts, shipped_plays
from trimtab.systems.postgresql import advice, doctor, grant, memory, preflight
from trimtab.systems.postgresql.catalogue import (
    Facts,
    Row,
    knob_states,
    missing_knobs,
    read_facts,
    read_rows,
    require_changeable,
    selected_names,
)
from trimtab.systems.postgresql.change import set_config, take_snapshot
from trimtab.systems.postgresql.counters import read_counters
from trimtab.systems.postgresql.discover import EMBEDDED, discover
from trimtab.systems.postgresql.disk import check_disk
from trimtab.systems.postgresql.embedded import EmbeddedReach
from trimtab.systems.postgresql.fragment import fragment_text
from trimtab.systems.postgresql.install import is_installed
from trimtab.systems.postgresql.lock import TunerLock
from trimtab.systems.postgresql.overlay import Bounds, load_overlay
from trimtab.systems.postgresql.reach import AUTO_CONF, Reach
from trimtab.systems.postgresql.remote import ConnectionReach, LocalReach
from trimtab.systems.postgresql.rules import check_rules
from trimtab.systems.postgresql.sentry import Sentry
from trimtab.systems.postgresql.session import ConnectionLostError, NotYetError, is_cut_off
from trimtab.systems.postgresql.settings import Settings, read_settings
from trimtab.systems.postgresql.undo import take_back
from trimtab.systems.postgresql.values import quoted_name, setting_text
from trimtab.systems.postgresql.vitals import Watch
from trimtab.systems.server import ServerTarget

__all__ = ["PostgresTarget"]

_RECOVERY_S = 60.0
"""How long a server that says that it starts or recovers is waited for."""
_POLL_S = 0.05


class PostgresTarget(ServerTarget[Settings, Reach]):
    """PostgreSQL 13 to 18: embedded, on this machine, or by connection alone. A `Target`.

    Attributes:
        name: of the table in the study file.
        kind: "postgresql".
        settings: the table, checked.
        SETTINGS: its model, for the reference page.
    """

    kind = "postgresql"
    SETTINGS = Settings
    FAILURES = (TargetError, psycopg.Error)
    _sentry: Sentry

    def __init__(self, name: str, settings: Settings, state_dir: Path, reach: Reach | None = None) -> None:
        super().__init__(name, settings, reach if reach is not None else _reach(name, settings))
        self._sentry = Sentry(self._reach)
        self._watch: Watch | None = None
        self._lock = TunerLock(self._lock_file(state_dir), lambda: self._reach.connect())

    @classmethod
    def from_settings(
        cls, name: str, settings: Mapping[str, Any], *, state_dir: Path, directory: Path | None = None
    ) -> PostgresTarget:
        """A target from its [target.NAME] table, whose paths are relative to `directory`; touches nothing.

        Raises:
            UsageError: an unknown key or a wrong value.
        """
        return cls(name, read_settings(name, settings, directory), state_dir)

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot, *, state_dir: Path) -> PostgresTarget:
        """The target that a journalled snapshot came from, ready for `restore`; needs neither study file nor `open`.

        The journal holds no password: it comes from PGPASSWORD or .pgpass, or from the tuner (see `credentials`).
        """
        settings = read_settings(snapshot.target, snapshot.reach["settings"])
        reach: Reach
        if settings.embedded is not None:
            reach = EmbeddedReach(
                settings.embedded,
                snapshot.target,
                folder=Path(snapshot.reach["folder"]),
                immediate_stop=settings.immediate_stop is not False,
                memory_limit_bytes=settings.memory_limit_bytes,
            )
        else:
            argv = snapshot.reach.get("argv", ())
            running = LocalReach(settings, argv) if settings.data_dir is not None else ConnectionReach(settings)
            running.recall(snapshot.reach.get("login", {}))
            reach = running
        return cls(snapshot.target, settings, state_dir, reach)

    @classmethod
    def found_servers(cls) -> Sequence[FoundServer]:
        """Those that run on this machine."""
        return discover()

    @classmethod
    def embedded_server(cls) -> FoundServer | None:
        """One from a wheel; None when the wheel is not installed."""
        return EMBEDDED if is_installed() else None

    def _look(self) -> tuple[dict[str, Row], Facts]:
        try:
            with self._reach.connect() as connection:
                rows = read_rows(connection)
                return rows, read_facts(connection, rows)
        except psycopg.Error as error:
            raise TargetError(f"the server's state cannot be read: {str(error).strip()}", hint="see its log") from error

    @property
    def _memory_bytes(self) -> int:
        """The budget, or what the machine or its cgroup has where that is less and known."""
        return min(self.budget_bytes, self.limits.memory_bytes) if self._reach.is_here else self.budget_bytes

    def _bounds(self, rows: Mapping[str, Row]) -> Bounds:
        return self._bounds_with(float(rows["max_connections"].setting))

    def _version(self) -> str:
        with self._reach.connect() as connection:
            found = connection.execute("SELECT current_setting('server_version')").fetchone()
        return f"PostgreSQL {found[0]}" if found is not None else ""

    def states(self) -> Mapping[str, KnobState]:
        """Every knob of the live server, by name."""
        rows, facts = self._look()
        return knob_states(rows, facts, self._bounds(rows), self.settings, self._reach.no_restart)

    def selection(self, context: Context) -> tuple[str, ...]:
        """The knobs that the settings ask to tune; of a set only those that a workload like `context` can feel.

        Raises:
            UsageError: an unknown name, or one that is named and locked.
            TargetError: this server or this user lets no knob be changed at all.
        """
        states = self.states()
        require_changeable(states)
        return selected_names(self.settings.knobs, states, reads_only=context.read_share == 1.0)

    def advise(self, context: Context) -> Config:
        """A rule-based config over the changeable knobs (see `advice`)."""
        return advice.advise(self.states(), context, self._bounds(self._look()[0]), self.machine())

    def plays(self, context: Context, latency_s: float) -> tuple[Play, ...]:
        """What an expert would try here (see `trimtab.systems.plays`)."""
        facts = play_facts(context, self.machine(), self._bounds(self._look()[0]), latency_s=latency_s)
        overlay = load_overlay()
        locked = frozenset(n for n, knob in overlay.knob.items() if knob.safety is not SafetyClass.PERFORMANCE)
        return fitting_plays(shipped_plays("postgresql", frozenset(overlay.knob), locked), self.states(), facts)

    def constraints(self, names: Sequence[str], context: Context) -> tuple[Constraint, ...]:
        """The memory budget and the orders over those of `names` that matter (see `memory`)."""
        return memory.constraints(names, self._states_as_found(), context, self.budget_bytes)

    def memory(self, context: Context) -> MemoryModel:
        """Inequality 5.1 of Zhou (2013), over the values as found (see `memory`)."""
        model = memory.model(self._states_as_found(), context, self.budget_bytes)
        return replace(model, host=self.host_name)

    def preflight(self, config: Config) -> None:
        """Everything that can be known without changing anything.

        Raises:
            ApplyError: the config cannot work, with the reason.
        """
        states = self._states_as_found()
        check_config(config, states)
        check_orders(memory.ORDERS, config, states)
        check_rules(config, states)
        check_disk(config, states, self._reach)
        preflight.check_shared_memory(config, states, self._reach, self._memory_bytes)
        preflight.check_memory(config, states, self._memory_bytes)

    def snapshot(self) -> Snapshot:
        """The configuration as it is; later applies count from here.

        Raises:
            TargetError: the files hold changes that the server does not use yet.
        """
        can_restart = self.settings.allow_restart and not self._reach.no_restart
        found = take_snapshot(self.name, self._reach, self.settings.public(), can_restart=can_restart)
        self._base = replace(found, picture=self._sentry.begin())
        return self._base

    def _texts(self, knob: Knob, value: Value) -> tuple[str, ...]:
        text = setting_text(value, knob.unit)
        return (quoted_name(text), text) if isinstance(value, str) else (text,)

    def _set(self, config: Config, states: Mapping[str, KnobState], base: Snapshot, *, stays: bool) -> Applied:
        return set_config(self._reach, states, base, config)  # what ALTER SYSTEM sets stays

    def _take_back(self, snapshot: Snapshot, own: Own, restarts: Restarts) -> Undone:
        return take_back(self._reach, snapshot, own, restarts)

    @property
    def _own_files(self) -> Sequence[Path]:
        return [self._reach.data_dir / AUTO_CONF] if self._reach.data_dir is not None else []

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
        return (*missing_knobs(self.settings.knobs, rows, facts.major), *self._login_notes("~/.pgpass"))

    def vitals(self) -> Vitals:
        """What the server and its machine use now; see `Watchable`."""
        return self._watched.vitals()

    def data_bytes(self) -> int | None:
        """What the server's files occupy; None when they cannot be seen."""
        return self._watched.data_bytes()

    def unwatch(self) -> None:
        """Gives back the connection that `vitals` keeps while there are standbys."""
        if self._watch is not None:
            self._watch.unwatch()

    @property
    def _watched(self) -> Watch:
        if self._watch is None:
            try:
                limit: int | None = self.budget_bytes
            except TargetError:
                limit = None  # a server on another machine: nothing there is watched either
            self._watch = Watch(self._reach, limit)
        return self._watch

    def fragment(self, config: Config) -> str:
        """`config` as text for postgresql.conf."""
        return fragment_text(config, self._states_as_found())

    def grant_sql(self, context: Context, rights: DataRights | None, *, role: str) -> tuple[str, bool]:
        """The role that may tune what the settings ask for and nothing else (see `grant`); and whether it can be had.

        Raises:
            TargetError: the server cannot be reached.
            UsageError: a named knob is unknown or locked for another reason than a missing right.
        """
        rows, facts = self._look()
        permitted = {name: replace(row, is_permitted=True) for name, row in rows.items()}
        states = knob_states(
            permitted, replace(facts, may_reload=True), self._bounds(rows), self.settings, self._reach.no_restart
        )
        require_changeable(states)
        names = selected_names(self.settings.knobs, states, reads_only=context.read_share == 1.0)
        endpoint = self._reach.endpoint()
        with self._reach.connect() as connection:
            found = connection.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone()
        is_admin = found is None or found[0]
        role = role or (grant.DEFAULT_ROLE if is_admin else endpoint.user)
        server = grant.Server(facts.major, endpoint.database)
        return grant.grant_text(server, names, rights, role), facts.major >= grant.SINCE

    def doctor(self) -> Sequence[tuple[str, bool, str]]:
        """(check, is_fine, explanation) lines; changes nothing."""
        return doctor.examine(self._reach, self.settings, self.states(), self.budget_bytes, self.limits)


def _reach(name: str, settings: Settings) -> Reach:
    if settings.embedded is not None:
        limit, is_immediate = settings.memory_limit_bytes, settings.immediate_stop is not False
        return EmbeddedReach(settings.embedded, name, memory_limit_bytes=limit, immediate_stop=is_immediate)
    return LocalReach(settings) if settings.data_dir is not None else ConnectionReach(settings)
