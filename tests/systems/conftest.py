"""Real servers for the tests of the target room: embedded 18 and 16, and one of somebody else's on this machine."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from tests.servers import free_port as free_port
from tests.servers.cache import own_cache
from tests.servers.embedded import provide
from tests.servers.postgresql import controlled, started
from trimtab.systems.account import Account
from trimtab.systems.files import file_from_json
from trimtab.systems.postgresql import PostgresTarget
from trimtab.systems.postgresql.autoconf import reload_and_wait
from trimtab.systems.postgresql.catalogue import read_rows


@pytest.fixture(scope="session", autouse=True)
def cache() -> Iterator[Path]:
    with own_cache() as folder:
        yield folder


@pytest.fixture(scope="session")
def state_dir(cache: Path) -> Path:
    return cache / "state"


@pytest.fixture(scope="session", params=["18", pytest.param("16", marks=pytest.mark.full)])
def opened(request: pytest.FixtureRequest, cache: Path, state_dir: Path) -> Iterator[PostgresTarget]:
    table = {
        "kind": "postgresql",
        "embedded": request.param,
        "memory": "1GiB",
        "knobs": "all",
        "unlock": ["durability", "data_loss", "replication"],
    }
    provide(cache, request.param, name="tests")
    target = PostgresTarget.from_settings("tests", table, state_dir=state_dir)
    target.open()
    yield target
    target.close()


ON_16_TOO = ("test_counters.py", "test_embedded.py", "test_overlay.py")
"""Files whose tests run on PostgreSQL 16 in the quick form as well: what differs between versions is looked at there."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the others on 16 `full`; tests/rules.py leaves these out of the quick form."""
    for item in items:
        parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        if parameters.get("opened") == "16" and item.path.name not in ON_16_TOO:
            item.add_marker(pytest.mark.full)


@pytest.fixture
def target(opened: PostgresTarget) -> Iterator[PostgresTarget]:
    """An open embedded server (18 and 16), as it was found after each test: also what the test wrote as somebody else."""
    found = opened.snapshot()
    yield opened
    reach = opened._reach
    for name, table in found.files.items():
        copy = file_from_json(table)
        if copy is None:
            reach.host.remove_file(Path(name))
        else:
            reach.host.write_file(Path(name), copy)
    opened.restore(found)
    reload_and_wait(reach.connect)
    with reach.connect() as connection:
        rows = read_rows(connection)
    if any(rows[name].value != value or rows[name].is_pending for name, value in found.values.items() if name in rows):
        reach.restart()


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

    def control(self, verb: str) -> None:
        argv = controlled(self.bin_dir, self.data_dir, self.account, verb)
        subprocess.run(argv, check=True, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, timeout=120)

    def admin(self, database: str = "postgres") -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(self.url(database=database), autocommit=True)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with started("18", settings="") as mine:
        (mine.data_dir / "pg_hba.conf").write_text(
            "local all all scram-sha-256\nhost all all 127.0.0.1/32 scram-sha-256\n"
        )
        mine.control("reload")
        yield Server(
            mine.data_dir, mine.port, mine.password, mine.restart_command, mine.account, mine.bin_dir, mine.sockets
        )
