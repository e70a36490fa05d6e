"""PostgreSQL for tests: 18 and 16 of the wheel and Debian's own, copied from a template of the run."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from tests.needs import missing, require
from tests.servers.run import copy_folder, free_port, new_folder, run_folder, template
from trimtab.host import LocalHost
from trimtab.records import Endpoint
from trimtab.systems.account import Account, server_account
from trimtab.systems.postgresql.install import find_install

__all__ = [
    "ASSERTING",
    "DEBIAN",
    "HBA",
    "TRUST",
    "Server",
    "controlled",
    "copied",
    "plain",
    "programs",
    "set_password",
    "started",
    "switch_to",
]

DEBIAN = "debian"
"""The version that stands for the newest of Debian's."""
ASSERTING = "asserting"
"""The same one with its assertions switched on, where it was built."""

TRUST = "local all all trust\nhost all all 127.0.0.1/32 trust\n"
HBA = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"


def programs(version: str) -> Path:
    """The `bin` folder of a version, which the servers' own user can run."""
    if version == DEBIAN:
        require("postgresql-debian")
        return max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    if version == ASSERTING:
        from tests.build_postgresql import ASSERTING as BUILT

        if not os.path.exists(BUILT / "bin" / "postgres"):
            missing("needs PostgreSQL with assertions (build: python -m tests.build_postgresql)")
        return BUILT / "bin"
    require("postgresql-embedded")
    return find_install(version, server_account(), run_folder() / "cache") / "bin"


def switch_to(account: Account) -> list[str]:
    """What stands before a command that runs as that user; an ordinary user may not even switch to itself."""
    return [] if account.is_me else ["setpriv", f"--reuid={account.uid}", f"--regid={account.gid}", "--clear-groups"]


def controlled(bin_dir: Path, data_dir: Path, account: Account, verb: str) -> list[str]:
    """The command that does `verb` (start, stop, restart, reload, status) to a server, as its user: pg_ctl itself, which is what
    `systemctl restart postgresql` is elsewhere. An interpreter around it would cost more than the server's start."""
    log = ["-l", str(data_dir.parent / "server.log")] if verb in ("start", "restart") else []
    return [*switch_to(account), f"{bin_dir}/pg_ctl", verb, "-D", str(data_dir), *log, "-t", "60"]


@dataclass
class Server:
    """One PostgreSQL: somebody else's as far as Trimtab knows (`own`), or the embedded one of a study.

    Attributes:
        version: "18", "16", DEBIAN or ASSERTING.
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

    def control(self, verb: str, *, check: bool = True) -> subprocess.CompletedProcess[bytes]:
        """start, stop, restart, status; by the same command as `restart` in the study file."""
        argv = controlled(self.bin_dir, self.data_dir, self.account, verb)
        return subprocess.run(argv, check=check, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, timeout=120)

    @property
    def restart_command(self) -> str:
        return shlex.join(controlled(self.bin_dir, self.data_dir, self.account, "restart"))

    def url(self, *, user: str = "postgres", database: str = "postgres") -> str:
        """Over TCP, without a password: PGPASSWORD has it."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    @property
    def endpoint(self) -> Endpoint:
        """Of the superuser over TCP."""
        return Endpoint(
            protocol="postgresql", host="127.0.0.1", port=self.port, user="postgres", database="postgres",
            password=self.password,
        )  # fmt: skip

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
        while self.pid is not None and self.is_stopping and time.monotonic() < until:
            time.sleep(0.02)
        was_down = self.pid is None
        if was_down:
            self.control("start")
        try:
            yield
        finally:
            if was_down:
                self.control("stop")

    @property
    def is_stopping(self) -> bool:
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
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)  # a stopped process would not see the next one
                os.kill(pid, signal.SIGQUIT)  # immediate shutdown
            until = time.monotonic() + 60
            while self.pid is not None and time.monotonic() < until:
                time.sleep(0.01)
            if self.pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def plain(version: str) -> Path:
    """The template of a version: a folder with `data` and `run`, as initdb leaves them."""

    def make(folder: Path) -> None:
        account = server_account()
        os.chown(folder, account.uid, account.gid)
        (folder / "run").mkdir(mode=0o700)
        os.chown(folder / "run", account.uid, account.gid)
        # Debian's has no encoding (SQL_ASCII), as --no-locale alone makes it: texts of such a server come as bytes.
        encoding = [] if version == DEBIAN else ["-E", "UTF8"]
        done = LocalHost().run(
            [str(programs(version) / "initdb"), "-D", str(folder / "data"), "-U", "postgres", "-A", "trust", "-N",
             "--no-locale", *encoding],
            timeout_s=120, user=account.uid, group=account.gid,
        )  # fmt: skip
        assert done.exit_code == 0, done.output

    return template(f"postgresql-{version}", make)


def copied(
    source: Path, folder: Path, version: str, *, is_embedded: bool = False, settings: str = "", hba: str = HBA,
    account: Account | None = None,
) -> Server:  # fmt: skip
    """A server from a template in `folder`, which is made; not started.

    Args:
        source: a folder with `data` and `run`.
        is_embedded: reached over its socket only, as those that Trimtab starts.
        settings: more lines of postgresql.conf.
        hba: content of pg_hba.conf.
        account: its user; default: that of Trimtab's own servers.
    """
    user = account or server_account()
    copy_folder(source, folder, user)
    folder.chmod(0o700)
    server = Server(
        version,
        folder,
        programs(version),
        user,
        5432 if is_embedded else free_port(),
        is_embedded,
        secrets.token_hex(8),
    )
    (server.data_dir / "pg_hba.conf").write_text(hba)
    conf = server.data_dir / "postgresql.conf"
    text = conf.read_text().partition("# the tests'")[0]
    listen = "" if is_embedded else "127.0.0.1"
    conf.write_text(
        f"{text}# the tests' own lines\nunix_socket_directories = '{server.sockets}'\nport = {server.port}\n"
        f"listen_addresses = '{listen}'\n{settings}"
    )
    return server


@contextmanager
def started(
    version: str = "18", *, settings: str = "fsync = off\n", hba: str = HBA, password: str | None = None,
    account: Account | None = None, source: Path | None = None,
) -> Iterator[Server]:  # fmt: skip
    """A running server on 127.0.0.1 and a socket of its own; gone afterwards. `password`: of the superuser over TCP."""
    folder = new_folder("pg")
    server = copied(source or plain(version), folder / "server", version, settings=settings, hba=hba, account=account)
    server.password = password or server.password
    server.control("start")
    try:
        set_password(server, "postgres", server.password)
        yield server
    finally:
        server.destroy()
        shutil.rmtree(folder, ignore_errors=True)


def set_password(server: Server, role: str, password: str, *, n_rounds: int = 1) -> None:
    """Over the socket, with the hash made here: no statement carries the password itself.

    A client hashes `n_rounds` times at each login, 4096 where PostgreSQL is asked to make the hash: several milliseconds of CPU.
    """
    with server.admin() as connection:
        connection.execute(f"ALTER ROLE \"{role}\" PASSWORD '{_verifier(password, n_rounds)}'")


def _verifier(password: str, n_rounds: int) -> str:
    """What the server keeps of a password (RFC 5803)."""
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, n_rounds)
    client, server = (hmac.digest(salted, name, "sha256") for name in (b"Client Key", b"Server Key"))
    kept = [base64.b64encode(key).decode() for key in (salt, hashlib.sha256(client).digest(), server)]
    return f"SCRAM-SHA-256${n_rounds}:{kept[0]}${kept[1]}:{kept[2]}"
