"""Embedded: a private server of the mariadbd that is installed here, over a data directory in the cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trimtab.errors import TargetError
from trimtab.records import Endpoint
from trimtab.target.account import Account
from trimtab.target.embedded import EmbeddedServer
from trimtab.target.mysql.process import Daemon, find_program
from trimtab.target.mysql.session import Session, connect
from trimtab.target.private_folder import socket_folder

__all__ = ["EmbeddedReach"]

_START_S = 120.0
_INSTALL_S = 180.0
_SOCKET = "server.sock"

_OPTIONS = """# Trimtab: reached over a unix socket in a private folder only; everything else is the server's default.
[mariadbd]
datadir = {folder}/data
socket = {socket}
pid-file = {folder}/server.pid
skip-networking
!includedir {folder}/conf.d
"""


class EmbeddedReach(EmbeddedServer[Daemon]):
    """See `Reach` and `EmbeddedServer`."""

    def __init__(
        self,
        name: str,
        *,
        memory_limit_bytes: int | None = None,
        folder: Path | None = None,
        immediate_stop: bool = True,
    ) -> None:
        super().__init__(
            "mysql",
            f"mariadb-{name}",
            memory_limit_bytes=memory_limit_bytes,
            folder=folder,
            immediate_stop=immediate_stop,
        )

    @property
    def include_file(self) -> Path:
        """Read last, and ours alone."""
        return self.folder / "conf.d" / "zz-trimtab.cnf"

    @property
    def argv(self) -> Sequence[str]:
        """Program and option file."""
        return self._server.argv

    @property
    def socket(self) -> Path:
        """The unix socket."""
        return socket_folder(self.folder, _SOCKET) / _SOCKET

    def _find(self, account: Account) -> Daemon:
        program = find_program("mariadbd")
        if program is None:
            raise TargetError(
                'embedded = "mariadb" needs the server\'s program, and mariadbd is not installed',
                hint="apt-get install mariadb-server (its service need not run), or give the url of a running server",
            )
        return Daemon(program, self.folder / "server.cnf", self.folder / "server.pid", account, self.log_file)

    def _inner_folders(self) -> Sequence[Path]:
        return (self.include_file.parent, self.socket.parent)

    def _has_data(self) -> bool:
        return (self.data_dir / "mysql").exists()

    def _make_data(self, scratch: Path, account: Account) -> None:
        program = find_program("mariadb-install-db")
        if program is None:
            raise TargetError("mariadb-install-db is not installed", hint="it belongs to the package mariadb-server")
        options = ("--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve")
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "TZ": "UTC", "HOME": "/nonexistent"}
        self._install([str(program), "--no-defaults", f"--datadir={scratch}", *options], account, _INSTALL_S, env)
        (self.folder / "server.cnf").write_text(_OPTIONS.format(folder=self.folder, socket=self.socket))

    def connect(self) -> Session:
        """A fresh connection as root."""
        return connect(self.endpoint())

    def endpoint(self) -> Endpoint:
        """How a load connects."""
        return Endpoint(protocol="mysql", host=str(self.socket), port=3306, user="root", password="", database="mysql")

    def ensure_up(self) -> None:
        """Starts the server when it is down."""
        if self._server.pid is None:
            self.start_with(())

    def start_with(self, options: Sequence[str]) -> None:
        """Starts the server with further options, which win over every file; one that runs is stopped first."""
        self._server.stop(immediate=True)
        self._server.start(self.endpoint(), _START_S, extra=options, on_spawn=self._limiter())

    def describe(self) -> Mapping[str, Any]:
        """Where it is."""
        return {"way": "embedded", "product": "mariadb", "folder": str(self.folder)}
