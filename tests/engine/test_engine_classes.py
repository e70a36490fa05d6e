"""What makes a class, how its knowledge ages, what its budget is, and what it learns by a real clock."""

from __future__ import annotations

import statistics
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from tests.engine.conftest import OWN, QUERY, Row, Session
from tests.engine.test_engine_plans import BIG, JOIN
from tests.servers.postgresql import Server

pytestmark = [pytest.mark.service, pytest.mark.needs("c-compiler", "postgresql-embedded")]

EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
"""PostgreSQL's."""
HEADER = struct.Struct("=IIQIIII")
"""Of the file: magic, layout, system, folder, number of classes, their size, checksum."""


@pytest.fixture
def watcher(tuned: tuple[Server, Session]) -> Iterator[Session]:
    """A session that is off: what it asks makes no class."""
    with tuned[0].admin() as connection:
        watching = Session(connection)
        watching.rows("SET trimtab.mode = off")
        yield watching


def of(session: Session, query_id: int) -> list[Row]:
    return [row for row in session.classes() if row["query_id"] == query_id]


def tried(session: Session, event: str = "probe") -> list[str]:
    """The settings of all probes, in their order."""
    return [row[0] for row in session.rows(f"SELECT settings FROM trimtab_history WHERE event = '{event}' ORDER BY at")]


@contextmanager
def without(watcher: Session, session: Session, *names: str) -> Iterator[None]:
    """The server's configuration has these settings off, and the session's statements take what they take."""
    session.tune("")
    session.rows("SET trimtab.budget = 10; SET trimtab.server_budget = 10")
    for name in names:
        watcher.rows(f"ALTER SYSTEM SET {name} = off")
    watcher.rows("SELECT pg_reload_conf()")
    until = time.monotonic() + 10
    while session.value(f"SHOW {names[-1]}") == "on":
        assert time.monotonic() < until
    try:
        yield
    finally:
        watcher.rows("ALTER SYSTEM RESET ALL")
        watcher.rows("SELECT pg_reload_conf()")


def test_a_plan_is_learnt_by_the_clock(session: Session, watcher: Session) -> None:
    """A nested loop over 100 x 10,000 rows, where a hash join takes a tenth of the time."""
    session.rows("SET trimtab.parameters = 'enable_hashjoin, work_mem'; SET trimtab.hints = 'enable_hashjoin=on'")
    slow = "SELECT count(*), sum(b.k) FROM t a JOIN t b ON a.g = b.r WHERE a.g <= 100"

    def ms() -> float:
        began = time.monotonic()
        assert session.rows(slow) == expected
        return (time.monotonic() - began) * 1e3

    with without(watcher, session, "enable_hashjoin", "enable_mergejoin"):
        expected, took, until = session.rows(slow), [], time.monotonic() + 20
        while time.monotonic() < until and not any(row["settings"] for row in watcher.classes()):
            took.append(ms())
        (found,) = (row for row in watcher.classes() if row["settings"])
        after = [ms() for _ in range(5)]
    assert found["settings"] == "enable_hashjoin=on"
    assert found["gain"] > 3
    assert found["own_ms"] == pytest.approx(statistics.median(took), rel=0.7)
    assert found["loss_ms"] <= 0.1 * found["total_ms"] + 0.25 * found["gained_ms"] + found["own_ms"]
    assert statistics.median(after) < statistics.median(took) / 2


def test_a_slow_probe_is_stopped_by_the_clock(session: Session, watcher: Session) -> None:
    """What the hint says would take more than a second: it gets what the budget has, and the statement its answer."""
    fast = "SELECT count(*), sum(b.r) FROM big a JOIN big b ON a.g = b.r"
    session.rows(
        "SET trimtab.parameters = 'enable_hashjoin'; SET trimtab.hints = 'enable_hashjoin=off'; SET statement_timeout = '30s'"
    )
    with without(watcher, session, "enable_mergejoin"):
        watcher.rows(f"{BIG}; SET enable_hashjoin = off; SET statement_timeout = '1s'")
        with pytest.raises(psycopg.errors.QueryCanceled):
            watcher.rows(fast)
        expected, until = session.rows(fast), time.monotonic() + 20
        while time.monotonic() < until and not tried(watcher, "probe stopped"):
            assert session.rows(fast) == expected
            assert session.value("SHOW enable_hashjoin") == "on"
    ((settings, lost),) = watcher.rows("SELECT settings, time_ms FROM trimtab_history WHERE event = 'probe stopped'")
    assert settings == "enable_hashjoin=off"
    assert 0 < lost < 1000  # ms; whole it takes longer, and a busy machine stops it late
    assert all(row["settings"] == "" for row in watcher.classes())


def probes(session: Session) -> int:
    return sum(row["probes"] for row in session.classes())


def test_the_server_s_budget_holds_over_all_classes(session: Session, watcher: Session) -> None:
    """What one class has lost, the others wait for until all of them together have paid it back."""
    session.tune("base=100;jit=0:1.3;work_mem=16384:1.1")
    session.rows("SET trimtab.parameters = 'jit, work_mem'; SET trimtab.budget = 50; SET trimtab.server_budget = 1")
    for _ in range(12):
        session.rows(QUERY)
    assert probes(watcher) == 1, "30 ms are lost, and 1 % of a second covers 10"
    for _ in range(17):
        session.rows(OWN)
        assert probes(watcher) == 1
        assert watcher.value("SELECT loss_ms FROM trimtab_status()") == pytest.approx(30)
    one, other = sorted(watcher.classes(), key=lambda row: row["probes"])
    assert one["headroom_ms"] > 100, "by its own budget it could have tried much"
    assert other["probes"] == 1
    for _ in range(15):
        session.rows(OWN)
    assert probes(watcher) >= 2, "three seconds of all cover it"
    total, loss = watcher.rows("SELECT total_ms, loss_ms FROM trimtab_status()")[0]
    assert loss <= 0.01 * total + 30


WAYS = [
    ("allow_locks", "SELECT current_setting('work_mem'), g FROM t WHERE g < 3 FOR UPDATE", "it locks rows"),
    ("allow_volatile", "SELECT current_setting('work_mem'), random() FROM t", "it calls volatile functions"),
    (
        "allow_order",
        "SELECT current_setting('work_mem'), g FROM t ORDER BY k LIMIT 2",
        "its answer may depend on the order of rows",
    ),
    ("allow_writes", "INSERT INTO seen SELECT current_setting('work_mem') RETURNING w", "it writes"),
    ("allow_writes", "UPDATE seen SET w = current_setting('work_mem') RETURNING w", "it writes"),
    ("allow_writes", "DELETE FROM seen WHERE w = '' RETURNING current_setting('work_mem')", "it writes"),
    ("allow_writes", "WITH x AS (UPDATE seen SET w = 'x') SELECT current_setting('work_mem')", "it writes"),
]


@pytest.mark.parametrize(("allow", "sql", "why"), WAYS)
def test_what_is_left_alone_can_be_allowed(session: Session, watcher: Session, allow: str, sql: str, why: str) -> None:
    session.connection.prepare_threshold = None
    session.rows("CREATE TABLE IF NOT EXISTS seen (w text)")

    def shown() -> str:
        watcher.rows("TRUNCATE seen; INSERT INTO seen VALUES ('')")
        return str(session.rows(sql)[0][0])

    assert [shown() for _ in range(6)] == ["4MB"] * 6
    (found,) = watcher.classes()
    assert (found["left_alone"], found["probes"]) == (why, 0)
    watcher.rows(f"SELECT trimtab_pin({found['query_id']}, 'work_mem=64MB')")
    assert shown() == "4MB"
    session.rows(f"SET trimtab.{allow} = on")
    assert shown() == "64MB"
    assert session.value("SHOW work_mem") == "4MB"


def test_serializable_transactions_and_those_that_have_written_can_be_allowed(
    session: Session, watcher: Session
) -> None:
    session.connection.prepare_threshold = None
    query_id = session.learn(OWN, 6)["query_id"]
    session.rows(f"SELECT trimtab_pin({query_id}, 'work_mem=64MB'); CREATE TABLE IF NOT EXISTS seen (w text)")
    for allow, begin, why in (
        ("serializable", "BEGIN ISOLATION LEVEL SERIALIZABLE", "its transaction is serializable"),
        ("writes", "BEGIN; INSERT INTO seen VALUES ('')", "its transaction has written"),
    ):
        session.rows(begin)
        assert session.rows(OWN)[0][0] == "4MB"
        assert of(watcher, query_id)[0]["left_alone"] == why
        session.rows(f"SET trimtab.allow_{allow} = on")
        assert session.rows(OWN)[0][0] == "64MB"
        session.rows("ROLLBACK")


UNSAFE = [
    "INSERT INTO keyed SELECT g, k FROM t ON CONFLICT DO NOTHING",
    "UPDATE keyed SET v = k FROM t WHERE t.k = keyed.id",
    "UPDATE keyed SET id = id + 100000",
    "MERGE INTO keyed USING t ON keyed.id = t.g WHEN MATCHED THEN UPDATE SET v = 1",
    "UPDATE watched SET v = 1",
]


def test_writes_whose_outcome_may_depend_on_the_order_of_rows_need_more(session: Session) -> None:
    session.connection.prepare_threshold = None
    session.rows("""
        CREATE TABLE keyed (id int PRIMARY KEY, v int); CREATE TABLE watched (v int);
        CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
        CREATE TRIGGER w BEFORE UPDATE ON watched FOR EACH ROW EXECUTE FUNCTION watch();
        SET trimtab.allow_writes = on""")
    for sql in UNSAFE:
        for _ in range(5):
            session.rows(sql)
        said = session.rows(f"EXPLAIN {sql}")[-1][0]
        assert said == "Trimtab: left alone: its answer may depend on the order of rows", sql
    for sql in ("UPDATE keyed SET v = v + 1 WHERE id < 5", "DELETE FROM keyed WHERE id IN (SELECT -g FROM t)"):
        for _ in range(5):
            session.rows(sql)
        assert "own values" in session.rows(f"EXPLAIN {sql}")[-1][0], sql
    session.rows("DROP TABLE keyed, watched; DROP FUNCTION watch")


FEW = "FROM t a JOIN t b ON a.g = b.r WHERE a.g <= 50"


@pytest.mark.parametrize(
    ("sql", "counts"),
    [
        (f"INSERT INTO seen SELECT a.k::text {FEW}", "SELECT count(*) FROM seen"),
        (f"SELECT a.k, nextval('calls') {FEW}", "SELECT last_value FROM calls"),
    ],
)
def test_what_has_effects_is_probed_and_never_begun_twice(
    session: Session, watcher: Session, sql: str, counts: str
) -> None:
    """A probe of it is not given up: what it did cannot be taken back unseen."""
    session.rows("CREATE TABLE IF NOT EXISTS seen (w text); DROP SEQUENCE IF EXISTS calls; CREATE SEQUENCE calls")
    session.rows(
        "SET trimtab.allow_writes = on; SET trimtab.allow_volatile = on; SET trimtab.parameters = 'enable_hashjoin'"
    )
    n = watcher.value(f"SELECT count(*) {FEW}")
    for gain, goal in (("3", ""), ("0.2", "enable_hashjoin=off")):
        session.tune(f"stop=1;base=100;plan=0.01;enable_hashjoin=0:{gain}")
        watcher.rows("SELECT trimtab_reset(); TRUNCATE seen; ALTER SEQUENCE calls RESTART")
        for _ in range(120):
            session.rows(sql)
        assert watcher.value(counts) == 120 * n
        assert watcher.classes()[0]["settings"] == goal
        assert probes(watcher) >= 1
        assert tried(watcher, "probe stopped") == []


def test_a_changed_schema_makes_another_class(session: Session, watcher: Session) -> None:
    session.rows(
        "CREATE TABLE shaped AS SELECT g, g % 10 AS k, g::varchar(20) AS c, NULL::int AS x FROM generate_series(1, 100) g"
    )
    session.rows("ANALYZE shaped")
    counted = "SELECT count(*) FROM shaped WHERE k = 3"
    for _ in range(5):
        session.rows(counted)
    n = 1
    assert len(watcher.classes()) == n
    for change in (
        "CREATE INDEX shaped_k ON shaped (k)",
        "ALTER TABLE shaped ALTER k TYPE int8",
        "ALTER TABLE shaped ALTER c TYPE varchar(30)",
        "ALTER TABLE shaped ALTER g SET NOT NULL",
        "ALTER TABLE shaped ADD y int",
        "ALTER TABLE shaped DROP x",
        "ALTER TABLE shaped SET UNLOGGED",
    ):
        watcher.rows(f"{change}; ANALYZE shaped")
        for _ in range(5):  # another type may give the statement another id
            session.rows(counted)
        n += 1
        assert len(watcher.classes()) == n, change
    for same in ("ANALYZE shaped", "ALTER TABLE shaped RENAME g TO h", "GRANT SELECT ON shaped TO public"):
        watcher.rows(same)
        session.rows(counted)
        assert len(watcher.classes()) == n, same
    session.rows("DROP TABLE shaped")


def test_a_table_that_has_grown_makes_another_class(session: Session, watcher: Session) -> None:
    """In steps of four times as many pages; what was learnt for the smaller one is still there."""
    watcher.rows(
        "CREATE TABLE grows AS SELECT g, repeat('x', 800) AS pad FROM generate_series(1, 100) g; ANALYZE grows"
    )
    counted = "SELECT count(*) FROM grows WHERE g > 7"
    session.rows("SET trimtab.parameters = 'jit'")
    session.tune("base=100;jit=0:0.5")
    for _ in range(40):
        session.rows(counted)
    (small,) = watcher.classes()
    assert small["settings"] == "jit=off"
    watcher.rows("INSERT INTO grows SELECT g, pad FROM grows LIMIT 10; ANALYZE grows")
    for _ in range(3):
        session.rows(counted)
    assert len(watcher.classes()) == 1
    watcher.rows("INSERT INTO grows SELECT g, repeat('x', 800) FROM generate_series(1, 1500) g; ANALYZE grows")
    for _ in range(3):
        session.rows(counted)
    first, second = sorted(watcher.classes(), key=lambda row: row["size_class"])
    assert (first["id"], first["settings"], second["settings"]) == (small["id"], "jit=off", "")
    assert second["query_id"] == small["query_id"]
    session.rows("DROP TABLE grows")


def crc32c(data: bytes) -> int:
    """Castagnoli's, as PostgreSQL has it."""
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def aged(content: bytearray, at: datetime, days: int) -> None:
    """Makes a class of the file, which was used last `at`, so many days older."""
    then = (at - EPOCH) // timedelta(microseconds=1)
    assert content.count(struct.pack("=q", then)) == 1
    struct.pack_into("=q", content, content.index(struct.pack("=q", then)), then - days * 86_400_000_000)


def sealed(path: Path, content: bytearray) -> None:
    """Writes the file with the checksum of what is in it."""
    header = HEADER.unpack_from(content)
    HEADER.pack_into(content, 0, *header[:-1], crc32c(content[HEADER.size :]))
    path.write_bytes(content)


def test_what_was_not_used_for_90_days_is_forgotten_at_the_start(
    tuned: tuple[Server, Session], session: Session, watcher: Session
) -> None:
    """Except what was pinned: that is somebody's decision."""
    server, _ = tuned
    path = server.data_dir / "pg_stat" / "trimtab.knowledge"
    ids: list[int] = []
    for sql in ("SELECT count(*) FROM t WHERE k = 1", "SELECT max(g) FROM t", "SELECT min(g) FROM t", OWN):
        for _ in range(5):
            session.rows(sql)
        ids += [row["query_id"] for row in watcher.classes() if row["query_id"] not in ids]
    watcher.rows(f"SELECT trimtab_pin({ids[3]}, 'work_mem=64MB')")
    used = {row["query_id"]: row["last_at"] for row in watcher.classes()}
    server.control("stop")
    content = bytearray(path.read_bytes())
    assert HEADER.unpack_from(content)[-1] == crc32c(content[HEADER.size :])
    for query_id, days in zip(ids, (0, 89, 91, 91), strict=True):
        aged(content, used[query_id], days)
    sealed(path, content)
    server.control("start")
    with server.admin() as connection:
        known = {row["query_id"] for row in Session(connection).classes()}
        assert Session(connection).value("SELECT file_problem FROM trimtab_status()") == ""
    assert known == {ids[0], ids[1], ids[3]}


def test_the_class_that_was_used_least_recently_makes_room(session: Session, watcher: Session) -> None:
    """There are 256; a pinned one stays, and where all are pinned the others run without a class."""
    session.connection.prepare_threshold = None
    watcher.rows(f"CREATE TABLE wide ({', '.join(f'c{n} int' for n in range(260))})")

    def use(n: int) -> None:
        for _ in range(4):
            session.rows(f"SELECT count(c{n}) FROM wide")

    use(0)
    use(1)
    first, second = (row["query_id"] for row in sorted(watcher.classes(), key=lambda row: row["last_at"]))
    watcher.rows(f"SELECT trimtab_pin({first}, 'jit=off')")
    for n in range(2, 256):
        use(n)
    assert len(watcher.classes()) == 256
    use(256)
    known = {row["query_id"] for row in watcher.classes()}
    assert (len(known), first in known, second in known) == (256, True, False)
    watcher.rows("SELECT trimtab_pin(query_id, '') FROM trimtab_sections")
    use(257)
    assert {row["query_id"] for row in watcher.classes()} == known
    assert session.value("SELECT count(c257) FROM wide") == 0
    watcher.rows("DROP TABLE wide")


def test_probes_come_in_the_order_of_their_risk(session: Session, watcher: Session) -> None:
    """By what PostgreSQL estimates for their plans, at the session's own costs."""
    session.tune("base=100;plan=0.01")
    session.rows("SET trimtab.budget = 50; SET trimtab.server_budget = 50")
    session.rows("SET trimtab.parameters = 'enable_hashjoin, enable_mergejoin, enable_nestloop, enable_hashagg'")
    session.learn(JOIN, 60)
    alone = [each for each in tried(watcher) if "," not in each]
    costs = []
    for settings in alone:
        name, _, value = settings.partition("=")
        watcher.rows(f"SET {name} = {value}")
        (plan,) = watcher.value(f"EXPLAIN (FORMAT JSON) {JOIN}")
        costs.append(plan["Plan"]["Total Cost"])
        watcher.rows(f"RESET {name}")
    assert len(costs) >= 2
    assert costs == sorted(costs)
    assert costs[0] < costs[-1]


NEW = {
    "jit_above_cost": "10000 100000",
    "jit_inline_above_cost": "-1 0 500000",
    "jit_optimize_above_cost": "-1 0 500000",
    "enable_indexscan": "off on",
    "enable_indexonlyscan": "off on",
    "enable_seqscan": "off on",
    "enable_sort": "off on",
    "enable_material": "off on",
    "enable_incremental_sort": "off on",
    "enable_gathermerge": "off on",
    "enable_parallel_hash": "off on",
}


def test_the_costs_of_jit_and_more_ways_of_plans_are_parameters_too(session: Session, watcher: Session) -> None:
    values = dict(session.rows('SELECT name, "values" FROM trimtab_parameters'))
    assert {name: values[name] for name in NEW} == NEW
    assert list(values)[-len(NEW) :] == list(NEW), "the search comes to them last"
    watcher.rows("""
        CREATE INDEX t_k ON t (k); ANALYZE t;
        CREATE FUNCTION dear(int) RETURNS int STABLE COST 1000 LANGUAGE plpgsql AS 'BEGIN RETURN $1; END'""")
    for sql, name, goal in (
        ("SELECT count(r) FROM t WHERE k < 90", "enable_seqscan", "enable_seqscan=off"),
        ("SELECT count(dear(r)) FROM t", "jit_above_cost", "jit_above_cost=10000"),
    ):
        watcher.rows("SELECT trimtab_reset()")
        session.rows(f"SET trimtab.parameters = '{name}'")
        session.tune(f"base=100;plan=0.01;{goal.replace('=off', '=0')}:0.5")
        expected = watcher.rows(sql)
        for _ in range(50):
            assert session.rows(sql) == expected
        assert watcher.classes()[0]["settings"] == goal
    watcher.rows("DROP INDEX t_k; DROP FUNCTION dear")
