"""Observed traffic: what the counters say, second by second; a real server whose traffic somebody else makes."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, ClassVar

import psycopg
import pytest

from tests.servers.mariadb import private_mariadb
from tests.servers.mysql import private_mysql
from tests.servers.postgresql import TRUST, started
from trimtab.errors import LoadError, UsageError
from trimtab.measure import Measurement, summarise
from trimtab.records import METRICS, Endpoint, Objective
from trimtab.testing.workload_suite import WorkloadSuite
from trimtab.workload.observe import ObserveWorkload
from trimtab.workload.observe.counters import (
    Counted,
    MysqlQuestions,
    MysqlStatements,
    PostgresStatements,
    PostgresTransactions,
    counters_of,
)
from trimtab.workload.observe.run import ObserveRun
from trimtab.workload.server import server_of


class Told:
    """A session, and counters, that say what they are told; the last of it again and again."""

    what, source = "statement", "a list"

    def __init__(self, *counted: Counted | LoadError) -> None:
        self.counted = list(counted)
        self.connected = self.closed = 0

    def connect(self) -> Any:
        self.connected += 1
        return self

    def __exit__(self, *problem: Any) -> None:
        self.closed += 1

    def read(self, session: Any) -> Counted:
        said = self.counted.pop(0) if len(self.counted) > 1 else self.counted[0]
        if isinstance(said, LoadError):
            raise said
        return said

    def run(self, duration_s: float) -> ObserveRun:
        return ObserveRun(self.connect, self, clients=4, duration_s=duration_s)


def ended(run: ObserveRun) -> ObserveRun:
    while not run.is_done:
        time.sleep(0.02)
    return run


@pytest.mark.slow
def test_means_give_a_mean_and_no_percentiles() -> None:
    told = Told(Counted(1000, 50.0), Counted(1100, 50.5), Counted(1300, 53.5))
    log = ended(told.run(2.0)).log()
    assert log.response.total == 300
    assert sorted(zip(log.response.value_us, log.response.count, strict=True)) == [(5_000, 100), (15_000, 200)]
    assert told.connected == told.closed == 1
    measured = summarise(log, (0.0, 2.0))
    assert measured.latency_mean_ms.estimate == pytest.approx(11.667, abs=0.01)
    assert measured.latency_ms == {}
    assert measured.n_ok == 300
    with pytest.raises(UsageError, match="latency_p99 was not measured"):
        Objective.parse("latency_p99").value(measured)


@pytest.mark.slow
def test_without_times_only_throughput_is_measured() -> None:
    log = ended(Told(Counted(0), Counted(100), Counted(200)).run(2.0)).log()
    measured = summarise(log, (0.0, 2.0))
    assert measured.n_ok == 200
    assert measured.throughput.estimate > 0
    assert math.isnan(measured.latency_mean_ms.estimate)
    assert measured.latency_ms == {}
    assert math.isnan(measured.by_label["statement"].latency_p50_ms)


@pytest.mark.slow
def test_a_distribution_gives_percentiles() -> None:
    last = Counted(30, 3.0, {3: 50, 100: 28, 900: 2})  # with 50 parts of a procedure
    log = ended(Told(Counted(10, 1.0, {100: 10}), Counted(20, 2.0, {100: 19, 900: 1}), last).run(2.0)).log()
    rows = zip(log.response.value_us, log.response.count, strict=True)
    assert sorted(rows) == [(100, 9), (100, 9), (900, 1), (900, 1)]
    assert summarise(log, (0.0, 2.0)).latency_ms["p50"].estimate == pytest.approx(0.1, rel=0.01)


@pytest.mark.slow
def test_a_statement_that_ended_between_number_and_distribution_has_its_time() -> None:
    """The next look counts it, and the distribution of the look before has it."""
    last = Counted(30, 3.0, {3: 50, 100: 28, 900: 2})
    log = ended(Told(Counted(10, 1.0, {100: 10}), Counted(20, 2.0, {3: 20, 100: 21, 900: 1}), last).run(2.0)).log()
    rows = zip(log.response.second, log.response.value_us, log.response.count, strict=True)
    assert sorted(rows) == [(0, 100, 9), (0, 900, 1), (1, 3, 2), (1, 100, 7), (1, 900, 1)]


@pytest.mark.slow
def test_a_reset_of_the_counters_is_no_negative_traffic() -> None:
    log = ended(Told(Counted(1000, 9.0), Counted(5, 0.1), Counted(105, 0.2)).run(2.0)).log()
    assert log.response.total == 100
    assert (log.credited >= 0).all()


@pytest.mark.slow
def test_a_statement_that_the_server_forgets_makes_the_others_no_faster() -> None:
    """It took longer than all since the last look took together: their calls count, and of their times nothing is known."""
    log = ended(Told(Counted(1000, 90.0), Counted(1100, 91.0), Counted(1200, 32.0), Counted(1300, 33.0)).run(3.0)).log()
    assert log.credited.sum() == pytest.approx(300, rel=0.01)
    assert set(log.response.value_us) == {10_000}
    measured = summarise(log, (0.0, 3.0))
    assert measured.latency_mean_ms.estimate == pytest.approx(10.0)


@pytest.mark.slow
def test_a_server_that_does_not_answer_is_an_error_of_its_second_and_is_asked_again() -> None:
    told = Told(Counted(0, 0.0), LoadError("the server is gone"), Counted(100, 1.0))
    run = ended(told.run(2.0))
    frames = [run.frame(0.1), run.frame(0.1)]
    log = run.log()
    assert [frame.n_error for frame in frames if frame is not None] == [1, 0]
    assert (log.error.total, log.response.total) == (1, 100)
    assert log.errors == ("observe: the server is gone",)
    assert (told.connected, told.closed) == (2, 2)


class Slow(Told):
    """Counts a hundred statements a second, and needs most of a second to say so."""

    def __init__(self) -> None:
        super().__init__(Counted(0.0))
        self.started = time.monotonic()

    def read(self, session: Any) -> Counted:
        time.sleep(0.7)
        return Counted((time.monotonic() - self.started) * 100, 0.0)


@pytest.mark.slow
def test_a_slow_look_makes_no_second_look_slow() -> None:
    """The look at the end of each second ends in the middle of the next, of which it has not seen all."""
    run = Slow().run(3.0)
    frames = [run.frame(5.0), run.frame(5.0)]
    run.stop()
    assert [frame.credited for frame in frames if frame is not None] == pytest.approx([100, 100], rel=0.15)


def test_what_cannot_be_read_at_the_start_is_refused() -> None:
    told = Told(LoadError("no right to read"))
    with pytest.raises(LoadError, match="no right"):
        told.run(1.0)
    assert told.closed == 1


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"statistics": "texts"}, "statistics='texts' is not known"),
        ({"clients": 0}, "clients=0 is out of range"),
        ({"read_share": 2}, "read_share=2 is out of range"),
        ({"patience": "soon"}, "patience|soon"),
        ({"rate": 5}, "unknown key in .workload.: rate=5"),
    ],
)
def test_wrong_tables_are_refused(table: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ObserveWorkload.from_settings({"kind": "observe", **table})


def test_a_server_without_such_counters_is_refused() -> None:
    other = Endpoint(protocol="http", host="127.0.0.1", port=1, user="", database="")
    with pytest.raises(LoadError, match="cannot read the counters of protocol=http") as refused:
        ObserveWorkload.from_settings({}).prepare(other, print)
    assert "postgresql, mysql" in str(refused.value.hint)


class Answers:
    """A session that knows answers by a word of the statement; to all else it is an error."""

    def __init__(self, **rows: list[tuple[Any, ...]]) -> None:
        self.rows = rows

    def execute(self, statement: str, parameters: Any = ()) -> list[tuple[Any, ...]]:
        for word, rows in self.rows.items():
            if word in statement:
                return rows
        raise LoadError("there is no such table")


@pytest.mark.parametrize(
    ("protocol", "statistics", "rows", "kind"),
    [
        ("postgresql", "auto", {"pg_stat_statements": []}, PostgresStatements),
        ("postgresql", "auto", {"server_version": [("130004",)]}, PostgresTransactions),
        ("postgresql", "transactions", {"server_version": [("180000",)], "pg_stat_statements": []}, PostgresTransactions),
        ("mysql", "auto", {"@@": [(1,)], "summary_global": [], "histogram": []}, MysqlStatements),
        ("mysql", "auto", {"@@": [(1,)]}, MysqlQuestions),
        ("mysql", "auto", {"@@": [(0,)]}, MysqlQuestions),
    ],
)  # fmt: skip
def test_the_best_counters_are_chosen(protocol: str, statistics: Any, rows: dict[str, Any], kind: type) -> None:
    assert type(counters_of(Answers(**rows), protocol, statistics)) is kind  # type: ignore[arg-type]


def test_statements_of_an_extension_that_is_older_than_the_server_are_not_chosen() -> None:
    """After pg_upgrade its view is that of the old version, with its time in columns of other names."""

    class Old(Answers):
        def execute(self, statement: str, parameters: Any = ()) -> list[tuple[Any, ...]]:
            if "total_exec_time" in statement:
                raise LoadError('column "total_exec_time" does not exist')
            return super().execute(statement, parameters)

    old = Old(pg_stat_statements=[], server_version=[("180000",)])
    assert type(counters_of(old, "postgresql", "auto")) is PostgresTransactions


@pytest.mark.parametrize("has_levels", [True, False])
def test_what_functions_run_is_not_counted_besides_where_the_extension_tells_it(has_levels: bool) -> None:
    asked: list[str] = []

    class Counting(Answers):
        def execute(self, statement: str, parameters: Any = ()) -> list[tuple[Any, ...]]:
            asked.append(statement)
            if "toplevel" in statement and not has_levels:
                raise LoadError('column "toplevel" does not exist')
            return super().execute(statement, parameters)

    counting: Any = Counting(pg_extension=[("tools",)], pg_stat_statements=[(7.0, 0.5)])
    assert counters_of(counting, "postgresql", "statements").read(counting) == Counted(7.0, 0.5)
    assert (" FROM tools.pg_" in asked[-1], asked[-1].endswith(" AND toplevel")) == (True, has_levels)


@pytest.mark.parametrize(
    ("protocol", "statistics", "rows"),
    [
        ("postgresql", "statements", {"server_version": [("180000",)]}),
        ("mysql", "transactions", {"@@": [(1,)]}),
        ("mysql", "statements", {"@@": [(0,)]}),
    ],
)
def test_counters_that_are_asked_for_and_missing_are_an_error(
    protocol: str, statistics: Any, rows: dict[str, Any]
) -> None:
    with pytest.raises(LoadError, match="does not count") as refused:
        counters_of(Answers(**rows), protocol, statistics)  # type: ignore[arg-type]
    assert "observe.md" in str(refused.value.hint)


def test_old_servers_count_no_time_and_our_looks_are_not_counted() -> None:
    answers = Answers(server_version=[("130004",)], pg_stat_database=[(100.0, None)])
    counters = counters_of(answers, "postgresql", "auto")  # type: ignore[arg-type]
    assert [counters.read(answers) for _ in range(2)] == [Counted(100.0), Counted(99.0)]  # type: ignore[arg-type]


def test_no_statement_of_the_distribution_is_lost() -> None:
    """MySQL has fifty buckets for each power of ten from ten microseconds on: the first ones are narrower than one."""
    edges = [0.0, *(10.0 * 10 ** (i / 50) for i in range(100))]
    buckets = [((low + high) / 2, 7) for low, high in pairwise(edges)]
    answers = Answers(histogram=buckets, summary_global=[(700, 0.1)])
    counted = MysqlStatements(has_distribution=True).read(answers)  # type: ignore[arg-type]
    assert sum(counted.by_us.values()) == 7 * len(buckets)
    assert counted.by_us[11] == 14


class Busy:
    """A session of a server that counts a statement each millisecond; a question takes as long as it is told."""

    def __init__(self, *took_ms: int) -> None:
        self.took_ms, self.n = list(took_ms), 0

    def execute(self, statement: str, parameters: Any = ()) -> list[tuple[Any, ...]]:
        row = (100, self.n) if "histogram" in statement else (self.n, self.n / 1e4)
        self.n += self.took_ms.pop(0)
        return [row]


@pytest.mark.parametrize("took_ms", [(10, 1, 1, 1), (1, 10, 1, 1), (1, 1, 10, 1), (1, 1, 1, 10)])
def test_the_distribution_holds_every_statement_that_was_counted(took_ms: tuple[int, ...]) -> None:
    """A slow first look had counted more than there were times of."""
    session, counters = Busy(*took_ms), MysqlStatements(has_distribution=True)
    first, second = counters.read(session), counters.read(session)  # type: ignore[arg-type]
    assert second.by_us[100] - first.by_us[100] >= second.n - first.n > 0


@contextmanager
def traffic(endpoint: Endpoint) -> Iterator[None]:
    """Somebody who asks the server something all the time; of a table: else no session of PostgreSQL tells of its work."""
    ends = threading.Event()

    def ask() -> None:
        place = f"host={endpoint.host} port={endpoint.port} user={endpoint.user} dbname={endpoint.database}"
        with psycopg.connect(place, autocommit=True) as connection:
            while not ends.wait(0.002):
                connection.execute("SELECT pg_sleep(0.003) FROM pg_class LIMIT 1")

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


@contextmanager
def traffic_of_mysql(endpoint: Endpoint, statement: str = "SELECT SLEEP(0.005)") -> Iterator[None]:
    """As `traffic`, on a server that speaks MySQL's protocol."""
    ends = threading.Event()

    def ask() -> None:
        with server_of(endpoint).connect() as session:
            while not ends.wait(0.002):
                session.execute(statement)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


@pytest.fixture(scope="module")
def busy_mysql() -> Iterator[Endpoint]:
    with private_mysql() as mine, traffic_of_mysql(mine.endpoint):
        yield mine.endpoint


@pytest.mark.service
class TestObserve(WorkloadSuite):
    """On MySQL, which counts at once."""

    kind = "observe"
    settings: ClassVar[dict[str, Any]] = {"clients": 2}

    @pytest.fixture
    def endpoint(self, busy_mysql: Endpoint) -> Endpoint:
        return busy_mysql

    def test_times_are_the_statements_own(self, endpoint: Endpoint) -> None:
        """A statement sleeps for 5 ms, so it takes that at least; how much more depends on the machine."""
        told: list[str] = []
        self.make().prepare(endpoint, told.append)
        assert told == ["reading statements from performance_schema"]
        assert self.make().metrics(endpoint) == tuple(METRICS)
        measured = self.measured(endpoint)
        assert measured.latency_ms["p99"].estimate > 4.0
        assert measured.latency_mean_ms.estimate > 1.0

    def test_what_a_procedure_runs_is_part_of_its_call(self, endpoint: Endpoint) -> None:
        with server_of(endpoint).connect() as session:
            session.execute(f"CREATE PROCEDURE many() BEGIN DO SLEEP(0.005); {'DO 1; ' * 200} END")
        with traffic_of_mysql(endpoint, "CALL many()"):
            assert self.measured(endpoint).latency_ms["p50"].estimate > 4.0

    def test_a_statement_of_hours_is_counted(self, endpoint: Endpoint) -> None:
        """The last bucket's end is the largest number that there is: nothing can be added to it."""
        statement = MysqlStatements._BUCKETS.partition(" WHERE ")[0]
        with server_of(endpoint).connect() as session:
            times_us = [float(us) for us, _ in session.execute(f"{statement} ORDER BY BUCKET_NUMBER")]
        assert len(times_us) > 400
        assert times_us == sorted(times_us)
        assert times_us[-1] == 3_600_000_000

    def measured(self, endpoint: Endpoint) -> Measurement:
        return summarise(self.finished(self.make().start(endpoint, seed=1, duration_s=3.0))[1], (1.0, 3.0))


@pytest.mark.service
def test_transactions_of_a_database_are_read_without_an_extension(server: Endpoint) -> None:
    workload = ObserveWorkload.from_settings({})
    with pytest.raises(LoadError, match="fewer than 5 transactions per second came within patience=1s") as refused:
        ObserveWorkload.from_settings({"patience": "1s"}).prepare(server, print)
    assert "start the application" in str(refused.value.hint)
    assert workload.metrics(server) == ("throughput", "latency_mean")
    with traffic(server):
        workload.prepare(server, print)
        measured = watched(workload, server, duration_s=5.0)
    assert measured.latency_mean_ms.estimate > 2.0
    assert measured.throughput.estimate > 5.0


def watched(workload: ObserveWorkload, endpoint: Endpoint, *, duration_s: float = 3.0) -> Measurement:
    """All but the first second."""
    run = workload.start(endpoint, seed=1, duration_s=duration_s)
    while not run.is_done:
        time.sleep(0.05)
    log = run.stop()
    assert log.errors == ()
    return summarise(log, (1.0, duration_s))


@pytest.mark.service
def test_statements_of_the_database_are_read_where_they_are_counted() -> None:
    """Debian's PostgreSQL with pg_stat_statements: what the other database does is not in it, nor what functions do, again."""
    settings = "fsync = off\nshared_preload_libraries = 'pg_stat_statements'\npg_stat_statements.track = 'all'\n"
    with started("debian", settings=settings, hba=TRUST) as mine:
        other = Endpoint(protocol="postgresql", host="127.0.0.1", port=mine.port, user="postgres", database="postgres")
        admin_of = f"host=127.0.0.1 port={mine.port} user=postgres dbname="
        with psycopg.connect(f"{admin_of}postgres", autocommit=True) as admin:
            admin.execute("CREATE DATABASE shop")
        shop = other.with_database("shop")
        with psycopg.connect(f"{admin_of}shop", autocommit=True) as admin:
            admin.execute(f"CREATE SCHEMA tools; CREATE EXTENSION pg_stat_statements SCHEMA tools; {MANY}")
        told: list[str] = []
        workload = ObserveWorkload.from_settings({"patience": "1s"})
        with traffic(other), pytest.raises(LoadError, match="fewer than 5 statements per second"):
            workload.prepare(shop, told.append)
        assert told == ["reading statements from pg_stat_statements"]
        with traffic(shop):
            workload.prepare(shop, print)
            measured = watched(workload, shop)
        assert measured.latency_mean_ms.estimate > 2.0
        assert measured.latency_ms == {}
        with server_of(shop).connect() as session:
            counters = counters_of(session, "postgresql", "statements")
            before = counters.read(session).n
            session.execute("SELECT many()")
            assert counters.read(session).n - before == 2  # with our own look


MANY = "CREATE FUNCTION many() RETURNS void LANGUAGE plpgsql AS 'BEGIN FOR i IN 1..50 LOOP PERFORM 1 WHERE i > 0; END LOOP; END'"


@pytest.mark.service
@pytest.mark.parametrize(
    ("options", "source", "has_times"),
    [
        pytest.param(("--performance-schema=ON",), "performance_schema", True, id="schema"),
        pytest.param((), "the status variable Questions", False, id="questions", marks=pytest.mark.full),
    ],
)
def test_mariadb_counts_without_a_distribution(options: tuple[str, ...], source: str, has_times: bool) -> None:
    with private_mariadb(*options) as mine, traffic_of_mysql(mine.endpoint):
        told: list[str] = []
        workload = ObserveWorkload.from_settings({})
        workload.prepare(mine.endpoint, told.append)
        assert told[0] == f"reading statements from {source}"
        assert workload.metrics(mine.endpoint) == (("throughput", "latency_mean") if has_times else ("throughput",))
        measured = watched(workload, mine.endpoint)
    assert measured.throughput.estimate > 5.0
    assert measured.latency_ms == {}
    assert math.isnan(measured.latency_mean_ms.estimate) is not has_times
