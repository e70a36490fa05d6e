"""How a system is got at: its lifecycle, health, log and place, one protocol each; `ServerReach` is all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from trimtab.host import LocalHost
from trimtab.records import Endpoint
from trimtab.systems.account import Account
from trimtab.systems.session import Session

__all__ = ["DatabaseReach", "Health", "JournalledReach", "Lifecycle", "Log", "Place", "ServerReach"]


class Lifecycle(Protocol):
    """Start, stop and process of one system.

    Attributes:
        pid: its process on this machine, which shows that it serves this data; None when unknown.
        no_restart: why it cannot be restarted; "" when it can.
        exit_code: how its process ended, negative a signal; None while it runs, or when it is not our child.
        n_oom_kills: how many of its processes the kernel has killed at its own memory limit; 0 when it has none.
        later_s: pauses after which the way back tries a start again that failed (see `start_limit`).

    `open` reaches it (one of our own is started) and changes nothing; `restart` and `ensure_up` return when it serves; all of
    them raise `TargetError`. `is_up` never raises.
    """

    @property
    def pid(self) -> int | None: ...
    @property
    def no_restart(self) -> str: ...
    @property
    def exit_code(self) -> int | None: ...
    @property
    def n_oom_kills(self) -> int: ...
    @property
    def later_s(self) -> Sequence[float]: ...
    def open(self) -> None: ...
    def close(self) -> None: ...
    def is_up(self) -> bool: ...
    def restart(self) -> None: ...
    def ensure_up(self) -> None: ...


class Health(Protocol):
    """Whether a system serves: `health` raises `TargetError` when it does not, `NotYetError` while it says that it starts."""

    def health(self) -> None: ...


class Log(Protocol):
    """What a system says of itself.

    Attributes:
        log_file: the file that its log goes to now; None when unknown.

    `log_excerpt` has its last lines since its start; "" when they cannot be read.
    """

    @property
    def log_file(self) -> Path | None: ...
    def log_excerpt(self, n_lines: int) -> str: ...


class Place(Protocol):
    """Where a system is.

    Attributes:
        host: where its files are.
        data_dir: its data directory; None when its files cannot be reached.
        account: the user that it runs as; None when unknown.
        is_here: whether it runs on this machine: by evidence, and by its address only where there is no process to see.

    `no_later_login` tells where the only password stands that another process, such as `trimtab recover` after a power cut, would
    lack ("url", "PGPASSWORD", ...); "" for none. `describe` is for the journal: what finds it again when it is down.
    """

    host: LocalHost

    @property
    def data_dir(self) -> Path | None: ...
    @property
    def account(self) -> Account | None: ...
    @property
    def is_here(self) -> bool: ...
    def endpoint(self) -> Endpoint: ...
    def no_later_login(self) -> str: ...
    def describe(self) -> Mapping[str, Any]: ...


class ServerReach(Lifecycle, Health, Log, Place, Protocol):
    """One way to a system."""


@runtime_checkable
class JournalledReach(Protocol):
    """One to a server whose unit of systemd is known."""

    def said_at_start(self, n_lines: int) -> str:
        """What its unit's journal has since the last restart, where the server is down; "" for nothing. Never raises."""


class DatabaseReach(ServerReach, Protocol):
    """One way to a database server, which is logged in to.

    `connect` makes a fresh connection; within `visit` it may give one again and again, which ends with that: for looks that
    follow one another at once, while no load runs and the server is neither stopped nor started. `start_with` starts the
    server, stopped first when it runs, with settings on its command line, which win over every file: a rescue, to be ended by
    `restart`. Both raise `TargetError`.
    """

    def visit(self) -> AbstractContextManager[None]: ...
    def connect(self) -> Session: ...
    def start_with(self, overrides: Mapping[str, str]) -> None: ...
