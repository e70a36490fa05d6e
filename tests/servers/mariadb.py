"""A private MariaDB of Debian's programs for tests: own data directory, socket and port, an unprivileged user."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.needs import require
from tests.servers.run import copy_folder, free_port, made, template, wait_for_socket
from trimtab.records import Endpoint
from trimtab.systems.account import Account, server_account

__all__ = ["MariaDb", "private_mariadb"]

_PROGRAM = Path("/usr/sbin/mariadbd")
_PATIENCE_S = 60.0


@dataclass(frozen=True)
class MariaDb:
    """A running server with a database `test` and a user `tester` who may do anything in it."""

    socket: str
    port: int
    user: str = "tester"
    password: str = "correct horse"
    database: str = "test"

    @property
    def endpoint(self) -> Endpoint:
        """Of `database` over the socket, as `user`."""
        return Endpoint(
            protocol="mysql",
            host=self.socket,
            port=self.port,
            user=self.user,
            password=self.password,
            database=self.database,
        )

    def run(self, statement: str) -> str:
        """The output of the `mariadb` client for `statement`, as root over the socket."""
        client = ["mariadb", "--no-defaults", f"--socket={self.socket}", "-uroot", "-N", "-e", statement]
        return subprocess.run(client, check=True, capture_output=True, text=True).stdout


def _as(account: Account) -> dict[str, Any]:
    """mariadbd refuses to run as root unless told to."""
    other = {} if account.is_me else {"user": account.uid, "group": account.gid, "extra_groups": []}
    return {**other, "stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def _start(home: Path, port: int, account: Account, options: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    # Never the tmpdir of another server: at its start a server deletes the temporary tables that it finds there.
    argv = [
        str(_PROGRAM), "--no-defaults", f"--datadir={home / 'data'}", f"--socket={home / 'm.sock'}", f"--port={port}",
        "--bind-address=127.0.0.1", f"--pid-file={home / 'pid'}", f"--tmpdir={home}", f"--log-error={home / 'log'}",
        "--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=0", *options,
    ]  # fmt: skip
    return subprocess.Popen(argv, cwd=home, **_as(account))


def _make(home: Path) -> None:
    """A data directory with the database and the user; the server has ended in order."""
    account = server_account()
    os.chown(home, account.uid, account.gid)
    install = [
        "mariadb-install-db", "--no-defaults", f"--datadir={home / 'data'}", "--auth-root-authentication-method=normal",
        "--skip-test-db",
    ]  # fmt: skip
    subprocess.run(install, check=True, cwd=home, **_as(account))
    found = MariaDb(str(home / "m.sock"), free_port())
    server = _start(home, found.port, account)
    wait_for_socket(server, home / "m.sock", home / "log")
    found.run(
        f"CREATE DATABASE {found.database}; CREATE USER {found.user}@'%' IDENTIFIED BY '{found.password}';"
        f"GRANT ALL ON *.* TO {found.user}@'%'; CREATE USER {found.user}@localhost IDENTIFIED BY '{found.password}';"
        f"GRANT ALL ON *.* TO {found.user}@localhost"
    )
    server.terminate()
    assert server.wait(_PATIENCE_S) == 0


@contextmanager
def private_mariadb(*options: str) -> Iterator[MariaDb]:
    """Starts a server with these options and stops exactly that one; ends the test where Debian's is not installed."""
    require("mariadb")
    account, source = server_account(), template("mariadb-plain", _make)
    with made("my") as folder:
        home = folder / "server"
        copy_folder(source, home, account)
        found = MariaDb(str(home / "m.sock"), free_port())
        server = _start(home, found.port, account, options)
        try:
            wait_for_socket(server, home / "m.sock", home / "log")
            yield found
        finally:
            server.terminate()
            server.wait(_PATIENCE_S)
