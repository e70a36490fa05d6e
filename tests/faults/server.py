"""Real servers for the fault matrix: each test gets one of its own, copied from a data directory made once per version."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from tests.target.conftest import free_port
from trimtab.host import LocalHost
from trimtab.target.account import Account, server_account
from trimtab.target.postgresql.install import find_install

PG_CONTROL = Path(__file__).parents[1] / "target" / "pg_control.py"
WITNESS_ROWS = 500

_WITNESS = (
    "CREATE TABLE witness (id bigserial PRIMARY KEY, body text NOT NULL)",
    f"INSERT INTO witness (body) SELECT md5(g::text) FROM generate_series(1, {WITNESS_ROWS}) g",
    "CREATE TABLE sink (id bigserial PRIMARY KEY, n int NOT NULL)",
    "ANALYZE witness",
)
_HBA = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"


@dataclass
class Server:
    """One PostgreSQL: somebody else's as far as Trimtab knows (`own`), or the embedded one of a study.

    Attributes:
        version: "18" or "16".
        folder: of data directory, socket and log.
        account: the user it runs as.
        port: of TCP on 127.0.0.1 (own) or of the socket's name only (embedded).
        is_embedded: whether Trimtab starts and stops it.
        password: of the superuser over TCP.
    """

    version: str
    folder: Path
    bin_dir: Path
    account: Account
    port: int
    is_embedded: bool
    password: str = field(repr=False)

    @property
    def data_dir(self) -> Path:
        return self.folder / "data"

    @property
    def sockets(self) -> Path:
        return self.folder / "run"

    @property
    def auto_conf(self) -> Path:
        return self.data_dir / "postgresql.auto.conf"

    @property
    def pid(self) -> int | None:
        """Of the running postmaster; None when it is down (a zombie counts as down)."""
        try:
            pid = int((self.data_dir / "postmaster.pid").read_text().split("\n")[0])
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            argv = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return None
        return pid if state != "Z" and b"postgres" in argv else None

    def control(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
        """start, stop, restart, status; through the same program that `restart` in the study file calls."""
        return subprocess.run([*self._words(), *words], check=check, capture_output=True, timeout=120)

    def _words(self) -> list[str]:
        return [sys.executable, str(PG_CONTROL), str(self.bin_dir), str(self.data_dir), str(self.account.uid)]

    @property
    def restart_command(self) -> str:
        return " ".join([*self._words(), "restart"])

    def url(self, *, user: str = "postgres", database: str = "postgres") -> str:
        """Over TCP, without a password: PGPASSWORD has it."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def admin(self, *, database: str = "postgres", user: str = "postgres") -> psycopg.Connection[tuple[Any, ...]]:
        """A superuser connection of the test's own, over the socket, autocommit."""
        port = 5432 if self.is_embedded else self.port
        return psycopg.connect(
            host=str(self.sockets), port=port, user=user, dbname=database, autocommit=True, connect_timeout=5,
            application_name="test",
        )  # fmt: skip

    def query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with self.admin() as connection:
            return connection.execute(sql, values or None).fetchall()  # type: ignore[arg-type]

    @contextmanager
    def up(self) -> Iterator[None]:
        """The server runs inside, started (and stopped again) when it was down; one that is stopping is waited for."""
        until = time.monotonic() + 60
        while self.pid is not None and self._is_stopping() and time.monotonic() < until:
            time.sleep(0.02)
        was_down = self.pid is None
        if was_down:
            self.control("start")
        try:
            yield
        finally:
            if was_down:
                self.control("stop")

    def _is_stopping(self) -> bool:
        """By the last line of the postmaster's own file."""
        try:
            return (self.data_dir / "postmaster.pid").read_text().split("\n")[7].strip() == "stopping"
        except (OSError, IndexError):
            return False

    def wait_up(self, timeout_s: float = 30.0) -> None:
        until = time.monotonic() + timeout_s
        while True:
            try:
                self.query("SELECT 1")
                return
            except psycopg.Error:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def destroy(self) -> None:
        """For the end of a test: at once and whatever state it is in."""
        pid = self.pid
        if pid is not None:
            os.kill(pid, 18)  # SIGCONT: a stopped process would not see the next one
            os.kill(pid, 3)  # SIGQUIT: immediate shutdown
            until = time.monotonic() + 10
            while self.pid is not None and time.monotonic() < until:
                time.sleep(0.01)
            if self.pid is not None:
                os.kill(pid, 9)


def make_template(version: str, cache: Path) -> Path:
    """A data directory of `version` with the witness table, made once and copied for every test."""
    account = server_account()
    bin_dir = find_install(version, account, cache) / "bin"
    folder = cache / f"template-{version}"
    _own_folder(folder, account)
    _own_folder(folder / "run", account)
    made = LocalHost().run(
        [str(bin_dir / "initdb"), "-D", str(folder / "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8", "-N",
         "--no-locale", "--no-instructions"],
        timeout_s=120, user=account.uid, group=account.gid,
    )  # fmt: skip
    assert made.exit_code == 0, made.output
    server = Server(version, folder, bin_dir, account, 5432, True, "")
    _configure(server, "listen_addresses = ''\n")
    server.control("start")
    with server.admin() as connection:
        for statement in _WITNESS:
            connection.execute(statement)
    server.control("stop")
    return folder


def copy_server(template: Path, folder: Path, version: str, cache: Path, *, is_embedded: bool) -> Server:
    """A server of the test's own from the template; not started."""
    account = server_account()
    bin_dir = find_install(version, account, cache) / "bin"
    folder.parent.mkdir(parents=True, exist_ok=True)
    _own_folder(folder, account)
    _own_folder(folder / "run", account)
    _copy_tree(template / "data", folder / "data", account)
    port = 5432 if is_embedded else free_port()
    server = Server(version, folder, bin_dir, account, port, is_embedded, secrets.token_hex(8))
    (server.data_dir / "pg_hba.conf").write_text(_HBA)
    _configure(server, "listen_addresses = ''\n" if is_embedded else "listen_addresses = '127.0.0.1'\n")
    return server


def _configure(server: Server, more: str) -> None:
    conf = server.data_dir / "postgresql.conf"
    text = conf.read_text().partition("# the tests'")[0]
    port = f"port = {server.port}\n"
    conf.write_text(
        f"{text}# the tests' own lines\nunix_socket_directories = '{server.sockets}'\n{port}{more}shared_buffers = '16MB'\n"
    )


def _own_folder(folder: Path, account: Account) -> None:
    folder.mkdir(mode=0o700)
    os.chown(folder, account.uid, account.gid)


def _copy_tree(source: Path, goal: Path, account: Account) -> None:
    shutil.copytree(source, goal, symlinks=True, ignore=shutil.ignore_patterns("postmaster.pid"))
    for root, _, files in os.walk(goal):
        os.chown(root, account.uid, account.gid)
        for name in files:
            os.lchown(f"{root}/{name}", account.uid, account.gid)


def set_password(server: Server, role: str, password: str) -> None:
    """Over the socket, with the hash made here: no statement carries the password itself."""
    with server.admin() as connection:
        verifier = connection.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()
        connection.execute(f"ALTER ROLE \"{role}\" PASSWORD '{verifier}'")


def settings_of(server: Server) -> Mapping[str, str]:
    """What the server itself uses, without what belongs to a session or differs at each start."""
    rows = server.query(
        "SELECT name, setting FROM pg_settings WHERE source NOT IN ('client', 'session')"
        " AND name NOT IN ('in_hot_standby', 'transaction_isolation', 'transaction_read_only', 'application_name',"
        " 'transaction_deferrable', 'client_encoding', 'shared_memory_size', 'shared_memory_size_in_huge_pages',"
        " 'num_os_semaphores')"
    )
    return {str(name): str(setting) for name, setting in rows}
