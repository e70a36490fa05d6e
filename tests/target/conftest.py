"""Real servers for the tests of the target room: embedded 18 and 16, and one of somebody else's on this machine."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from trimtab.host import LocalHost
from trimtab.target.account import Account, server_account
from trimtab.target.postgresql import PostgresTarget
from trimtab.target.postgresql.install import find_install

RESTART = Path(__file__).with_name("pg_control.py")


@pytest.fixture(scope="session", autouse=True)
def cache() -> Iterator[Path]:
    """A cache of our own that the server's user can enter (pytest's folders are private)."""
    memory = Path("/dev/shm")  # the tests are about configuration, not about the disk
    folder = Path(tempfile.mkdtemp(prefix="tt-", dir=memory if os.access(memory, os.W_OK) else None))
    folder.chmod(0o755)
    before = os.environ.get("TRIMTAB_CACHE")
    os.environ["TRIMTAB_CACHE"] = str(folder)
    yield folder
    if before is None:
        del os.environ["TRIMTAB_CACHE"]
    else:
        os.environ["TRIMTAB_CACHE"] = before
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def state_dir(cache: Path) -> Path:
    return cache / "state"


@pytest.fixture(scope="session", params=["18", "16"])
def opened(request: pytest.FixtureRequest, cache: Path, state_dir: Path) -> Iterator[PostgresTarget]:
    table = {
        "kind": "postgresql",
        "embedded": request.param,
        "memory": "1GiB",
        "knobs": "all",
        "unlock": ["durability", "data_loss", "replication"],
    }
    target = PostgresTarget.from_settings("tests", table, state_dir=state_dir)
    target.open()
    yield target
    target.close()


@pytest.fixture
def target(opened: PostgresTarget) -> Iterator[PostgresTarget]:
    """An open embedded server (18 and 16), restored after each test whatever it did."""
    found = opened.snapshot()
    yield opened
    opened.restore(found)


@dataclass(frozen=True)
class Server:
    """A server that Trimtab did not start: TCP with a password, restarted by a command."""

    data_dir: Path
    port: int
    password: str
    restart: str
    account: Account
    bin_dir: Path
    sockets: Path

    def url(self, *, user: str = "postgres", password: str | None = None, database: str = "postgres") -> str:
        return f"postgresql://{user}:{password or self.password}@127.0.0.1:{self.port}/{database}"

    def table(self, **more: object) -> dict[str, object]:
        """The table of a target with files and restart."""
        return {
            "kind": "postgresql",
            "url": self.url(),
            "memory": "1GiB",
            "data_dir": str(self.data_dir),
            "restart": self.restart,
            **more,
        }

    def control(self, *words: str) -> None:
        argv = [sys.executable, str(RESTART), str(self.bin_dir), str(self.data_dir), str(self.account.uid), *words]
        subprocess.run(argv, check=True, capture_output=True, timeout=120)

    def admin(self, database: str = "postgres") -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(self.url(database=database), autocommit=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def server(cache: Path) -> Iterator[Server]:
    account = server_account()
    bin_dir = find_install("18", account, cache) / "bin"
    folder = cache / "own"
    folder.mkdir()
    os.chown(folder, account.uid, account.gid)
    password, port = secrets.token_hex(8), free_port()
    secret = folder / "password"
    secret.write_text(password)
    os.chown(secret, account.uid, account.gid)
    data_dir = folder / "data"
    made = LocalHost().run(
        [str(bin_dir / "initdb"), "-D", str(data_dir), "-U", "postgres", "-A", "scram-sha-256", "--no-locale", "-N",
         f"--pwfile={secret}"],
        timeout_s=120, user=account.uid, group=account.gid,
    )  # fmt: skip
    assert made.exit_code == 0, made.output
    with (data_dir / "postgresql.conf").open("a") as file:
        file.write(f"listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = '{folder}'\n")
    words = f"{sys.executable} {RESTART} {bin_dir} {data_dir} {account.uid}"
    made_server = Server(data_dir, port, password, f"{words} restart", account, bin_dir, folder)
    made_server.control("start")
    yield made_server
    made_server.control("stop")
