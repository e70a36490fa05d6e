"""Reach: how a PostgreSQL server is got at; one class per way (embedded, local, connection only)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from trimtab.host import LocalHost
from trimtab.records import Endpoint
from trimtab.target.account import Account
from trimtab.target.postgresql.session import Connection

__all__ = ["AUTO_CONF", "Reach"]

AUTO_CONF = "postgresql.auto.conf"


class Reach(Protocol):
    """One way to a server.

    Attributes:
        host: where its files are.
        data_dir: its data directory; None when its files cannot be reached.
        bin_dir: the folder of its programs; None when unknown.
        account: the data directory's owner; None when unknown.
        pid: its process on this machine; None when unknown.
        no_restart: why it cannot be restarted; "" when it can.
        log_file: the file that its log goes to now; None when unknown.
        exit_code: how its process ended, negative a signal; None while it runs, or when it is not our child.
        n_oom_kills: how many of its processes the kernel has killed at its own memory limit; 0 when it has none.
        spare: a connection made in good times, for when no new login works; None where the files can be reached.

    `start_with` starts it with settings on the command line, which win over every file: a rescue, to be ended by
    `restart`. `open` reaches it (an embedded one is started) and changes nothing; `restart` and `ensure_up` return when
    it accepts connections; all of them raise `TargetError`. `is_up` never raises.
    """

    host: LocalHost

    @property
    def data_dir(self) -> Path | None: ...
    @property
    def bin_dir(self) -> Path | None: ...
    @property
    def account(self) -> Account | None: ...
    @property
    def pid(self) -> int | None: ...
    @property
    def no_restart(self) -> str: ...
    @property
    def log_file(self) -> Path | None: ...
    @property
    def exit_code(self) -> int | None: ...
    @property
    def n_oom_kills(self) -> int: ...
    @property
    def spare(self) -> Connection | None: ...
    def open(self) -> None: ...
    def close(self) -> None: ...
    def connect(self, application: str = "trimtab") -> Connection: ...
    def endpoint(self) -> Endpoint: ...
    def is_up(self) -> bool: ...
    def restart(self) -> None: ...
    def ensure_up(self) -> None: ...
    def start_with(self, overrides: Mapping[str, str]) -> None: ...
    def log_excerpt(self, n_lines: int) -> str: ...
    def describe(self) -> Mapping[str, Any]: ...
