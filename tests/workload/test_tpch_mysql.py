"""TPC-H on a real MariaDB: the same data, the same texts and the same answers as on PostgreSQL; and a run that is stopped."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.servers.mariadb import private_mariadb
from tests.workload.conftest import SCALE
from tests.workload.runs import quiet
from trimtab.errors import LoadError
from trimtab.measure import Outcome, QueryLog
from trimtab.records import Endpoint
from trimtab.workload import LoadRun
from trimtab.workload.server import Session, server_of
from trimtab.workload.server.mysql import pieces
from trimtab.workload.tpch import TpchWorkload, generator
from trimtab.workload.tpch import workload as tpch_workload
from trimtab.workload.tpch.answers import check_answers, summarise
from trimtab.workload.tpch.parameters import QUERIES, draw, validation
from trimtab.workload.tpch.prepare import Disk, prepare
from trimtab.workload.tpch.queries import render
from trimtab.workload.tpch.refresh import refresh_pair
from trimtab.workload.tpch.schema import TABLES

pytestmark = [pytest.mark.service, pytest.mark.slow]

DATABASE = "trimtab_tpch_0_01"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    """An empty server."""
    with private_mariadb() as server:
        yield server.endpoint


@pytest.fixture(scope="module")
def loaded(endpoint: Endpoint) -> Endpoint:
    """The endpoint of the small TPC-H database; tests leave it as it is."""
    workload(mix="Q6").prepare(endpoint, quiet)
    return endpoint.with_database(DATABASE)


@pytest.fixture
def session(loaded: Endpoint) -> Iterator[Session]:
    with server_of(loaded).connect() as session:
        yield session


def workload(**settings: Any) -> TpchWorkload:
    return TpchWorkload.from_settings({"scale": SCALE} | settings)


def to_the_end(run: LoadRun) -> QueryLog:
    """The log of the whole run. Each second's frame must show a latency when a query ended in it: the guard needs it."""
    while (frame := run.frame(60.0)) is not None:
        assert (frame.response_p99_us > 0) is (frame.n_ok > 0), frame
    log = run.stop()
    assert isinstance(log, QueryLog)
    return log


def counts(log: QueryLog, outcome: Outcome) -> dict[str, int]:
    kept = log.label[log.outcome == outcome]
    return {name: n for i, name in enumerate(log.labels) if (n := int(np.sum(kept == i)))}


@pytest.mark.full  # the next but one: all answers from these rows
def test_every_row_arrives_as_it_was_made(session: Session, tables: dict[str, list[list[str]]]) -> None:
    for table in TABLES:
        found = session.execute(f"SELECT * FROM {table.name}")
        # The generator writes whole quantities without their decimals.
        texts = [[str(value).removesuffix(".00") for value in row] for row in found]
        expected = [[value.removesuffix(".00") for value in row] for row in tables[table.name]]
        assert sorted(texts) == sorted(expected)


def test_keys_indexes_and_statistics_are_there(session: Session) -> None:
    keys = session.execute(
        "SELECT table_name, index_name, column_name FROM information_schema.statistics WHERE table_schema = DATABASE()"
        " AND table_name <> 'trimtab_data' ORDER BY table_name, index_name, seq_in_index"
    )
    expected = {(table.name, "PRIMARY", column) for table in TABLES for column in table.key}
    expected |= {("lineitem", "lineitem_part_supp", "l_partkey"), ("lineitem", "lineitem_part_supp", "l_suppkey")}
    expected |= {("orders", "orders_customer", "o_custkey")}
    assert set(keys) == expected
    of_columns = session.execute(
        "SELECT table_name, COUNT(*) FROM mysql.column_stats WHERE db_name = DATABASE() GROUP BY table_name"
    )
    assert dict(of_columns) == {table.name: table.columns.count(" NOT NULL") for table in TABLES}


def answers(session: Session, parameters: Mapping[int, Mapping[str, str]]) -> dict[int, Any]:
    return {query: summarise(session.execute(render(query, parameters[query]))) for query in QUERIES}


def test_all_22_answers_equal_those_of_postgresql(session: Session, small: Endpoint) -> None:
    rng = np.random.default_rng(22)
    with server_of(small).connect() as other:
        for parameters in (
            {query: validation(query) for query in QUERIES},
            {query: draw(query, rng, SCALE) for query in QUERIES},
        ):
            expected = answers(other, parameters)
            found = answers(session, parameters)
            assert found == expected
            assert sum(answer.n_rows > 0 for answer in expected.values()) > 15


@pytest.mark.full  # test_prepare.py: on PostgreSQL
def test_the_data_is_found_again_and_repaired(endpoint: Endpoint, loaded: Endpoint) -> None:
    assert workload(mix="Q6").prepare(endpoint, quiet).was_cached
    with server_of(loaded).connect() as session:
        for statement in refresh_pair(5, scale=SCALE, seed=9).inserts:
            session.execute(statement)
    lines: list[str] = []
    assert workload(mix="Q6").prepare(endpoint, lines.append).was_cached
    with server_of(loaded).connect() as session:
        assert session.execute("SELECT COUNT(*) FROM orders") == [(15000,)]
        session.execute("DELETE FROM customer WHERE c_custkey = 1")
    assert not workload(mix="Q6").prepare(endpoint, lines.append).was_cached
    assert "row counts have changed ({'customer': 1499}); loading again" in lines


def test_a_power_run_with_refresh_functions(endpoint: Endpoint, session: Session) -> None:
    run = workload(run="power", refresh=True, repeat=False)
    log = to_the_end(run.start(endpoint, seed=1, duration_s=300.0))
    assert counts(log, Outcome.OK) == dict.fromkeys(log.labels, 1), log.errors
    assert len(log) == 24
    assert session.execute("SELECT COUNT(*) FROM orders") == [(15000,)]


def running(session: Session) -> list[str]:
    """The queries over lines that others run: not the COMMIT of a client that has just gone."""
    rows = session.execute(
        "SELECT info FROM information_schema.processlist"
        " WHERE db = DATABASE() AND info LIKE 'SELECT%lineitem%' AND id <> CONNECTION_ID()"
    )
    return [str(row[0]) for row in rows]


def until(session: Session, is_running: bool) -> list[str]:
    """What runs once a query does, or none does any more; or after a minute."""
    give_up = time.monotonic() + 60
    while bool(found := running(session)) != is_running and time.monotonic() < give_up:
        time.sleep(0.02)
    return found


def stop_in_the_middle(run: LoadRun, session: Session) -> None:
    found = until(session, True)
    run.stop()
    assert len(found) == 1
    assert "numwait" in found[0]
    assert until(session, False) == []


@pytest.fixture
def long_q21(monkeypatch: pytest.MonkeyPatch) -> TpchWorkload:
    """A mix of one Q21 that would take hours on this data: it meets every pair of lines."""
    made = tpch_workload.sequence

    def longer(*arguments: Any, **named: Any) -> list[str]:
        texts = made(*arguments, **named)
        return [text.replace("orders, nation", "orders, nation, lineitem l4, lineitem l5") for text in texts]

    monkeypatch.setattr(tpch_workload, "sequence", longer)
    return workload(mix="Q21", query_timeout="1h")


def test_a_run_that_is_stopped_leaves_no_query_behind(
    long_q21: TpchWorkload, endpoint: Endpoint, session: Session
) -> None:
    stop_in_the_middle(long_q21.start(endpoint, seed=1, duration_s=600.0), session)


def test_a_query_over_its_time_out_is_cut_off_and_counted(endpoint: Endpoint, session: Session) -> None:
    run = workload(mix="Q1", query_timeout=0.02)
    log = to_the_end(run.start(endpoint, seed=1, duration_s=1.0))
    assert counts(log, Outcome.TIMED_OUT)["q1"] > 1
    assert counts(log, Outcome.ERROR) == {}
    assert until(session, False) == []


@pytest.fixture
def other(endpoint: Endpoint) -> Iterator[str]:
    name = "trimtab_test_tpch"
    yield name
    with server_of(endpoint).connect() as session:
        session.execute(f"DROP DATABASE IF EXISTS {name}")


def load(endpoint: Endpoint, database: str, **settings: Any) -> bool:
    made = prepare(endpoint, database=database, scale=SCALE, **({"schema": "pk-only", "report": quiet} | settings))
    return made.was_cached


@pytest.mark.full  # test_prepare.py: on PostgreSQL
def test_a_load_that_failed_is_recognised_and_redone(
    endpoint: Endpoint, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(generator, "find_generator", lambda: Path("/bin/false"))
        with pytest.raises(LoadError, match=r"data generator failed: scale=0\.01"):
            load(endpoint, other)
    lines: list[str] = []
    assert not load(endpoint, other, report=lines.append)
    assert f"the last load of {other} was interrupted; loading again" in lines
    assert load(endpoint, other)


def test_a_database_of_somebody_else_is_left_alone(endpoint: Endpoint, other: str) -> None:
    with server_of(endpoint).connect() as session:
        session.execute(f"CREATE DATABASE {other}")
        session.execute(f"CREATE TABLE {other}.orders (precious text)")
    with pytest.raises(LoadError, match=rf"database={other} exists and was not made by Trimtab: tables=\['orders'\]"):
        load(endpoint, other)
    with server_of(endpoint).connect(other) as session:
        assert session.execute("SELECT * FROM orders") == []


def test_a_disk_that_is_too_small_is_said_before_anything_is_written(endpoint: Endpoint, other: str) -> None:
    disk = Disk(server=lambda there, session: 10**6, client=lambda: 10**12)
    with pytest.raises(LoadError, match=r"disk too small for scale=0\.01: on the server free=0\.00 GB needed="):
        load(endpoint, other, disk=disk)
    with server_of(endpoint).connect() as session:
        assert not server_of(endpoint).exists(session, other)


def test_the_published_answers_are_for_scale_one(loaded: Endpoint) -> None:
    with pytest.raises(LoadError, match="does not hold TPC-H data of scale=1"):
        check_answers(loaded)


@pytest.mark.parametrize(
    ("largest", "expected"),
    [
        (100, [b"a|b\nc|d\ne|f\n", b"g\n"]),
        (8, [b"a|b\nc|d\n", b"e|f\n", b"g\n"]),
        (1, [b"a|b\n", b"c|d\n", b"e|f\n", b"g\n"]),
    ],
)
def test_statements_stay_below_what_the_server_takes(largest: int, expected: list[bytes]) -> None:
    assert list(pieces([b"a|b\nc|d\ne|f\n", b"g\n"], largest)) == expected
