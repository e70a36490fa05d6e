"""A real PostgreSQL 18 for the workload tests, and TPC-H files to compute answers from."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.servers import copy_folder, template
from tests.servers.postgresql import TRUST, Server, started
from trimtab.records import Endpoint
from trimtab.workload.tpch import TpchWorkload
from trimtab.workload.tpch.generator import find_generator

SCALE = 0.01


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


_SETTINGS = "shared_buffers = '256MB'\nmax_connections = 40\nfsync = off\n"


@contextmanager
def running(source: Path | None = None) -> Iterator[Running]:
    """An empty server, or a copy of a template, on a free port of the loopback address, which asks for no password; gone
    afterwards."""
    with started("18", settings=_SETTINGS, hba=TRUST, source=source) as mine:
        yield Running(_endpoint(mine), mine.data_dir)


def _endpoint(server: Server) -> Endpoint:
    return Endpoint(protocol="postgresql", host="127.0.0.1", port=server.port, user="postgres", database="postgres")


def with_tpch() -> Path:
    """A template whose server holds TPC-H of scale 0.01 in the standard schema."""

    def make(folder: Path) -> None:
        with started("18", settings=_SETTINGS, hba=TRUST) as mine:
            TpchWorkload.from_settings({"mix": "Q6", "scale": SCALE}).prepare(_endpoint(mine), lambda line: None)
            mine.control("stop")
            folder.rmdir()
            copy_folder(mine.folder, folder, mine.account)

    return template("postgresql-tpch", make)


@pytest.fixture(scope="session")
def server() -> Iterator[Endpoint]:
    """A server that all tests share; it holds the database of `small`."""
    with running(with_tpch()) as mine:
        yield mine.endpoint


@pytest.fixture(scope="session")
def small(server: Endpoint) -> Endpoint:
    """The endpoint of a loaded TPC-H database of scale 0.01, in the standard schema; tests leave it as it is."""
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
