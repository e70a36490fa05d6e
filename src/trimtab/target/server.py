"""ServerTarget: the part of a `Target` that is the same for every kind of database server."""

from __future__ import annotations

import hashlib
import platform
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from trimtab.errors import TargetError
from trimtab.host import FileLock, Limits, LocalHost, read_limits
from trimtab.records import Endpoint, Machine
from trimtab.target.base import KnobState, Snapshot
from trimtab.target.embedded import EmbeddedServer
from trimtab.target.lock import ServerLock
from trimtab.target.overlay import Bounds
from trimtab.target.settings import ServerSettings

__all__ = ["LOG_LINES", "ServerTarget"]

LOG_LINES = 20
"""Of the server's log, shown after a failure."""

_UNKNOWN_DISK_BYTES = 64 << 30


class _Reach(Protocol):
    """What is asked of the way to a server, whatever its kind."""

    host: LocalHost

    @property
    def data_dir(self) -> Path | None: ...
    @property
    def pid(self) -> int | None: ...
    def open(self) -> None: ...
    def close(self) -> None: ...
    def endpoint(self) -> Endpoint: ...
    def log_excerpt(self, n_lines: int) -> str: ...


S = TypeVar("S", bound=ServerSettings)
R = TypeVar("R", bound=_Reach)


class ServerTarget(ABC, Generic[S, R]):
    """See `Target`. A kind of server makes `_lock`, and adds what its catalogue, files and statements are.

    Args:
        name: of the table in the study file.
        settings: the table, checked.
        reach: the way to the server.

    Attributes:
        name, settings: the same.
        kind: of the target.
    """

    kind: str
    _lock: ServerLock[Any]

    def __init__(self, name: str, settings: S, reach: R) -> None:
        self.name = name
        self.settings = settings
        self._reach = reach
        self._base: Snapshot | None = None

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
        if self._is_here:
            return self.limits.memory_bytes
        raise TargetError(
            f"the memory of host={self._reach.endpoint().host} is not known here",
            hint='give it in the target\'s table: memory = "16GiB"',
        )

    @property
    def _is_here(self) -> bool:
        """Whether the server runs on this machine, as far as its address shows."""
        host = self._reach.endpoint().host
        return host.startswith("/") or host in ("localhost", "127.0.0.1", "::1", platform.node())

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
