"""Reach: how a PostgreSQL server is got at; one class per way (embedded, local, connection only)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from trimtab.host import FileCopy, LocalHost
from trimtab.records import Endpoint
from trimtab.target.postgresql.install import Account
from trimtab.target.postgresql.session import Connection

__all__ = ["AUTO_CONF", "Reach", "file_from_json", "file_to_json"]

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

    `open` reaches it (an embedded one is started) and changes nothing; `restart` and `ensure_up` return when it accepts
    connections; all of them raise `TargetError`. `is_up` never raises.
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
    def open(self) -> None: ...
    def close(self) -> None: ...
    def connect(self, application: str = "trimtab") -> Connection: ...
    def endpoint(self) -> Endpoint: ...
    def is_up(self) -> bool: ...
    def restart(self) -> None: ...
    def ensure_up(self) -> None: ...
    def log_excerpt(self, n_lines: int) -> str: ...
    def describe(self) -> Mapping[str, Any]: ...


def file_to_json(copy: FileCopy | None) -> dict[str, Any]:
    """A file for a snapshot; latin-1 maps every byte to one character and back."""
    if copy is None:
        return {"content": None}
    return {"content": copy.content.decode("latin-1"), "mode": copy.mode, "uid": copy.uid, "gid": copy.gid}


def file_from_json(table: Mapping[str, Any]) -> FileCopy | None:
    """The inverse of `file_to_json`."""
    if table["content"] is None:
        return None
    content = str(table["content"]).encode("latin-1")
    return FileCopy(content=content, mode=int(table["mode"]), uid=int(table["uid"]), gid=int(table["gid"]))
