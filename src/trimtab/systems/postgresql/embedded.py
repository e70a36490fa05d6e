"""Embedded: a real server of our own from a wheel, over a data directory in the cache that outlives the study."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from trimtab.host import Folder
from trimtab.records import Endpoint
from trimtab.systems.account import Account, cache_root
from trimtab.systems.embedded import EmbeddedServer
from trimtab.systems.postgresql.catalogue import CATALOG
from trimtab.systems.postgresql.install import find_install
from trimtab.systems.postgresql.process import Postmaster
from trimtab.systems.postgresql.session import Connection, connect
from trimtab.systems.private_folder import socket_folder

__all__ = ["EmbeddedReach"]

_INITDB_S = 120.0
_PORT = 5432
_USER = "postgres"


class EmbeddedReach(EmbeddedServer[Postmaster, Connection]):
    """See `Reach` and `EmbeddedServer`. `which` is the major version.

    Attributes:
        bin_dir: the folder with postgres and initdb; None before `open`.
        spare: None: there are other ways than SQL to an embedded server.
    """

    KIND = "postgresql"
    bin_dir: Path | None = None
    spare: Connection | None = None

    @property
    def socket_dir(self) -> Path:
        """Folder of the unix socket."""
        return socket_folder(self.folder, f".s.PGSQL.{_PORT}.lock")

    def _find(self, account: Account) -> Postmaster:
        self.bin_dir = find_install(self._which, account, cache_root()) / "bin"
        return Postmaster(self.bin_dir, self.data_dir, account, self.log_file)

    def _inner_folders(self) -> Sequence[Path]:
        return (self.socket_dir,)

    def _has_data(self) -> bool:
        return (self.data_dir / "PG_VERSION").exists()

    def _make_data(self, scratch: Path, account: Account) -> None:
        program = (self.bin_dir or Path()) / "initdb"
        options = ("-U", _USER, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-instructions")
        env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}
        self._install([str(program), "-D", str(scratch), *options], account, _INITDB_S, env)
        with Folder.open(scratch) as folder:
            handle = folder.open_file("postgresql.conf", os.O_WRONLY | os.O_APPEND)
        with os.fdopen(handle, "a") as file:
            file.write(CATALOG.own_files["postgresql.conf"].format(socket=self.socket_dir))

    def connect(self, application: str = "trimtab") -> Connection:
        """A superuser connection: a visit's, or a fresh one."""
        fields = {"host": str(self.socket_dir), "port": _PORT, "user": _USER, "dbname": "postgres"}
        return self._visit.session(lambda: connect(fields, application=application))

    def moved_to(self) -> str:
        """See `Reach`; its socket is where we have put it."""
        return ""

    def endpoint(self) -> Endpoint:
        """How a load connects."""
        return Endpoint(protocol="postgresql", host=str(self.socket_dir), port=_PORT, user=_USER, database="postgres")
