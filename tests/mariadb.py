"""A private MariaDB of Debian's programs for tests: own data directory, socket and port, an unprivileged user."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from trimtab.records import Endpoint

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


def _user() -> str | None:
    """mariadbd refuses to run as root unless told to."""
    if os.getuid() != 0:
        return None
    return "mysql" if "mysql" in {entry.pw_name for entry in pwd.getpwall()} else "nobody"


def _skip(reason: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@contextmanager
def private_mariadb() -> Iterator[MariaDb]:
    """Starts a server and stops exactly that one; skips with a reason where Debian's MariaDB is not installed."""
    if not _PROGRAM.exists():
        _skip("needs Debian's mariadb-server (tests/install-servers.sh installs it)")
    user, home = _user(), Path(tempfile.mkdtemp(prefix="trimtab-mariadb-"))
    if user is not None:
        shutil.chown(home, user)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    run: dict[str, Any] = {"user": user, "cwd": home, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    data, path = home / "data", home / "m.sock"
    own = ["--no-defaults", f"--datadir={data}"]
    install = ["mariadb-install-db", *own, "--auth-root-authentication-method=normal", "--skip-test-db"]
    subprocess.run(install, check=True, **run)
    # Never the tmpdir of another server: at its start a server deletes the temporary tables that it finds there.
    here = [
        f"--socket={path}",
        f"--port={port}",
        "--bind-address=127.0.0.1",
        f"--pid-file={home / 'pid'}",
        f"--tmpdir={home}",
    ]
    small = ["--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=0", f"--log-error={home / 'log'}"]
    server = subprocess.Popen([str(_PROGRAM), *own, *here, *small], **run)
    try:
        found = MariaDb(str(path), port)
        _wait(server, found)
        found.run(
            f"CREATE DATABASE {found.database}; CREATE USER {found.user}@'%' IDENTIFIED BY '{found.password}';"
            f"GRANT ALL ON *.* TO {found.user}@'%'; CREATE USER {found.user}@localhost IDENTIFIED BY '{found.password}';"
            f"GRANT ALL ON *.* TO {found.user}@localhost"
        )
        yield found
    finally:
        server.terminate()
        server.wait(_PATIENCE_S)
        shutil.rmtree(home, ignore_errors=True)


def _wait(server: subprocess.Popen[bytes], found: MariaDb) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while server.poll() is None and time.monotonic() < deadline:
        try:
            found.run("SELECT 1")
        except subprocess.CalledProcessError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"mariadbd did not start: exit status {server.poll()}")
