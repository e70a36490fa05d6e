"""ServerTarget: the part of a `Target` that is the same for every kind of database server."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from trimtab.errors import ApplyError, ForeignChangeError, LockedError, TargetError
from trimtab.host import FileLock, Limits, read_limits
from trimtab.records import Endpoint, Fault, Machine
from trimtab.space import Config, Knob, RestartClass, Value
from trimtab.systems.base import Applied, KnobState, Own, Restarts, Snapshot, Undone, always
from trimtab.systems.embedded import EmbeddedServer
from trimtab.systems.forensic import Disturbance, Evidence
from trimtab.systems.gate import check_config
from trimtab.systems.lock import ServerLock
from trimtab.systems.overlay import Bounds
from trimtab.systems.reach import ServerReach
from trimtab.systems.refusal import LoginRefusedError
from trimtab.systems.sentry import ServerSentry
from trimtab.systems.settings import ServerSettings

__all__ = ["LOG_LINES", "ServerTarget"]

LOG_LINES = 20
"""Of the server's log, shown after a failure."""

_UNKNOWN_DISK_BYTES = 64 << 30


S = TypeVar("S", bound=ServerSettings)
R = TypeVar("R", bound=ServerReach)


class ServerTarget(ABC, Generic[S, R]):
    """See `Target`. A kind of server makes `_lock` and `_sentry`, and adds what its catalogue, files and statements are.

    Args:
        name: of the table in the study file.
        settings: the table, checked.
        reach: the way to the server.

    Attributes:
        name, settings: the same.
        kind: of the target.
        FAILURES: what a change can end with that the server is put back after.
    """

    kind: str
    FAILURES: ClassVar[tuple[type[Exception], ...]] = (TargetError,)
    _lock: ServerLock[Any]
    _sentry: ServerSentry[Any, Any]

    def __init__(self, name: str, settings: S, reach: R) -> None:
        self.name = name
        self.settings = settings
        self._reach = reach
        self._base: Snapshot | None = None
        self._known: dict[str, Knob] = {}

    def _lock_file(self, state_dir: Path) -> FileLock:
        reach: object = self._reach
        if isinstance(reach, EmbeddedServer):
            return reach.owner
        digest = hashlib.sha256((self.settings.safe_url or "").encode()).hexdigest()[:16]
        return FileLock(state_dir / "locks" / f"{self.kind}-{digest}.lock")

    @abstractmethod
    def _look(self) -> Any:
        """What the server shows of itself.

        Raises:
            TargetError: it cannot be looked at, or is of an unknown version.
        """

    @abstractmethod
    def states(self) -> Mapping[str, KnobState]:
        """Every knob of the live server, by name."""

    @abstractmethod
    def _version(self) -> str:
        """Product and version of the server."""

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """The configuration as it is; later applies count from here."""

    @abstractmethod
    def health(self) -> None:
        """A fresh login and a query.

        Raises:
            TargetError: the server does not answer.
        """

    @abstractmethod
    def _texts(self, knob: Knob, value: Value) -> tuple[str, ...]:
        """As it may stand in the server's files; the last one is for people."""

    @abstractmethod
    def _set(self, config: Config, states: Mapping[str, KnobState], base: Snapshot, *, stays: bool) -> Applied:
        """Sets exactly `config` over `base`.

        Raises:
            ApplyError: the server refuses it, or does not use it.
        """

    @abstractmethod
    def _take_back(self, snapshot: Snapshot, own: Own, restarts: Restarts) -> Undone:
        """Takes back `own` where it still stands, and brings the server up; idempotent.

        Raises:
            RestoreError: something of ours still stands; the hint says how to do it by hand.
        """

    def _require_lasting(self) -> None:
        """That what is set outlives the server's next restart.

        Raises:
            ApplyError: it would not.
        """

    def _failing(self, error: Exception) -> None:
        """What is to be waited for before the server's log is read after `error`."""

    def _told(self, error: Exception) -> TargetError:
        """One of `FAILURES` in our own words."""
        if not isinstance(error, TargetError):
            raise error
        return error

    def open(self) -> None:
        """Reaches the server (an embedded one is started) and checks its version; changes nothing.

        Raises:
            TargetError: it cannot be reached, or is of an unknown version.
        """
        try:
            self._reach.open()
        except TargetError as error:
            excerpt = self._reach.log_excerpt(LOG_LINES)
            raise type(error)("\n".join(filter(None, (error.message, excerpt))), hint=error.hint) from error
        self._look()

    def close(self) -> None:
        """Gives the locks back; stops an embedded server."""
        self._lock.release()
        self._reach.close()

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
        if self._reach.is_here:
            return self.limits.memory_bytes
        raise TargetError(
            f"the server at host={self._reach.endpoint().host} does not show as a process of this machine: its memory is not"
            " known here",
            hint='give it in the target\'s table: memory = "16GiB"',
        )

    @property
    def host_name(self) -> str:
        """The machine that it runs on; "" for this one."""
        return "" if self._reach.is_here else self._reach.endpoint().host

    def _bounds_with(self, connections: float) -> Bounds:
        """What useful ranges may refer to, where the server takes so many connections."""
        folder = self._reach.data_dir
        return {
            "memory": float(self.budget_bytes),
            "cores": float(self.limits.cores),
            "connections": connections,
            "disk": float(self._reach.host.disk_free_bytes(folder) if folder is not None else _UNKNOWN_DISK_BYTES),
        }

    def machine(self) -> Machine:
        """Facts about the machine, and the server's version."""
        facts, limits = self._reach.host.facts(self._reach.data_dir or Path("/")), self.limits
        return Machine(
            cores=limits.cores,
            memory_bytes=limits.memory_bytes,
            cpu_model=facts.cpu_model,
            kernel=facts.kernel,
            disk=facts.disk,
            hostname=facts.hostname,
            server_version=self._version(),
        )

    def endpoint(self) -> Endpoint:
        """How a load connects."""
        return self._reach.endpoint()

    def _states_as_found(self) -> Mapping[str, KnobState]:
        """The catalogue with the snapshot's values: what runs now may be a config of ours, handed over by a trial."""
        states = self.states()
        if self._base is None:
            return states
        found = self._base.values
        return {name: replace(state, running=found.get(name, state.running)) for name, state in states.items()}

    def announce(self, config: Config) -> Own:
        """What will be ours once `config` is applied."""
        if not set(config) <= set(self._known):
            self._known = {name: state.knob for name, state in self.states().items()}
        knobs = {name: self._known[name] for name in config if name in self._known}
        return Own(
            texts={name: self._texts(knob, config[name]) for name, knob in knobs.items()},
            values={name: (config[name],) for name in knobs},
            late=tuple(sorted(name for name, knob in knobs.items() if knob.restart is not RestartClass.RELOAD)),
            units={name: knob.unit for name, knob in knobs.items() if knob.unit},
        )

    def apply(self, config: Config, *, stays: bool = False) -> Applied:
        """Sets exactly `config` over the last snapshot (taken now when there is none), all or nothing.

        Raises:
            ApplyError: the server refused it or did not come back with it; what was changed is taken back.
            ForeignChangeError: somebody else changed it meanwhile; what is still ours is taken back.
            RestoreError: it could not even be taken back.
        """
        base = self._base if self._base is not None else self.snapshot()
        is_touched = False
        try:
            states = self.states()
            check_config(config, states)
            if stays:
                self._require_lasting()
            own = self.announce(config)
            self._sentry.changing(own)
            is_touched = True
            applied = self._set(config, states, base, stays=stays)
            self.health()
            own = self._sentry.changed(_completed(own, applied.effective))
        except self.FAILURES as error:
            if isinstance(error, ApplyError) and not is_touched:
                raise
            self._failing(error)
            excerpt = self._reach.log_excerpt(LOG_LINES)
            self._sentry.failed()
            self._take_back(base, self._sentry.own, always)
            self._sentry.restored()
            self._lock.renew()
            if isinstance(error, LockedError | ForeignChangeError):
                raise
            raise _apply_error(self._told(error), excerpt) from error
        self._lock.renew()
        return replace(applied, own=own)

    def restore(self, snapshot: Snapshot, own: Own | None = None, *, restarts: Restarts = always) -> Undone:
        """Takes back what is ours and still stands; works on a closed target and a server that is down. Idempotent.

        Raises:
            RestoreError: something of ours still stands; the hint says how to do it by hand.
        """
        done = self._take_back(snapshot, self._sentry.own if own is None else own, restarts)
        self._base = snapshot
        self._sentry.restored()
        try:
            self._lock.renew()
        except LockedError:
            raise
        except TargetError:
            pass  # our login was revoked, or the server is down for others to start: the restore holds, and the next change asks
        return done

    def _login_notes(self, file: str) -> tuple[str, ...]:
        """What to tell before the first change when `recover` could not log in later; `file` would help."""
        where = self._reach.no_later_login()
        if where != "url":
            return ()
        return (
            "the password is only in url: after a power cut `trimtab recover` and `rollback` could not log in."
            f" Put it into {file} as well (the dead-man has it, and restores after a kill)",
        )

    def where(self) -> Mapping[str, str]:
        """Which server it is, which files are changed, and what restarts it, for people."""
        found = {"server": self.settings.safe_url or str(getattr(self._reach, "folder", self.name))}
        found["files"] = ", ".join(str(path) for path in self._own_files) or "none: by SQL"
        found["restart"] = self.settings.restart or (self._reach.no_restart or "its own program")
        return found

    @property
    @abstractmethod
    def _own_files(self) -> Sequence[Path]:
        """The files that an apply writes to."""

    def evidence(self) -> Evidence:
        """What is known of the last failure."""
        return self._sentry.evidence()

    def disturbances(self) -> tuple[Disturbance, ...]:
        """What somebody else did to the server since we last left it.

        Raises:
            TargetError: it does not answer.
        """
        return self._sentry.disturbances()

    def log_excerpt(self, n_lines: int = LOG_LINES) -> str:
        """The last lines of the server's own log, "" when it cannot be read."""
        return self._reach.log_excerpt(n_lines)

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


def _completed(own: Own, effective: Mapping[str, Value]) -> Own:
    """With what the server made of the values."""
    made = {name: (*own.values[name], effective[name]) for name in own.values if name in effective}
    return replace(own, values={**own.values, **made})


def _apply_error(error: TargetError, log_excerpt: str) -> ApplyError:
    """What stood in the way of an apply, as a result for the trial room."""
    fault = error.fault if isinstance(error, ApplyError) else ""
    if isinstance(error, LoginRefusedError):
        fault = Fault.ENVIRONMENT
    return ApplyError(error.message, hint=error.hint, log_excerpt=log_excerpt, fault=fault)
