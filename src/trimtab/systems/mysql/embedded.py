"""Embedded: a private server of a mariadbd or mysqld that is installed here, over a data directory in the cache."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from trimtab.errors import TargetError
from trimtab.host import FileCopy
from trimtab.records import Endpoint
from trimtab.systems.account import Account
from trimtab.systems.embedded import EmbeddedServer
from trimtab.systems.mysql.catalogue import CATALOG
from trimtab.systems.mysql.process import Daemon
from trimtab.systems.mysql.program import ENVIRONMENT, ServerProgram, data_label, find_server
from trimtab.systems.mysql.session import Session, connect
from trimtab.systems.private_folder import socket_folder

__all__ = ["EmbeddedReach"]

_INSTALL_S = 180.0
_SOCKET = "server.sock"
_DENIED = re.compile(r"(?i)permission denied|\b(os errno|errcode:?) 13\b")
_CONFINED = (
    "does AppArmor keep that program to its own folders, as Ubuntu's mysqld (`aa-status`)? `aa-complain` on it lets it write"
    " elsewhere, or let embedded name a program that no package has installed"
)


class EmbeddedReach(EmbeddedServer[Daemon, Session]):
    """See `Reach` and `EmbeddedServer`. `which` is the program: "mariadb", "mysql", or a path."""

    KIND = "mysql"
    START_S = 120.0

    def _label(self, which: str) -> str:
        return data_label(which)

    @property
    def include_file(self) -> Path:
        """Read last, and ours alone."""
        return self.folder / "conf.d" / "zz-trimtab.cnf"

    @property
    def argv(self) -> Sequence[str]:
        """Program and option file."""
        return self._server.argv

    @property
    def pid_file(self) -> Path:
        """The file that the server leaves behind only when it dies."""
        return self.folder / "server.pid"

    @property
    def socket(self) -> Path:
        """The unix socket."""
        return socket_folder(self.folder, _SOCKET) / _SOCKET

    @cached_property
    def _program(self) -> ServerProgram:
        return find_server(self._which)

    def _find(self, account: Account) -> Daemon:
        return Daemon(
            self._program.path, self.folder / "server.cnf", self.pid_file, account, self.log_file, self.connect
        )

    def _inner_folders(self) -> Sequence[Path]:
        return (self.include_file.parent, self.socket.parent, self.folder / "tmp")

    def _has_data(self) -> bool:
        return (self.data_dir / "mysql").exists()

    def _make_data(self, scratch: Path, account: Account) -> None:
        try:
            self._install(self._program.data_maker(scratch), account, _INSTALL_S, ENVIRONMENT)
        except TargetError as error:
            if _DENIED.search(error.message) is None:
                raise
            raise TargetError(error.message, hint=_CONFINED) from error
        text = CATALOG.own_files["server.cnf"].format(folder=self.folder, socket=self.socket)
        copy = FileCopy(content=text.encode(), mode=0o644, uid=account.uid, gid=account.gid)
        self.host.write_file(self.folder / "server.cnf", copy)

    def connect(self) -> Session:
        """A connection as root: a visit's, or a fresh one."""
        return self._visit.session(lambda: connect(self.endpoint()))

    def endpoint(self) -> Endpoint:
        """How a load connects."""
        return Endpoint(protocol="mysql", host=str(self.socket), port=3306, user="root", password="", database="mysql")
