"""Sections inside a running statement: what they run with, what they learn, and what they may cost."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from tests.engine.conftest import Session, engine
from tests.engine.test_engine_safety import exchange, message
from tests.servers.postgresql import Server

pytestmark = [pytest.mark.service, pytest.mark.needs("c-compiler", "postgresql-embedded")]

SHOWS = "SELECT DISTINCT current_setting('work_mem'), k % 2 FROM t"
"""What its sections ran with."""
COST = "base=10;work_mem=16384:0.5"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with engine("18") as (server, _):
        yield server


@pytest.fixture
def session(server: Server) -> Iterator[Session]:
    with server.admin() as connection:
        fresh = Session(connection)
        fresh.rows("SELECT trimtab_reset()")
        fresh.tune(COST)
        fresh.rows("SET trimtab.inside = alone; SET trimtab.inside_tuples = 1000; SET trimtab.budget = 20")
        yield fresh


def learnt(session: Session, sql: str, n: int) -> dict[str, object]:
    for _ in range(n):
        session.rows(sql)
    cursor = session.connection.execute("SELECT * FROM trimtab_inside ORDER BY sections DESC LIMIT 1")
    row = cursor.fetchone()
    return {} if row is None else dict(zip([column.name for column in cursor.description or ()], row, strict=True))


def test_a_value_that_is_faster_is_found_and_used_while_the_statement_runs(session: Session) -> None:
    session.rows("SET trimtab.parameters = 'work_mem'")
    found = learnt(session, SHOWS, 30)
    assert found["settings"], found
    assert found["gain"] == pytest.approx(2)
    assert float(str(found["gain_low"])) > 1.9
    shown = {value for value, _ in session.rows(SHOWS)}
    assert str(found["settings"]).removeprefix("work_mem=") in {str(kb(value)) for value in shown}
    assert session.value("SHOW work_mem") == "4MB"
    assert session.classes()[0]["probes"] == 0, "with alone the settings of the whole statement stay"


def kb(text: str) -> int:
    return int(text[:-2]) * {"kB": 1, "MB": 1024}[text[-2:]]


@pytest.mark.parametrize(
    "plan",
    [
        "SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0",
        "SET enable_seqscan = off; SET enable_bitmapscan = off",
        "SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off",
    ],
    ids=["parallel", "index", "bitmap"],
)
def test_sections_of_all_scans_change_no_answer(session: Session, plan: str) -> None:
    session.rows(f"SET trimtab.parameters = 'work_mem, effective_io_concurrency, hash_mem_multiplier'; {plan}")
    session.rows("CREATE INDEX IF NOT EXISTS t_g ON t (g)")
    query = "SELECT a.k, count(*), sum(b.r) FROM t a JOIN t b ON a.g = b.g WHERE a.g > 0 AND b.g > 0 GROUP BY a.k ORDER BY a.k"
    session.rows("SET trimtab.mode = off")
    right = session.rows(query)
    session.rows("SET trimtab.mode = tune")
    for _ in range(12):
        assert session.rows(query) == right
    found = learnt(session, query, 1)
    assert int(str(found.get("sections", 0))) >= 50, found
    assert int(str(found["probes"])) > 0, found


def test_a_subquery_that_stands_in_two_clauses_of_a_plan_is_wrapped_once(session: Session) -> None:
    """A hash join has a subquery's value in its clauses and in the keys that it looks up, as in TPC-H's Q2."""
    session.rows("SET enable_nestloop = off; SET enable_mergejoin = off")
    session.rows("CREATE TABLE IF NOT EXISTS few AS SELECT g, min(k) AS k FROM t WHERE g < 20 GROUP BY g; ANALYZE few")
    query = (
        "SELECT count(*), sum(t.r) FROM t JOIN few ON few.g = t.g"
        " AND few.k = (SELECT min(c.k) FROM few c JOIN few d ON d.g = c.g WHERE c.g = t.g) WHERE t.g < 20"
    )
    session.rows("SET trimtab.mode = off")
    plan = [line.strip() for (line,) in session.rows(f"EXPLAIN (COSTS off) {query}")]
    assert "Hash Cond: ((t.g = few.g) AND ((SubPlan 1) = few.k))" in plan, plan
    right = session.rows(query)
    session.rows("SET trimtab.mode = tune; SET trimtab.parameters = 'work_mem, hash_mem_multiplier'")
    for _ in range(12):
        assert session.rows(query) == right
    assert learnt(session, query, 1), "its scans were wrapped"


def test_memory_stays_within_the_limit_of_all_backends(session: Session) -> None:
    session.rows("SET trimtab.parameters = 'work_mem'; SET trimtab.memory_limit = '40MB'")
    found = learnt(session, f"SELECT * FROM ({SHOWS}) s ORDER BY 1", 30)
    tried = {value for _ in range(3) for value, _ in session.rows(f"SELECT * FROM ({SHOWS}) s ORDER BY 1")}
    assert found["settings"] == "", "twice 16 MB (hash_mem_multiplier) in a sort and a hash table do not fit"
    assert int(str(found["probes"])) > 0, "8 MB do"
    assert all(kb(value) <= 8 * 1024 for value in tried), tried
    assert session.value("SELECT memory_kb FROM trimtab_status()") == 0


def test_what_sections_lose_counts_for_the_server_but_not_with_alone(session: Session) -> None:
    session.rows("SET trimtab.parameters = 'work_mem'; SET trimtab.test_cost = 'base=10;work_mem=4097:3'")
    alone = learnt(session, SHOWS, 12)
    assert float(str(alone["loss_ms"])) > 0
    assert session.value("SELECT loss_ms FROM trimtab_status()") == 0
    session.rows("SET trimtab.inside = on; SET trimtab.server_budget = 0.01; SET trimtab.budget = 20")
    session.rows("SET trimtab.parameters = 'work_mem=4MB..64MB'")
    on = learnt(session, SHOWS, 24)
    assert float(session.value("SELECT loss_ms FROM trimtab_status()")) > 0
    assert int(str(on["probes"])) < int(str(alone["probes"])), "the server's budget ends them sooner"


def test_values_below_the_session_s_own_need_a_range(session: Session) -> None:
    session.rows("SET trimtab.test_cost = 'base=10;work_mem=1024:0.5'; SET trimtab.parameters = 'work_mem=1MB..2MB'")
    assert learnt(session, SHOWS, 30)["settings"] in ("work_mem=1024", "work_mem=2048")


def n_rows(answer: bytes) -> int:
    """Of all that the server sent."""
    n = at = 0
    while at < len(answer):
        n += answer[at : at + 1] == b"D"
        at += 1 + struct.unpack("!i", answer[at + 1 : at + 5])[0]
    return n


def fetch_in_parts(server: Server, other: str) -> None:
    """A statement with sections, and others between the parts of its rows; each answer is whole."""
    sql = "SELECT g FROM t"
    settings = {
        "mode": "tune", "min_duration": "'0.01ms'", "test_cost": "'base=10'", "inside": "alone", "inside_tuples": "1000",
    }  # fmt: skip

    def query(text: str) -> bytes:
        return exchange(line, message(b"Q", text.encode() + b"\0"))

    def part(n: int) -> int:
        return n_rows(exchange(line, message(b"E", b"p\0" + struct.pack("!i", n)), message(b"S", b"")))

    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(60)
        line.connect(str(server.sockets / f".s.PGSQL.{server.port}"))
        exchange(line, message(b"", struct.pack("!i", 3 << 16) + b"user\0postgres\0\0"))
        for name, value in settings.items():
            query(f"SET trimtab.{name} = {value}")
        for _ in range(8):
            assert n_rows(query(sql)) == 10000
            query("SELECT k FROM t WHERE g > 0")
        query("BEGIN")
        began = message(b"P", b"\0" + sql.encode() + b"\0\0\0") + message(b"B", b"p\0\0\0\0\0\0\0\0")
        exchange(line, began, message(b"S", b""))
        assert part(1500) == 1500
        for each in other.split("; "):
            query(each)
        assert part(2500) == 2500
        query(other.split("; ", maxsplit=1)[0])
        assert part(0) == 6000
        query("COMMIT")
        assert n_rows(query(sql)) == 10000


@pytest.mark.parametrize(
    "other", ["SELECT 1", "SELECT k FROM t WHERE g > 0", "SAVEPOINT a; SELECT 1 / 0; ROLLBACK TO a"]
)
def test_a_statement_that_waits_for_its_client_goes_on_after_others(
    server: Server, session: Session, other: str
) -> None:
    """Its rows are fetched in parts, as drivers do with a fetch size; the others end its sections, or have their own."""
    fetch_in_parts(server, other)
    assert session.rows("SELECT 1") == [(1,)], "nor did the server go down"
