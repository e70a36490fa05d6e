"""What a DBA relies on: EXPLAIN shows what runs, what is locked stays as it is, and no answer and no statement is lost."""

from __future__ import annotations

import resource
import socket
import struct
import subprocess
from pathlib import Path

import psycopg
import pytest

from tests.engine.conftest import OWN, Session, engine
from tests.engine.test_engine_plans import BIG
from tests.servers.postgresql import DEBIAN, Server, switch_to

pytestmark = [pytest.mark.service, pytest.mark.needs("c-compiler", "postgresql-embedded")]

SORT = "SELECT g, r FROM big ORDER BY r, g"
"""Is done on disk with 4 MB, and in memory with 64 MB."""


def explained(session: Session, sql: str, options: str = "ANALYZE, TIMING OFF") -> str:
    return "\n".join(str(row[0]) for row in session.rows(f"EXPLAIN ({options}) {sql}"))


@pytest.mark.parametrize("version", ["18", pytest.param(DEBIAN, marks=pytest.mark.full)])
def test_what_explain_shows_is_what_runs(version: str) -> None:
    """And EXPLAIN, of whichever kind, is neither a probe nor measured."""
    notices: list[str] = []
    with engine(version, "jit = off\nmax_parallel_workers_per_gather = 0\n") as (_, session):
        session.connection.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
        session.rows(BIG)
        query_id = session.learn(SORT, 6)["query_id"]
        session.rows(f"SELECT trimtab_pin({query_id}, 'work_mem=64MB')")
        session.rows(f"PREPARE sorted AS {SORT}")
        calls = session.classes()[0]["calls"]
        said = "Trimtab: pinned: work_mem=65536"
        text = explained(session, SORT)
        assert said in text
        assert "Sort Method: quicksort" in text
        assert session.value("SHOW work_mem") == "4MB"
        for _ in range(7):  # the plan is made for the first, and kept
            notices.clear()
            text = explained(session, "EXECUTE sorted")
            assert "Sort Method: quicksort" in text
            assert said in text + "".join(notices)
        notices.clear()
        assert said.partition(": ")[2] in explained(session, SORT, "FORMAT JSON") + "".join(notices)
        assert session.classes()[0]["calls"] == calls
        session.rows("EXECUTE sorted")
        assert session.classes()[0]["calls"] == calls + 1, "what is kept runs and is measured as before"
        made = explained(session, "CREATE TABLE made AS " + SORT) + explained(
            session, "DECLARE c CURSOR FOR " + SORT, "COSTS OFF"
        )
        assert "Trimtab" not in made, "what is left alone has no line"
        assert "external merge" in made
        session.rows("SET statement_timeout = '5ms'")
        with pytest.raises(psycopg.errors.QueryCanceled):
            explained(session, SORT)
        session.rows("RESET statement_timeout")
        assert "Trimtab" not in explained(session, "DECLARE c CURSOR FOR " + SORT, "COSTS OFF")
        session.rows("SET trimtab.memory_limit = '1MB'")
        assert "left alone: the memory limit is reached" in explained(session, "EXECUTE sorted") + "".join(notices)
        session.rows("RESET trimtab.memory_limit; SET work_mem = '1MB'")
        text = explained(session, "EXECUTE sorted") + "".join(notices)
        assert "external merge" in text
        assert "left alone: " in text


def test_explain_takes_no_probe(session: Session) -> None:
    """Neither of a statement nor of a prepared one: plans with a probe's settings are for measured executions only."""
    session.rows(BIG)
    session.rows("SET trimtab.parameters = 'work_mem'")
    session.tune("base=100;work_mem=16384:0.99")
    session.learn(SORT, 12)
    session.rows(f"PREPARE sorted AS {SORT}")
    before = session.classes()[0]
    for sql in (SORT, "EXECUTE sorted", SORT, "EXECUTE sorted"):
        assert "Trimtab: own values: nothing has been proven faster" in explained(session, sql)
        assert "external merge" in explained(session, sql)
    after = session.classes()[0]
    assert (after["calls"], after["probes"]) == (before["calls"], before["probes"])


@pytest.mark.parametrize(("cost", "probes"), [("plan=0.01;stop=1;", 0), ("", 0)])
def test_a_value_that_postgresql_refuses_is_not_judged(session: Session, cost: str, probes: int) -> None:
    """Its gain would be found if it were taken for set: half of the time."""
    session.rows("SET trimtab.parameters = 'work_mem'")
    session.tune(f"{cost}refuse=work_mem;base=100;work_mem=16384:0.5")
    for _ in range(60):
        assert session.rows(OWN)[0][0] == "4MB"
    found = session.classes()[0]
    assert (found["settings"], found["probes"], found["loss_ms"] <= 2) == ("", probes, True)
    assert found["calls"] >= 55


def test_a_refused_value_of_what_was_learnt_leaves_the_statement_as_without_us(session: Session) -> None:
    cost = "base=100;effective_io_concurrency=128:0.5;work_mem=65536:0.5"
    session.tune(cost)
    query_id = session.learn(OWN, 8)["query_id"]
    for settings in ("work_mem=64MB", "effective_io_concurrency=128", "effective_io_concurrency=128, jit=off"):
        session.tune(cost)
        session.rows(f"SELECT trimtab_pin({query_id}, '{settings}')")
        session.rows(OWN)
        assert session.classes()[0]["left_alone"] == ""
        session.tune(f"refuse={settings.partition('=')[0]};{cost}")
        gained = session.classes()[0]["gained_ms"]
        for _ in range(3):
            assert session.rows(OWN)[0][0] == "4MB"
        found = session.classes()[0]
        assert (found["left_alone"], found["gained_ms"]) == ("PostgreSQL refuses one of its settings", gained)
        assert "left alone: PostgreSQL refuses one of its settings" in explained(session, OWN)


def test_what_alter_role_and_alter_database_have_set_keeps_its_value(tuned: tuple[Server, Session]) -> None:
    """The other parameters are tuned; what such sessions learn is kept over a restart, and is theirs."""
    server, _ = tuned
    cost = "base=100;work_mem=65536:0.5;enable_mergejoin=0:0.7"
    for setting in ("ROLE postgres", "DATABASE postgres"):
        with server.admin() as connection:
            Session(connection).rows(f"SELECT trimtab_reset(); ALTER {setting} SET work_mem = '8MB'")
        try:
            with server.admin() as connection:
                session = Session(connection)
                session.tune(cost)
                values = dict(session.rows('SELECT name, "values" FROM trimtab_parameters'))
                assert (values["work_mem"], values["jit"]) == ("8192", "off on")
                assert session.learn(OWN)["settings"] == "enable_mergejoin=off"
                assert session.rows(OWN)[0][0] == "8MB"
                session.rows("SET trimtab.parameters = 'all, -jit'")
                session.learn(OWN)
            server.control("restart")
            with server.admin() as connection:
                again = Session(connection)
                again.tune(cost)
                assert "enable_mergejoin=off" in again.rows(f"EXPLAIN {OWN}")[-1][0]
                again.rows("SET trimtab.parameters = 'all, -jit'")
                assert "enable_mergejoin=off" in again.rows(f"EXPLAIN {OWN}")[-1][0], "a class of its own, kept as well"
        finally:
            with server.admin() as connection:
                Session(connection).rows(f"ALTER {setting} RESET work_mem")
        with server.admin() as connection:
            free = Session(connection)
            free.tune(cost)
            assert free.learn(OWN)["settings"] == "enable_mergejoin=off"
            assert any("work_mem=65536" in row["settings"] for row in free.classes())


def test_what_the_connection_has_set_is_left_alone(tuned: tuple[Server, Session]) -> None:
    server, _ = tuned
    at = {"host": str(server.sockets), "port": server.port, "user": "postgres", "dbname": "postgres"}
    with psycopg.connect(**at, autocommit=True, options="-c work_mem=8MB") as connection:  # type: ignore[arg-type]
        session = Session(connection)
        session.rows("SELECT trimtab_reset()")
        session.tune()
        assert session.learn(OWN, 12)["left_alone"] == "the session has set one of the parameters"
        session.rows("SET trimtab.parameters = 'all, -work_mem'")
        assert session.learn(OWN, 40)["calls"] >= 9
        assert {row["left_alone"] for row in session.classes()} == {"", "the session has set one of the parameters"}


def test_parameters_can_be_taken_out_of_the_list(session: Session) -> None:
    session.rows("SET trimtab.parameters = 'all, -jit, work_mem=4MB..16MB'")
    values = dict(session.rows('SELECT name, "values" FROM trimtab_parameters'))
    assert (values["jit"], values["work_mem"], values["enable_nestloop"]) == ("on", "4096 16384", "off on")
    session.tune("base=100;jit=0:0.2;work_mem=16384:0.8")
    assert session.learn(OWN)["settings"] == "work_mem=16384"
    tried = ", ".join(row[0] for row in session.rows("SELECT settings FROM trimtab_history"))
    names = {each.partition("=")[0] for each in tried.split(", ")}
    assert "jit" not in names
    assert "work_mem" in names
    with pytest.raises(psycopg.errors.InvalidParameterValue) as caught:
        session.rows("SET trimtab.parameters = 'all, -fsync'")
    assert caught.value.diag.message_detail == "parameter=fsync is not one that Trimtab sets."


@pytest.mark.parametrize("version", ["18", pytest.param(DEBIAN, marks=pytest.mark.full)])
def test_a_session_that_holds_locks_is_left_alone(version: str) -> None:
    with engine(version) as (_, session):
        session.connection.prepare_threshold = None
        query_id = session.learn(OWN, 8)["query_id"]
        session.rows(f"SELECT trimtab_pin({query_id}, 'work_mem=64MB')")

        def shown() -> str:
            return str(session.rows(OWN)[0][0])

        session.rows("BEGIN; LOCK TABLE t IN ACCESS SHARE MODE")
        assert shown() == "64MB"
        for mode in ("SHARE UPDATE EXCLUSIVE", "SHARE", "EXCLUSIVE"):
            session.rows(f"SAVEPOINT a; LOCK TABLE t IN {mode} MODE")
            assert shown() == "4MB"
            assert session.classes()[0]["left_alone"] == "the session holds locks"
            session.rows("ROLLBACK TO a")
            assert shown() == "64MB", "the lock went with the savepoint"
        session.rows("COMMIT")
        for taken, released in (
            ("SELECT pg_advisory_lock(7)", "SELECT pg_advisory_unlock(7)"),
            ("BEGIN; SELECT pg_advisory_xact_lock_shared(7)", "COMMIT"),
            ("BEGIN; SELECT g FROM t WHERE g = 1 FOR UPDATE", "COMMIT"),
        ):
            session.rows(taken)
            assert shown() == "4MB"
            session.rows(released)
            assert shown() == "64MB"
        session.rows("SELECT pg_advisory_lock(7); SET trimtab.allow_locks = on")
        assert shown() == "64MB"


MIXED = """
    CREATE TABLE mixed AS SELECT g AS id, g % 7 / 10.0 AS n, (g % 7)::numeric(10, 2) AS f,
        g % 7 * interval '1 h' AS i, (g % 7)::float8 AS x, (g % 7)::text AS c,
        date '2020-01-01' + g AS d, ARRAY[g % 7] AS a FROM generate_series(1, 500) g;
    ALTER TABLE mixed ADD PRIMARY KEY (id); ANALYZE mixed
"""
PLANS_CHOICE = [
    "SELECT g FROM t ORDER BY k LIMIT 5",
    "SELECT k, max(r) FROM t GROUP BY k ORDER BY 2 DESC LIMIT 3",
    "SELECT id, f FROM mixed ORDER BY f OFFSET 3",
    "SELECT a.id, b.id FROM mixed a JOIN mixed b USING (f) ORDER BY a.id LIMIT 5 OFFSET 2 + 1 - 1",
    "SELECT count(*) FROM t WHERE g IN (SELECT r FROM t ORDER BY k LIMIT 5)",
    "SELECT n, count(*) FROM mixed GROUP BY n",
    "SELECT f / 3, count(*) FROM mixed GROUP BY 1",
    "SELECT DISTINCT n FROM mixed",
    "SELECT x, count(*) FROM mixed GROUP BY x",
    "SELECT a, count(*) FROM mixed GROUP BY a",
    "SELECT max(n) FROM mixed",
    "SELECT max(i) FROM mixed",
    "SELECT max(q.n) FROM (SELECT f AS n FROM mixed UNION ALL SELECT n FROM mixed) q",
    "SELECT sum(DISTINCT n) FROM mixed",
    "SELECT n FROM mixed UNION SELECT f FROM mixed",
    "SELECT string_agg(c, ',' ORDER BY f) FROM mixed",
    "SELECT ARRAY(SELECT g FROM t WHERE k = 7)",
    "SELECT count(*) FROM mixed WHERE a <> ARRAY(SELECT b.id FROM mixed b WHERE b.f = mixed.f ORDER BY b.f)",
]
"""Answers that another plan may give otherwise: rows of equal rank, and values that are equal but written differently."""
ONE_ANSWER = [
    "SELECT g, k FROM t ORDER BY k, g LIMIT 5",
    "SELECT k, max(r) FROM t GROUP BY k ORDER BY 2, k LIMIT 3",
    "SELECT g FROM t ORDER BY k FETCH FIRST 3 ROWS WITH TIES",
    "SELECT g FROM t ORDER BY k OFFSET 0",
    "SELECT count(*) FROM t LIMIT 1",
    "SELECT id, x FROM mixed ORDER BY x, id LIMIT 5",
    "SELECT f, count(*) FROM mixed GROUP BY f",
    "SELECT DISTINCT f, c FROM mixed",
    "SELECT c, sum(n), avg(n), min(f), max(d) FROM mixed GROUP BY c",
    "SELECT max(s) FROM (SELECT sum(f * (1 - f)) AS s FROM mixed GROUP BY c) q",
    "WITH q AS (SELECT sum(f * (1 - f)) AS s FROM mixed GROUP BY c) SELECT max(s) FROM q WHERE s < (SELECT max(s) FROM q)",
    "SELECT y, count(*) FROM (SELECT extract(year FROM d) AS y FROM mixed) q GROUP BY y",
    "SELECT string_agg(c, ',' ORDER BY c) FROM mixed",
    "SELECT ARRAY(SELECT g FROM t WHERE k = 7 ORDER BY g)",
    "SELECT ARRAY(SELECT c FROM mixed ORDER BY x, id), ARRAY(SELECT max(g) FROM t)",
    "SELECT c FROM mixed UNION SELECT k::text FROM t",
]


@pytest.mark.parametrize("version", ["18", pytest.param(DEBIAN, marks=pytest.mark.full)])
def test_what_could_answer_otherwise_is_left_alone(version: str) -> None:
    with engine(version) as (_, session):
        session.rows(MIXED)
        for sql in PLANS_CHOICE + ONE_ANSWER:
            for _ in range(4):
                session.rows(sql)
            said = session.rows(f"EXPLAIN {sql}")[-1][0]
            why = "left alone: its answer may depend on the order of rows"
            assert said == f"Trimtab: {why if sql in PLANS_CHOICE else 'own values: nothing has been proven faster'}", (
                sql
            )
        session.rows("SET trimtab.allow_order = on")
        for sql in PLANS_CHOICE:
            assert "own values" in session.rows(f"EXPLAIN {sql}")[-1][0], sql


def exchange(line: socket.socket, *messages: bytes) -> bytes:
    """Sends messages of PostgreSQL's protocol; what comes back until the server is ready for more."""
    line.sendall(b"".join(messages))
    got = b""
    while not got.endswith((b"Z\0\0\0\5I", b"Z\0\0\0\5T", b"Z\0\0\0\5E")):
        part = line.recv(65536)
        assert part, got
        got += part
    return got


def message(kind: bytes, content: bytes) -> bytes:
    return kind + struct.pack("!i", len(content) + 4) + content


def test_what_a_client_fetches_in_parts_is_left_alone(tuned: tuple[Server, Session], session: Session) -> None:
    """As drivers do that are given a fetch size: which rows come first is the plan's choice, and the client may want no more."""
    server, _ = tuned
    query_id = session.learn(OWN, 8)["query_id"]
    session.rows(f"SELECT trimtab_pin({query_id}, 'work_mem=64MB')")

    def fetched(n: int) -> bool:
        run = message(b"P", b"\0" + OWN.encode() + b"\0\0\0") + message(b"B", b"\0\0\0\0\0\0\0\0")
        return b"64MB" in exchange(line, run, message(b"E", b"\0" + struct.pack("!i", n)), message(b"S", b""))

    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(server.sockets / f".s.PGSQL.{server.port}"))
        exchange(line, message(b"", struct.pack("!i", 3 << 16) + b"user\0postgres\0\0"))
        for setting in ("mode = tune", "min_duration = '0.01ms'", "test_cost = 'base=100'"):
            exchange(line, message(b"Q", f"SET trimtab.{setting}".encode() + b"\0"))
        assert [fetched(0) for _ in range(5)][-1]
        assert fetched(1), "nobody knows yet"
        assert not any(fetched(n) for n in (1, 0, 1))
    assert session.classes()[0]["left_alone"] == "its rows are fetched in parts"
    session.connection.prepare_threshold = None
    assert session.rows(OWN)[0][0] == "4MB"
    session.rows("SET trimtab.allow_order = on")
    assert session.rows(OWN)[0][0] == "64MB"


def limit(server: Server, session: Session, room_mb: int) -> None:
    """The kernel gives the session's process so much more memory and no more."""
    pid = session.connection.info.backend_pid
    now = int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()
    argv = [*switch_to(server.account), "prlimit", f"--pid={pid}", f"--as={now + (room_mb << 20)}:"]
    subprocess.run(argv, check=True, capture_output=True)


@pytest.mark.parametrize("is_late", [False, True])
def test_a_probe_without_memory_fails_no_statement(
    tuned: tuple[Server, Session], session: Session, is_late: bool
) -> None:
    """A sort in memory gets none; the statement's own goes to disk. It may be the first probe, or one of the proof after it."""
    session.rows(
        "CREATE TABLE IF NOT EXISTS fat AS SELECT g, repeat(md5(g::text), 12) AS pad FROM generate_series(1, 60000) g"
    )
    sql = "SELECT count(*) FROM (SELECT pad, g FROM fat ORDER BY pad, g OFFSET 0) q WHERE g > 0"
    session.tune("stop=1;base=100;plan=0.01;work_mem=65536:0.9")
    session.rows(
        "SET trimtab.parameters = 'work_mem=4MB..64MB'; SET max_parallel_workers_per_gather = 0; SET jit = off"
    )
    session.rows("ANALYZE fat; SET trimtab.budget = 50; SET trimtab.server_budget = 50")
    expected = session.rows(sql)

    def events() -> list[tuple[str, str]]:
        return session.rows("SELECT event, settings FROM trimtab_history WHERE event LIKE 'probe%'")  # type: ignore[return-value]

    if not is_late:
        limit(tuned[0], session, 14)
    for _ in range(30):
        assert session.rows(sql) == expected
        if is_late and ("probe", "work_mem=65536") in events():
            is_late = False
            limit(tuned[0], session, 14)
        if any(event == "probe stopped" for event, _ in events()):
            break
    assert "probe stopped" in dict(events())
    assert "probe failed" not in dict(events())
    assert session.rows(sql) == expected
    assert session.value("SELECT memory_kb FROM trimtab_status()") == 0
