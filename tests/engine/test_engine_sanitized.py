"""The extension with the compiler's sanitizers and with PostgreSQL's assertions, through all that it does; every finding fails.

The long form of `test_engine.py` and `test_engine_faults.py`, which show what it does without them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from tests.engine.conftest import CATCHES, COST, FAILING, OWN, QUERY, TAKES_BACK, Session, engine, library
from tests.engine.test_engine_faults import killed, survives_nonsense
from tests.engine.test_engine_inside import fetch_in_parts
from tests.engine.test_engine_plans import JOIN
from tests.engine.test_engine_safety import MIXED, ONE_ANSWER, PLANS_CHOICE
from tests.servers import new_folder
from tests.servers.postgresql import ASSERTING, Server

pytestmark = [pytest.mark.full, pytest.mark.service, pytest.mark.needs("c-compiler", "postgresql-embedded")]

WRITES = (
    "INSERT INTO seen SELECT k::text FROM t WHERE g < 100",
    "UPDATE seen SET w = t.k::text FROM t WHERE t.k::text = seen.w",
    "WITH x AS (UPDATE seen SET w = w || '1' RETURNING w) SELECT count(*) FROM x",
)
SANITIZE = ("-fsanitize=address,undefined", "-fno-omit-frame-pointer")


@pytest.fixture
def findings(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the sanitizers of a server's processes write; its server must be started inside the test."""
    runtime = subprocess.run(
        ["cc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    folder = new_folder("findings")
    folder.chmod(0o777)
    # PostgreSQL looks how deep its stack is, which the sanitizer's own stacks would mislead; it frees what it has at its end.
    options = f"detect_leaks=0:detect_stack_use_after_return=0:log_path={folder}/found"
    monkeypatch.setenv("LD_PRELOAD", runtime)
    monkeypatch.setenv("ASAN_OPTIONS", options)
    monkeypatch.setenv("UBSAN_OPTIONS", f"print_stacktrace=1:log_path={folder}/found")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def what_is_left_alone_and_allowed(session: Session) -> None:
    """Each way to look at a statement, EXPLAIN of each kind, refused values, locks, and writes with probes."""
    session.rows(MIXED)
    session.rows("CREATE TABLE seen (w text); SELECT pg_advisory_lock(7)")
    for sql in PLANS_CHOICE + ONE_ANSWER:
        session.learn(sql, 4)
        session.rows(f"EXPLAIN ANALYZE {sql}")
    session.rows("SELECT pg_advisory_unlock(7); SET trimtab.allow_writes = on; SET trimtab.allow_volatile = on")
    for sql in (*WRITES, "DELETE FROM seen WHERE random() < 0.5", "SELECT max(r) FROM t GROUP BY k"):
        session.learn(sql, 40)
    session.rows("PREPARE shown(int) AS SELECT k, count(*) FROM t WHERE g > $1 GROUP BY k")
    for n in range(8):
        session.rows(f"EXPLAIN ANALYZE EXECUTE shown({n})")
        session.rows(f"EXECUTE shown({n})")
    session.tune(f"refuse=work_mem;{COST}")
    session.learn(OWN, 40)
    session.tune()
    session.rows("RESET trimtab.allow_writes; RESET trimtab.allow_volatile")


def everything(server: Server, session: Session) -> None:
    """Each thing that the extension does, in several backends, over an error, a crash and a restart."""
    session.learn(n=150)
    session.learn(OWN)
    session.rows("SET trimtab.hints = 'work_mem=64MB, jit=off'; SET trimtab.parameters = 'work_mem=4MB..64MB, jit'")
    session.learn("SELECT k, min(g) FROM t GROUP BY k ORDER BY 2", 40)
    session.rows("SET trimtab.parameters = 'all'; SET trimtab.inside = on; SET trimtab.inside_tuples = 1000")
    session.learn("SELECT count(*) FROM t a JOIN t b ON a.r = b.r", 60)
    session.rows("SET trimtab.inside = off")
    for gain in ("50", "0.2"):  # a probe that is stopped, and one that is not; both compare plans
        session.tune(f"stop=1;base=100;plan=0.01;enable_hashjoin=0:{gain}")
        session.learn(JOIN, 60)
        session.rows("SELECT trimtab_reset()")
    session.tune()
    session.rows("PREPARE p(int) AS SELECT k, count(*) FROM t WHERE g > $1 GROUP BY k ORDER BY 1")
    for n in range(60):
        session.rows(f"EXECUTE p({n})")
        with suppress(psycopg.Error):
            session.rows("SELECT k, sum(1 / (g - 500)) FROM t GROUP BY k")
    session.rows(TAKES_BACK)
    for bad in (*FAILING, CATCHES):
        with suppress(psycopg.Error):
            session.rows(bad)
        session.learn(OWN, 5)
    session.rows("BEGIN")
    for bad in FAILING[:3]:
        session.rows("SAVEPOINT a")
        with suppress(psycopg.Error):
            session.rows(bad)
        session.rows("ROLLBACK TO a")
        session.learn(OWN, 5)
    session.rows(
        "END; BEGIN; DECLARE c CURSOR FOR SELECT k, count(*) FROM t GROUP BY k; FETCH 3 FROM c; FETCH 2 FROM c; END"
    )
    session.rows(f"EXPLAIN ANALYZE {QUERY}")
    what_is_left_alone_and_allowed(session)
    query_id = session.classes()[0]["query_id"]
    for sql in (
        f"SELECT trimtab_pin({query_id}, 'work_mem=64MB')", "SELECT * FROM trimtab_history", "SELECT trimtab_export()",
        "SELECT * FROM trimtab_parameters", "SELECT * FROM trimtab_status()", "SELECT trimtab_save()",
        f"SELECT trimtab_forget({query_id})",
    ):  # fmt: skip
        session.rows(sql)
    crashes(server, session)


def crashes(server: Server, session: Session) -> None:
    """Statements that wait for their client, a backend that is killed, a restart, and a file full of nonsense."""
    for other in ("SELECT 1", "SELECT k FROM t WHERE g > 0"):
        fetch_in_parts(server, other)
    with server.admin() as victim:
        pid = Session(victim).value("SELECT pg_backend_pid()")
        killed(server, pid, session)
    server.control("restart")
    with server.admin() as connection:
        again = Session(connection)
        again.tune()
        again.learn(n=40)
        again.rows("SELECT trimtab_reset()")
    survives_nonsense(server, 2)


def test_no_sanitizer_finds_anything(findings: Path) -> None:
    with engine("18", path=library("18", "sanitized", SANITIZE)) as (server, session):
        everything(server, session)
        server.control("stop")
    found = "\n".join(path.read_text(errors="replace")[:3000] for path in findings.iterdir())
    assert found == ""


def test_the_sanitizers_would_find_something(findings: Path) -> None:
    """A library that writes beyond its own: without a finding here the other test says nothing."""
    (findings / "bad.c").write_text("char five[5]; int bad(int n) { five[n] = 1; return five[n - 1]; }\n")
    library_path = findings / "bad.so"
    subprocess.run(["cc", "-shared", "-fPIC", *SANITIZE, str(findings / "bad.c"), "-o", str(library_path)], check=True,
                   env={k: v for k, v in os.environ.items() if k != "LD_PRELOAD"})  # fmt: skip
    code = f"import ctypes; ctypes.CDLL({str(library_path)!r}).bad(5)"
    done = subprocess.run(["python3", "-c", code], capture_output=True)
    assert done.returncode != 0
    assert any("global-buffer-overflow" in path.read_text(errors="replace") for path in findings.glob("found*"))


@pytest.mark.parametrize("version", ["18", "16"])
def test_postgresql_s_assertions_hold(version: str) -> None:
    """Those of PostgreSQL's headers, compiled into the extension."""
    with engine(version, path=library(version, "asserting", ["-DUSE_ASSERT_CHECKING=1"])) as (server, session):
        everything(server, session)
        assert trapped(server) == []


def test_a_server_with_assertions_finds_nothing() -> None:
    """All of PostgreSQL's own, and memory that is overwritten when it is freed."""
    with engine(ASSERTING) as (server, session):
        assert session.value("SHOW debug_assertions") == "on"
        everything(server, session)
        assert trapped(server) == []


def trapped(server: Server) -> list[str]:
    """What assertions that did not hold left in the log, and processes that ended by a signal which no test sends."""
    text = (server.folder / "server.log").read_text(errors="replace")
    ended = [line for line in text.splitlines() if "terminated by signal" in line and "signal 9" not in line]
    return [*ended, *(line for line in text.splitlines() if "TRAP" in line)]
