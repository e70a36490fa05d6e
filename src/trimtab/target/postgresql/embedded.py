"""Embedded: a real server of our own from a wheel, over a data directory in the cache that outlives the study."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trimtab.errors import TargetError
from trimtab.host import FileLock, LocalHost, MemoryCgroup
from trimtab.records import Endpoint
from trimtab.target.postgresql.install import Account, cache_root, can_enter, find_install, server_account
from trimtab.target.postgresql.process import Postmaster
from trimtab.target.postgresql.session import Connection, connect

__all__ = ["EmbeddedReach"]

_START_S = 60.0
_INITDB_S = 120.0
_MAX_SOCKET_BYTES = 107
"""sun_path of a unix socket, without its closing zero byte."""
_PORT = 5432
_USER = "postgres"

_CONFIG = """
# Trimtab: reached over a unix socket in a private folder only; everything else is PostgreSQL's default.
listen_addresses = ''
unix_socket_directories = '{folder}'
unix_socket_permissions = 0700
"""


class EmbeddedReach:
    """See `Reach`. `owner` is the lock on the folder: who holds it started the server and stops it."""

    no_restart = ""

    def __init__(
        self, major: str, name: str, *, memory_limit_bytes: int | None = None, folder: Path | None = None
    ) -> None:
        self.host = LocalHost()
        self._major = major
        self._limit_bytes = memory_limit_bytes
        self._cgroup: MemoryCgroup | None = None
        safe = re.sub(r"[^A-Za-z0-9_-]", "_", name)
        self.folder = folder if folder is not None else cache_root() / "postgresql" / f"{major}-{safe}"
        self.owner = FileLock(self.folder.with_suffix(".lock"))
        self._account: Account | None = None
        self._bin_dir: Path | None = None
        self._postmaster: Postmaster | None = None

    @property
    def data_dir(self) -> Path:
        """The data directory."""
        return self.folder / "data"

    @property
    def bin_dir(self) -> Path | None:
        """The folder with postgres and initdb; None before `open`."""
        return self._bin_dir

    @property
    def account(self) -> Account | None:
        """The user the server runs as; None before `open`."""
        return self._account

    @property
    def pid(self) -> int | None:
        """The server's process; None when it is down."""
        return self._server.pid

    @property
    def _server(self) -> Postmaster:
        if self._postmaster is None:
            self._locate()
        if self._postmaster is None:
            raise RuntimeError("the embedded server was not located")
        return self._postmaster

    @property
    def socket_dir(self) -> Path:
        """Folder of the unix socket: beside the data, or under /tmp where that path would be too long for a socket."""
        folder = self.folder / "run"
        if len(os.fsencode(folder / f".s.PGSQL.{_PORT}.lock")) <= _MAX_SOCKET_BYTES:
            return folder
        digest = hashlib.sha256(os.fsencode(self.folder)).hexdigest()[:12]
        return Path("/tmp") / f"trimtab-{digest}"

    def _locate(self) -> None:
        """Finds programs and user, makes the folders, and takes the folder when it is free; starts nothing."""
        account = self._account = server_account()
        self._bin_dir = find_install(self._major, account, cache_root()) / "bin"
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            if not can_enter(self.folder.parent, account):
                raise TargetError(
                    f"user={account.name!r} (the server's) cannot reach folder={str(self.folder.parent)!r}",
                    hint="set TRIMTAB_CACHE to a folder whose parents every user may enter",
                )
            for folder in (self.folder, self.socket_dir):
                self._own(folder, account)
        except OSError as error:
            raise TargetError(
                f"cannot make the server's folder={str(self.folder)!r}: {error.strerror}",
                hint="set TRIMTAB_CACHE to a folder that can be written",
            ) from error
        self.owner.acquire(f"pid={os.getpid()} host={platform.node()}")
        self._postmaster = Postmaster(self._bin_dir, self.data_dir, account, self.folder / "server.log")

    def _own(self, folder: Path, account: Account) -> None:
        """Makes a private folder of the server's user; refuses one that a stranger made first (/tmp is everybody's)."""
        try:
            folder.mkdir(mode=0o700)
            os.chown(folder, account.uid, account.gid)
        except FileExistsError:
            status = folder.lstat()
            if folder.is_symlink() or status.st_uid != account.uid:
                raise TargetError(
                    f"folder={str(folder)!r} does not belong to the server's user={account.name!r}",
                    hint="remove it, or set TRIMTAB_CACHE to another folder",
                ) from None

    def open(self) -> None:
        """Starts the server, or finds the one that still runs; makes the data directory the first time."""
        self._locate()
        if self._server.pid is None and not self.owner.is_held:
            raise TargetError(
                f"another tuner is starting or stopping the embedded server: {self.owner.holder()}",
                hint="wait for it, or give this target another name",
            )
        if self.owner.is_held:
            self._make_data()
        self.ensure_up()

    def _make_data(self) -> None:
        if (self.data_dir / "PG_VERSION").exists():
            return
        if self._account is None or self._bin_dir is None:
            raise RuntimeError("_make_data before _locate")
        scratch = self.folder / "data.new"
        shutil.rmtree(scratch, ignore_errors=True)
        result = self.host.run(
            [
                str(self._bin_dir / "initdb"),
                *("-D", str(scratch), "-U", _USER, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-instructions"),
            ],
            timeout_s=_INITDB_S,
            user=self._account.uid,
            group=self._account.gid,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"},
        )
        if result.exit_code != 0:
            raise TargetError(
                f"initdb failed with exit_code={result.exit_code}: {result.output}", hint="is the disk full?"
            )
        with (scratch / "postgresql.conf").open("a") as file:
            file.write(_CONFIG.format(folder=self.socket_dir))
        scratch.rename(self.data_dir)  # a kill during initdb leaves data.new, never half a cluster

    def close(self) -> None:
        """Stops the server when this object started or took it over; idempotent."""
        if self._postmaster is not None and self.owner.is_held:
            self._postmaster.stop()
            self.owner.release()
        self._postmaster = None
        if self._cgroup is not None:
            self._cgroup.remove()
            self._cgroup = None

    def connect(self, application: str = "trimtab") -> Connection:
        """A fresh superuser connection."""
        fields = {"host": str(self.socket_dir), "port": _PORT, "user": _USER, "dbname": "postgres"}
        return connect(fields, application=application)

    def endpoint(self) -> Endpoint:
        """How a load connects."""
        return Endpoint(protocol="postgresql", host=str(self.socket_dir), port=_PORT, user=_USER, database="postgres")

    def is_up(self) -> bool:
        """Whether the server process runs."""
        return self._server.pid is not None

    def restart(self) -> None:
        """Stops and starts the server; back when it accepts connections."""
        self._server.stop()
        self.ensure_up()

    def ensure_up(self) -> None:
        """Starts the server when it is down."""
        if self._server.pid is not None:
            return
        if self._cgroup is None and self._limit_bytes is not None:
            self._cgroup = MemoryCgroup.create(f"trimtab-{self.folder.name}", self._limit_bytes)
        self._server.start(_START_S, self._cgroup.add if self._cgroup is not None else None)

    def log_excerpt(self, n_lines: int) -> str:
        """The last lines of the server's log since its last start, and what the kernel killed for want of memory."""
        lines = self._server.excerpt(n_lines)
        n_kills = self._cgroup.n_oom_kills() if self._cgroup is not None else 0
        return f"{lines}\nout-of-memory kills under the memory limit: {n_kills}" if n_kills else lines

    def describe(self) -> Mapping[str, Any]:
        """Where it is."""
        return {"way": "embedded", "version": self._major, "folder": str(self.folder)}
