"""ServerReach: how a database server is got at, as far as that is the same for every kind of server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from trimtab.errors import TargetError
from trimtab.host import LocalHost
from trimtab.records import Endpoint
from trimtab.systems.account import Account

__all__ = ["LoginRefusedError", "ServerReach"]


class LoginRefusedError(TargetError):
    """The server runs and answers, and does not let this user in: neither waiting nor a restart would help."""


class ServerReach(Protocol):
    """One way to a server; a kind of server adds its connections, files and how it is started by hand.

    Attributes:
        host: where its files are.
        data_dir: its data directory; None when its files cannot be reached.
        account: the user that it runs as; None when unknown.
        pid: its process on this machine, which shows that it serves this data; None when unknown.
        is_here: whether it runs on this machine: by evidence, not by its address.
        no_restart: why it cannot be restarted; "" when it can.
        log_file: the file that its log goes to now; None when unknown.
        exit_code: how its process ended, negative a signal; None while it runs, or when it is not our child.
        n_oom_kills: how many of its processes the kernel has killed at its own memory limit; 0 when it has none.

    `open` reaches it (an embedded one is started) and changes nothing; `restart` and `ensure_up` return when it accepts
    connections; all of them raise `TargetError`. `is_up` never raises. `no_later_login` tells where the only password stands
    that another process, such as `trimtab recover` after a power cut, would lack ("url", "PGPASSWORD", ...); "" for none.
    """

    host: LocalHost

    @property
    def data_dir(self) -> Path | None: ...
    @property
    def account(self) -> Account | None: ...
    @property
    def pid(self) -> int | None: ...
    @property
    def is_here(self) -> bool: ...
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
    def endpoint(self) -> Endpoint: ...
    def is_up(self) -> bool: ...
    def restart(self) -> None: ...
    def ensure_up(self) -> None: ...
    def log_excerpt(self, n_lines: int) -> str: ...
    def no_later_login(self) -> str: ...
    def describe(self) -> Mapping[str, Any]: ...
