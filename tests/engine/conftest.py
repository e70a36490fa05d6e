"""The PostgreSQL extension, compiled once a run for each version whose headers are here, in servers of the tests' own."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests import needs
from tests.servers.postgresql import DEBIAN, Server, programs, started
from tests.servers.run import template

ROOT = Path(__file__).parents[2]
EXTENSION = ROOT / "extensions" / "postgresql"
SECTIONS = ROOT / "clients" / "c" / "sections"
COST = "base=100;work_mem=65536:0.5;jit=0:1.01;max_parallel_workers_per_gather=4:1.3;random_page_cost=1.1:3;enable_nestloop=0:20"
"""What statements "take" in most tests: half with 64 MB of work_mem, much more with what an unlucky probe may try."""
QUERY = "SELECT k, count(*), max(r) FROM t GROUP BY k ORDER BY 3, 1"
OWN = "SELECT current_setting('work_mem'), count(*) FROM t GROUP BY 1"
"""Shows what it runs with: the one kind of statement whose answer may differ."""
TAKES_BACK = (
    "CREATE OR REPLACE PROCEDURE takes_back() LANGUAGE plpgsql AS $$ BEGIN PERFORM count(*) FROM t; ROLLBACK; "
    "PERFORM count(*) FROM t; COMMIT; PERFORM 1 / (g - 500) FROM t; END $$"
)
FAILING = ["SELECT 1 / (g - 500) FROM t", "SELECT 1 / 0", "DO $$ BEGIN PERFORM 1 / 0; END $$", "CALL takes_back()"]
"""Statements that fail while they run, while they are planned, in a block, and after a transaction that they have ended."""
CATCHES = (
    "DO $$ BEGIN PERFORM 1 / (g - 500) FROM t; EXCEPTION WHEN division_by_zero THEN PERFORM count(*) FROM t; END $$"
)

Row = dict[str, Any]


def headers(version: str) -> Path:
    """Of the server; the test is skipped where they are not installed, nor fetched (`make servers`), nor named by
    TRIMTAB_POSTGRESQL_HEADERS."""
    asked = subprocess.run(
        [str(programs(version) / "pg_config"), "--includedir-server"], capture_output=True, text=True, check=True
    )
    folder = Path(asked.stdout.strip())
    if version == DEBIAN and "TRIMTAB_POSTGRESQL_HEADERS" in os.environ:
        folder = Path(os.environ["TRIMTAB_POSTGRESQL_HEADERS"])
    elif version == DEBIAN and not (folder / "postgres.h").exists():
        from tests.fetch_servers import HEADERS

        folder = HEADERS
    if not os.path.exists(folder / "postgres.h"):
        needs.missing(f"needs the headers of PostgreSQL {version}: no {folder / 'postgres.h'}")
    return folder


_LEVELS = (("-O1", "-g"),) * 2 if needs.IS_FULL else (("-O0", "-g0"), ("-O1", "-g0"))
"""How the extension is compiled, and for Debian's server: with the warnings of a compiler that optimises, which takes longer."""


def compiled(argv: Sequence[str]) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr


def library(version: str, name: str = "plain", flags: Sequence[str] = ()) -> Path:
    """The extension for a version, with warnings as errors; `flags` of the compiler make another one of that name."""
    needs.require("c-compiler")
    include = headers(version)

    def make(folder: Path) -> None:
        sources = [
            *sorted(EXTENSION.glob("src/*.c")),
            *(SECTIONS / f"trimtab_{n}.c" for n in ("tuner", "search", "simplex", "points")),
        ]
        common = [
            "cc", "-fPIC", "-std=gnu99", "-D_GNU_SOURCE", *_LEVELS[version == DEBIAN], "-Wall", "-Wextra", "-Werror",
            "-Wno-unused-parameter", "-Wno-sign-compare", "-Wno-missing-field-initializers", *flags, f"-I{SECTIONS}",
            f"-I{EXTENSION / 'src'}", f"-I{include}",
        ]  # fmt: skip
        first = folder / "first.h"  # what all sources begin with is read once, and not twenty times: half of the CPU
        first.write_text('#include "statement.h"\n')
        compiled([*common, "-x", "c-header", str(first), "-o", f"{first}.gch"])
        compiled(
            [*common, "-shared", "-include", str(first), *map(str, sources), "-lm", "-o", str(folder / "trimtab.so")]
        )

    path = template(f"trimtab-{version}-{name}", make) / "trimtab.so"
    path.chmod(0o755)
    return path


def script(path: Path) -> str:
    """CREATE EXTENSION without an installation: its script with the library's full path."""
    return (EXTENSION / "trimtab--1.0.sql").read_text(encoding="utf-8").replace("MODULE_PATHNAME", str(path))


class Session:
    """One connection that may set what it likes, with a statement's time decided by the test."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        connection.execute("SET client_encoding = 'UTF8'")  # texts of a SQL_ASCII database would come as bytes

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        cursor = self.connection.execute(sql.encode())
        return cursor.fetchall() if cursor.description else []

    def value(self, sql: str) -> Any:
        return self.rows(sql)[0][0]

    def tune(self, cost: str = COST, mode: str = "tune") -> None:
        self.rows(f"SET trimtab.mode = {mode}; SET trimtab.min_duration = '0.01ms'; SET trimtab.test_cost = '{cost}'")

    def classes(self) -> list[Row]:
        cursor = self.connection.execute("SELECT * FROM trimtab_sections ORDER BY calls DESC")
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def learn(self, sql: str = QUERY, n: int = 120) -> Row:
        """The class of `sql` after so many executions. Statements of this helper's own are none: they take no time to matter."""
        for _ in range(n):
            self.rows(sql)
        return self.classes()[0]


@contextmanager
def engine(
    version: str, settings: str = "", *, preload: bool = True, cost: str = COST, path: Path | None = None
) -> Iterator[tuple[Server, Session]]:
    path = path or library(version)
    loaded = f"shared_preload_libraries = '{path}'\n" if preload else ""
    with (
        started(version, settings=f"fsync = off\nautovacuum = off\n{loaded}{settings}") as server,
        server.admin() as connection,
    ):
        session = Session(connection)
        if not preload:
            session.rows(f"LOAD '{path}'")
        session.rows(script(path))
        session.rows(
            "CREATE TABLE t AS SELECT g, g % 100 AS k, (g * 7919) % 10007 AS r FROM generate_series(1, 10000) g; ANALYZE t"
        )
        session.tune(cost)
        yield server, session


@contextmanager
def waiting(server: Server, busy: Session, sql: str, most: int = 200) -> Iterator[None]:
    """While `busy`, whose `trimtab.test_cost` ends with `wait=...`, waits in the middle of `sql`, run `most` times at most.

    Afterwards the statement is cancelled, where its session still lives.
    """

    def run() -> None:
        with suppress(psycopg.Error):
            for _ in range(most):
                busy.rows(sql)

    thread = threading.Thread(target=run)
    thread.start()
    asks = f"SELECT wait_event_type FROM pg_stat_activity WHERE pid = {busy.connection.info.backend_pid}"
    try:
        with server.admin() as witness:
            until = time.monotonic() + 30
            while witness.execute(asks.encode()).fetchall() != [("Extension",)]:
                assert thread.is_alive(), "no statement came to wait"
                assert time.monotonic() < until
                time.sleep(0.01)
        yield
    finally:
        if not busy.connection.closed:
            busy.connection.cancel()
        thread.join(30)


def wait_for_setting(server: Server, name: str, value: str) -> None:
    """Until new sessions have it, which is a moment after the reload."""
    until = time.monotonic() + 60
    while server.query(f"SHOW {name}") != [(value,)]:
        assert time.monotonic() < until, f"{name} is not {value}"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def tuned() -> Iterator[tuple[Server, Session]]:
    """A server of PostgreSQL 18 whose superuser's session tunes; what is known is forgotten before each test."""
    with engine("18") as both:
        yield both


@pytest.fixture
def session(tuned: tuple[Server, Session]) -> Iterator[Session]:
    server, _ = tuned
    with server.admin() as connection:
        fresh = Session(connection)
        fresh.rows("SELECT trimtab_reset()")
        fresh.tune()
        yield fresh
