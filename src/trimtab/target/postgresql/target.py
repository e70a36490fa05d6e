"""PostgresTarget: a PostgreSQL server as a target; ties the parts of this folder together."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg

from trimtab.errors import ApplyError, LockedError, TargetError
from trimtab.host import FileLock, Limits, read_limits
from trimtab.records import Context, Endpoint, Machine
from trimtab.space import Config, Constraint
from trimtab.target.base import Applied, KnobState, Snapshot
from trimtab.target.postgresql import advice, doctor, memory, preflight
from trimtab.target.postgresql.catalogue import (
    Facts,
    Row,
    knob_states,
    read_facts,
    read_rows,
    require_changeable,
    selected_names,
)
from trimtab.target.postgresql.change import put_back, set_config, take_snapshot
from trimtab.target.postgresql.embedded import EmbeddedReach
from trimtab.target.postgresql.fragment import fragment_text
from trimtab.target.postgresql.lock import TunerLock
from trimtab.target.postgresql.overlay import Bounds
from trimtab.target.postgresql.reach import Reach
from trimtab.target.postgresql.remote import ConnectionReach, LocalReach
from trimtab.target.postgresql.settings import Settings, read_settings
from trimtab.target.postgresql.values import check_value

__all__ = ["PostgresTarget"]

_LOG_LINES = 20
_UNKNOWN_DISK_BYTES = 64 << 30


class PostgresTarget:
    """See `Target`. Made by `from_settings`, or from a journalled snapshot by `from_snapshot`.

    Attributes:
        name: of the table in the study file.
        kind: "postgresql".
        settings: the table, checked.
        SETTINGS: its model, for the reference page.
    """

    kind = "postgresql"
    SETTINGS = Settings

    def __init__(self, name: str, settings: Settings, state_dir: Path, reach: Reach | None = None) -> None:
        self.name = name
        self.settings = settings
        self._reach = reach if reach is not None else _reach(name, settings)
        self._base: Snapshot | None = None
        self._lock = TunerLock(self._lock_file(state_dir), lambda: self._reach.connect())

    @classmethod
    def from_settings(cls, name: str, settings: Mapping[str, Any], *, state_dir: Path) -> PostgresTarget:
        """A target from its [target.NAME] table; touches nothing.

        Raises:
            UsageError: an unknown key or a wrong value.
        """
        return cls(name, read_settings(name, settings), state_dir)

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot, *, state_dir: Path) -> PostgresTarget:
        """The target that a journalled snapshot came from, ready for `restore`; needs neither study file nor `open`.

        A password is taken from PGPASSWORD or .pgpass: the journal holds none.
        """
        settings = read_settings(snapshot.target, snapshot.reach["settings"])
        reach = None
        if settings.embedded is not None:
            reach = EmbeddedReach(settings.embedded, snapshot.target, folder=Path(snapshot.reach["folder"]))
        return cls(snapshot.target, settings, state_dir, reach)

    def _lock_file(self, state_dir: Path) -> FileLock:
        if isinstance(self._reach, EmbeddedReach):
            return self._reach.owner
        digest = hashlib.sha256((self.settings.safe_url or "").encode()).hexdigest()[:16]
        return FileLock(state_dir / "locks" / f"postgresql-{digest}.lock")

    def open(self) -> None:
        """Reaches the server (an embedded one is started) and checks its version; changes nothing.

        Raises:
            TargetError: it cannot be reached, or is of an unknown version.
        """
        try:
            self._reach.open()
        except TargetError as error:
            excerpt = self._reach.log_excerpt(_LOG_LINES)
            raise type(error)("\n".join(filter(None, (error.message, excerpt))), hint=error.hint) from error
        self._look()

    def close(self) -> None:
        """Gives the locks back; stops an embedded server."""
        self._lock.release()
        self._reach.close()

    def _look(self) -> tuple[dict[str, Row], Facts]:
        with self._reach.connect() as connection:
            rows = read_rows(connection)
            return rows, read_facts(connection, rows)

    @property
    def limits(self) -> Limits:
        """Cores and memory that the server may use, as far as this machine shows them."""
        return read_limits(pid=self._reach.pid)

    @property
    def budget_bytes(self) -> int:
        """What all memory knobs together may use: `memory` of the study file, else RAM or the cgroup's limit.

        Raises:
            TargetError: the server is on another machine and `memory` is not given.
        """
        if self.settings.memory is not None:
            return self.settings.memory
        host = self._reach.endpoint().host
        if host.startswith("/") or host in ("localhost", "127.0.0.1", "::1", platform.node()):
            return self.limits.memory_bytes
        raise TargetError(
            f"the memory of host={host} is not known here", hint='give it in the target\'s table: memory = "16GiB"'
        )

    def _bounds(self, rows: Mapping[str, Row]) -> Bounds:
        folder = self._reach.data_dir
        return {
            "memory": float(self.budget_bytes),
            "cores": float(self.limits.cores),
            "connections": float(rows["max_connections"].setting),
            "disk": float(self._reach.host.disk_free_bytes(folder) if folder is not None else _UNKNOWN_DISK_BYTES),
        }

    def machine(self) -> Machine:
        """Facts about the machine, and the server's version."""
        facts, limits = self._reach.host.facts(self._reach.data_dir or Path("/")), self.limits
        with self._reach.connect() as connection:
            found = connection.execute("SELECT current_setting('server_version')").fetchone()
        return Machine(
            cores=limits.cores,
            memory_bytes=limits.memory_bytes,
            cpu_model=facts.cpu_model,
            kernel=facts.kernel,
            disk=facts.disk,
            hostname=facts.hostname,
            server_version=f"PostgreSQL {found[0]}" if found is not None else "",
        )

    def endpoint(self) -> Endpoint:
        """How a load connects."""
        return self._reach.endpoint()

    def states(self) -> Mapping[str, KnobState]:
        """Every knob of the live server, by name."""
        rows, facts = self._look()
        return knob_states(rows, facts, self._bounds(rows), self.settings, self._reach.no_restart)

    def _states_as_found(self) -> Mapping[str, KnobState]:
        """The catalogue with the snapshot's values: what runs now may be a config of ours, handed over by a trial."""
        states = self.states()
        if self._base is None:
            return states
        found = self._base.values
        return {name: replace(state, running=found.get(name, state.running)) for name, state in states.items()}

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

    def constraints(self, names: Sequence[str], context: Context) -> tuple[Constraint, ...]:
        """The memory budget and the orders over those of `names` that matter (see `memory`)."""
        return memory.constraints(names, self._states_as_found(), context, self.budget_bytes)

    def memory_use(self, config: Config, context: Context) -> Mapping[str, float]:
        """Bytes by consumer under `config` over the values as found, and "budget"."""
        return memory.memory_use(config, self._states_as_found(), context, self.budget_bytes)

    def preflight(self, config: Config) -> None:
        """Everything that can be known without changing anything.

        Raises:
            ApplyError: the config cannot work, with the reason.
        """
        states = self._states_as_found()
        self._check(config, states)
        preflight.check_orders(config, states)
        preflight.check_shared_memory(config, states, self._reach, self.budget_bytes)

    def _check(self, config: Config, states: Mapping[str, KnobState]) -> None:
        for name, value in config.items():
            state = states.get(name)
            if state is None:
                raise ApplyError(f"the server has no knob={name!r}", hint="see `trimtab knobs`")
            if state.lock_reason:
                raise ApplyError(f"knob={name!r} may not be changed: {state.lock_reason}", hint="see `trimtab knobs`")
            check_value(state.knob, value, state.vendor_low, state.vendor_high)

    def snapshot(self) -> Snapshot:
        """The configuration as it is; later applies count from here.

        Raises:
            TargetError: the files hold changes that the server does not use yet.
        """
        can_restart = self.settings.allow_restart and not self._reach.no_restart
        self._base = take_snapshot(self.name, self._reach, self.settings.public(), can_restart=can_restart)
        return self._base

    def apply(self, config: Config) -> Applied:
        """Sets exactly `config` over the last snapshot (taken now when there is none), all or nothing.

        Raises:
            ApplyError: the server refused it or did not come back with it; it is back as in the snapshot.
            RestoreError: it could not even be put back.
        """
        states = self.states()
        base = self._base if self._base is not None else self.snapshot()
        self._check(config, states)
        try:
            applied = set_config(self._reach, states, base, config)
            self.health()
        except (TargetError, psycopg.Error) as error:
            excerpt = self._reach.log_excerpt(_LOG_LINES)
            put_back(self._reach, base)
            self._lock.renew()
            if isinstance(error, LockedError):
                raise
            message = error.message if isinstance(error, TargetError) else str(error).strip()
            hint = error.hint if isinstance(error, TargetError) else None
            raise ApplyError(message, hint=hint, log_excerpt=excerpt) from error
        self._lock.renew()
        return applied

    def restore(self, snapshot: Snapshot) -> None:
        """Puts files and values back exactly; works on a closed target and a server that is down. Idempotent.

        Raises:
            RestoreError: it cannot be done; the hint says how to do it by hand.
        """
        put_back(self._reach, snapshot)
        self._base = snapshot
        self._lock.renew()

    def persist(self, config: Config) -> Snapshot:
        """As `apply`, to stay; returns the configuration from before, for a rollback.

        Raises:
            ApplyError: as `apply`; nothing is changed then.
        """
        before = self.snapshot()
        self.apply(config)
        return before

    def health(self) -> None:
        """A fresh login and a query.

        Raises:
            TargetError: the server does not answer.
        """
        try:
            with self._reach.connect() as connection:
                connection.execute("SELECT 1")
        except psycopg.Error as error:
            raise TargetError(
                f"the server accepts logins but no query: {str(error).strip()}", hint="see its log"
            ) from error

    def log_excerpt(self, n_lines: int = 20) -> str:
        """The last lines of the server's own log, "" when it cannot be read."""
        return self._reach.log_excerpt(n_lines)

    def fragment(self, config: Config) -> str:
        """`config` as text for postgresql.conf."""
        return fragment_text(config, self._states_as_found())

    @contextmanager
    def lock(self, holder: str) -> Iterator[None]:
        """One tuner per server.

        Raises:
            LockedError: another one holds it; the message names it.
        """
        self._lock.acquire(holder)
        try:
            yield
        finally:
            self._lock.release()

    def doctor(self) -> Sequence[tuple[str, bool, str]]:
        """(check, is_fine, explanation) lines; changes nothing."""
        return doctor.examine(self._reach, self.settings, self.states(), self.budget_bytes, self.limits)


def _reach(name: str, settings: Settings) -> Reach:
    if settings.embedded is not None:
        limit = settings.memory if settings.memory_limit is True else settings.memory_limit or None
        return EmbeddedReach(settings.embedded, name, memory_limit_bytes=limit)
    return LocalReach(settings) if settings.data_dir is not None else ConnectionReach(settings)
