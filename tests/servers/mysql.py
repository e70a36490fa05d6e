"""A private MySQL 8.0 for tests, over TCP and with the certificate that it makes itself; its user has a password."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.fetch_servers import MYSQL_8_0, require_server
from tests.servers.run import copy_folder, free_port, made, template
from trimtab.records import Endpoint
from trimtab.systems.account import Account, server_account
from trimtab.systems.mysql.program import ENVIRONMENT

__all__ = ["Mysql80", "private_mysql"]

_PATIENCE_S = 120.0


@dataclass(frozen=True)
class Mysql80:
    """A running server; the user's password is checked by caching_sha2_password, whose cache is empty at first. `older` has the
    same password, checked by sha256_password, and no rights."""

    port: int
    user: str = "tester"
    password: str = "correct horse"

    @property
    def endpoint(self) -> Endpoint:
        """Over TCP, as its user."""
        return Endpoint(
            protocol="mysql", host="127.0.0.1", port=self.port, user=self.user, database="mysql", password=self.password
        )


def _run(home: Path, account: Account, *options: str) -> subprocess.Popen[bytes]:
    argv = [str(require_server(MYSQL_8_0)), "--no-defaults", f"--datadir={home / 'data'}", f"--tmpdir={home}", *options]
    return subprocess.Popen(
        argv, cwd=home, env=os.environ | dict(ENVIRONMENT), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, **({} if account.is_me else {"user": account.uid, "group": account.gid, "extra_groups": []}),
    )  # fmt: skip


def _make(home: Path) -> None:
    account = server_account()
    os.chown(home, account.uid, account.gid)
    (home / "users.sql").write_text(
        f"CREATE USER {Mysql80.user}@'%' IDENTIFIED BY '{Mysql80.password}';\nGRANT ALL ON *.* TO {Mysql80.user}@'%';\n"
        f"CREATE USER older@'%' IDENTIFIED WITH sha256_password BY '{Mysql80.password}';\n"
    )
    done = _run(
        home, account, "--initialize-insecure", f"--init-file={home / 'users.sql'}", f"--log-error={home / 'log'}"
    )
    assert done.wait(_PATIENCE_S) == 0, (home / "log").read_text()


@contextmanager
def private_mysql() -> Iterator[Mysql80]:
    """Starts a server and stops exactly that one; ends the test where MySQL 8.0 was not fetched."""
    require_server(MYSQL_8_0)
    account, source = server_account(), template("mysql-8.0", _make)
    with made("my80") as folder:
        home = folder / "server"
        copy_folder(source, home, account)
        found = Mysql80(free_port())
        server = _run(
            home, account, f"--port={found.port}", "--bind-address=127.0.0.1", f"--socket={home / 'm.sock'}", "--mysqlx=OFF",
            f"--pid-file={home / 'pid'}", f"--log-error={home / 'log'}", "--innodb-buffer-pool-size=64M",
        )  # fmt: skip
        try:
            _wait(server, home)
            yield found
        finally:
            server.terminate()
            server.wait(_PATIENCE_S)


def _wait(server: subprocess.Popen[bytes], home: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while server.poll() is None and time.monotonic() < deadline:
        with socket.socket(socket.AF_UNIX) as probe, suppress(OSError):
            probe.connect(str(home / "m.sock"))
            return
        time.sleep(0.1)
    raise RuntimeError(f"mysqld did not start: {(home / 'log').read_text()}")
