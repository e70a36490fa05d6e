"""Reach: how a MySQL or MariaDB server is got at; one class per way (embedded, local, connection only)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from trimtab.host import LocalHost
from trimtab.records import Endpoint
from trimtab.target.account import Account
from trimtab.target.mysql.session import Session

__all__ = ["Reach"]


class Reach(Protocol):
    """One way to a server.

    Attributes:
        host: where its files are.
        data_dir: its data directory; None when unknown.
        include_file: the option file of our own that it reads last; None when there is none.
        argv: the command that started it, program first; empty when unknown.
        account: the user that it runs as; None when unknown.
        pid: its process on this machine; None when unknown.
        no_restart: why it cannot be restarted; "" when it can.
        log_file: where its error log goes; None when unknown.
        exit_code: how its process ended, negative a signal; None while it runs, or when it is not our child.
        n_oom_kills: how many of its processes the kernel has killed at its own memory limit; 0 when it has none.

    `open` reaches it (an embedded one is started) and changes nothing; `restart` and `ensure_up` return when a login works;
    `start_with` starts it with options that win over every file; all of them raise `TargetError`. `is_up` never raises.
    """

    host: LocalHost

    @property
    def data_dir(self) -> Path | None: ...
    @property
    def include_file(self) -> Path | None: ...
    @property
    def argv(self) -> Sequence[str]: ...
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
    def open(self) -> None: ...
    def close(self) -> None: ...
    def connect(self) -> Session: ...
    def endpoint(self) -> Endpoint: ...
    def is_up(self) -> bool: ...
    def restart(self) -> None: ...
    def ensure_up(self) -> None: ...
    def start_with(self, options: Sequence[str]) -> None: ...
    def log_excerpt(self, n_lines: int) -> str: ...
    def describe(self) -> Mapping[str, Any]: ...
