"""The load against a real server: mixes, power and throughput runs, time-outs, refusals; and the log's conversion."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from psycopg import sql

from tests.workload.conftest import SCALE
from trimtab.errors import LoadError
from trimtab.measure import Outcome, QueryLog
from trimtab.records import Endpoint
from trimtab.workload import LoadRun, ResettableWorkload
from trimtab.workload.connection import connect, password_of
from trimtab.workload.server import server_of
from trimtab.workload.sql_run import start_sql_load, to_log
from trimtab.workload.tpch import TpchWorkload
from trimtab.workload.tpch.metrics import power_of_log, throughput_of_log
from trimtab.workload.tpch.orders import order_of
from trimtab.workload.tpch.refresh import refresh_pair, remove_leftovers


def workload(**settings: Any) -> TpchWorkload:
    return TpchWorkload.from_settings({"scale": SCALE} | settings)


def to_the_end(run: LoadRun) -> QueryLog:
    while run.frame(10.0) is not None:
        pass
    return run.stop()


def counts(log: QueryLog, outcome: Outcome) -> dict[str, int]:
    kept = log.label[log.outcome == outcome]
    return {name: n for i, name in enumerate(log.labels) if (n := int(np.sum(kept == i)))}


@dataclass
class FakeRows:
    """Rows as the engine gives them."""

    stream: bytes = np.array([0, 1, 2], "<i4").tobytes()
    label: bytes = np.array([0, 1, 1], "<i4").tobytes()
    start_s: bytes = np.array([0.0, 0.1, 0.2], "<f8").tobytes()
    end_s: bytes = np.array([3.0, 1.0, 2.0], "<f8").tobytes()
    rows: bytes = np.array([4, 1, 1], "<i8").tobytes()
    outcome: bytes = np.array([0, 1, 2], "u1").tobytes()


@dataclass
class FakeSeconds:
    """Two seconds of one thread."""

    steal_s: bytes = np.array([0.5, 0.25]).tobytes()
    wait_s: bytes = np.array([0.125, 0.0]).tobytes()


@dataclass
class FakeRunLog:
    """The engine's log with these rows."""

    kept: FakeRows = field(default_factory=FakeRows)
    labels: list[str] = field(default_factory=lambda: ["q1", "q6"])
    errors: list[str] = field(default_factory=lambda: ["57014 cancelled"])
    duration_s: float = 3.5
    client_cpu_s: float = 0.25
    n_threads: int = 1
    priority: str = "normal"

    def seconds(self) -> FakeSeconds:
        return FakeSeconds()

    def rows(self) -> FakeRows:
        return self.kept


def test_the_log_is_in_order_of_the_end() -> None:
    log = to_log(FakeRunLog())  # type: ignore[arg-type]
    assert log.end_s.tolist() == [1.0, 2.0, 3.0]
    assert log.stream.tolist() == [1, 2, 0]
    assert log.label.tolist() == [1, 1, 0]
    assert log.rows.tolist() == [1, 1, 4]
    assert log.outcome.tolist() == [Outcome.ERROR, Outcome.TIMED_OUT, Outcome.OK]
    assert (log.labels, log.errors, log.duration_s, log.client_cpu_s) == (("q1", "q6"), ("57014 cancelled",), 3.5, 0.25)
    assert (log.wait_s, log.steal_s, log.priority) == (0.125, 0.75, "normal")


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(LoadError, match=r"columns differ in length: \{'stream': 3, .*'rows': 2"):
        to_log(FakeRunLog(FakeRows(rows=b"\0" * 16)))  # type: ignore[arg-type]


def test_operations_depend_on_the_seed_alone() -> None:
    for settings in ({"mix": "2Q6+Q9"}, {"run": "power"}, {"run": "throughput", "refresh": True, "repeat": False}):
        first = workload(**settings).operations(1)
        assert first == workload(**settings).operations(1)
        assert first != workload(**settings).operations(2)


def test_streams_of_a_mix_have_parameters_of_their_own() -> None:
    streams = workload(mix="3Q9+Q6").operations(1)
    assert [stream[0][0] for stream in streams] == ["q6", "q9", "q9", "q9"]
    assert [len(stream) for stream in streams] == [64] * 4
    assert len({tuple(stream) for stream in streams}) == 4


def test_a_power_run_has_the_specified_order_and_its_refresh_pair_around() -> None:
    (stream,) = workload(run="power", refresh=True, repeat=False).operations(1)
    assert [label for label, _ in stream] == ["rf1", *(f"q{query}" for query in order_of(0)), "rf2"]


def test_a_throughput_run_has_a_refresh_stream_of_as_many_pairs() -> None:
    streams = workload(run="throughput", streams=3, refresh=True, repeat=False).operations(1)
    assert [[label for label, _ in s] for s in streams[:3]] == [[f"q{q}" for q in order_of(i)] for i in (1, 2, 3)]
    assert [label for label, _ in streams[3]] == ["rf1", "rf2"] * 3


def test_an_endless_throughput_run_keeps_one_pair_to_22_queries() -> None:
    streams = workload(run="throughput", streams=2, refresh=True).operations(1)
    assert len(streams) == 2
    for stream in streams:
        labels = [label for label, _ in stream]
        assert labels.count("rf1") == labels.count("rf2") == labels.count("q1") == 8
    inserts = [statements for stream in streams for label, statements in stream if label == "rf1"]
    assert len(set(inserts)) == 16


def test_other_protocols_are_refused() -> None:
    server = Endpoint(protocol="fake", host="localhost", port=1, user="", database="")
    with pytest.raises(LoadError, match="workload=tpch cannot drive protocol=fake"):
        workload(mix="Q6").start(server, seed=1, duration_s=1)


@pytest.mark.service
def test_a_mix_runs_to_its_end(small: Endpoint, server: Endpoint) -> None:
    run = workload(mix="2Q6+Q13").start(server, seed=1, duration_s=2.0)
    assert isinstance(run, LoadRun)
    frames = []
    while (frame := run.frame(10.0)) is not None:
        frames.append(frame)
    assert run.is_done
    log = run.stop()
    assert [frame.second for frame in frames] == [0, 1]
    # What `bench` shows live, and what a guard compares.
    assert all(0 < frame.response_p50_us <= frame.response_p95_us <= frame.response_p99_us for frame in frames)
    assert sum(frame.client_cpu_s for frame in frames) > 0
    assert set(log.labels) == {"q6", "q13"}
    assert counts(log, Outcome.ERROR) == counts(log, Outcome.TIMED_OUT) == {}
    assert counts(log, Outcome.OK)["q6"] > 2
    assert set(np.unique(log.stream)) == {0, 1, 2}
    ok = log.outcome == Outcome.OK
    assert np.all(log.rows[ok & (log.label == log.labels.index("q6"))] == 1)
    assert np.all(np.diff(log.end_s) >= 0)
    assert sum(frame.n_ok for frame in frames) <= int(ok.sum())
    assert run.stop() is log


@pytest.mark.service
def test_a_run_can_be_stopped_early(small: Endpoint, server: Endpoint) -> None:
    run = workload(mix="2Q18").start(server, seed=1, duration_s=3600.0)
    assert run.frame(10.0) is not None
    assert not run.is_done
    so_far = run.log()
    log = run.stop()
    assert 0 < len(so_far) <= len(log)
    assert log.duration_s < 60


@pytest.fixture
def unchanged(small: Endpoint) -> Iterator[psycopg.Connection[Any]]:
    """A connection to the small database, whose orders and lines must be the same after the test."""
    with connect(small) as connection:
        query = sql.SQL("SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM lineitem)")
        before = connection.execute(query).fetchone()
        yield connection
        assert connection.execute(query).fetchone() == before


@pytest.mark.service
@pytest.mark.usefixtures("unchanged")
def test_a_power_run(server: Endpoint) -> None:
    settings = workload(run="power", refresh=True, repeat=False)
    log = to_the_end(settings.start(server, seed=1, duration_s=120.0))
    assert counts(log, Outcome.OK) == dict.fromkeys(log.labels, 1)
    assert len(log) == 24
    assert log.labels[log.label[0]] == "rf1"
    assert log.labels[log.label[-1]] == "rf2"
    assert log.rows[0] == log.rows[-1] > 15
    assert power_of_log(log, SCALE) > 0


@pytest.mark.service
@pytest.mark.usefixtures("unchanged")
def test_a_throughput_run(server: Endpoint) -> None:
    settings = workload(run="throughput", streams=2, refresh=True, repeat=False)
    log = to_the_end(settings.start(server, seed=1, duration_s=120.0))
    assert counts(log, Outcome.OK) == {f"q{query}": 2 for query in range(1, 23)} | {"rf1": 2, "rf2": 2}
    assert throughput_of_log(log, 2, SCALE) > 0


@pytest.mark.service
def test_what_a_cut_off_run_left_is_taken_back_before_the_next(
    unchanged: psycopg.Connection[Any], server: Endpoint, small: Endpoint
) -> None:
    for statement in refresh_pair(5, scale=SCALE, seed=9).inserts:
        unchanged.execute(sql.SQL(statement))  # type: ignore[arg-type]
    state = workload(run="power", refresh=True).reset(server, lambda text: None)
    assert state is not None
    assert (state.method, state.note) == ("inverse operations", "orders taken back the first time: 15")
    with server_of(small).connect() as session:
        assert remove_leftovers(server_of(small), session) == 0


def test_a_load_that_only_reads_needs_no_reset() -> None:
    nobody = Endpoint(protocol="postgresql", host="127.0.0.1", port=1, user="postgres", database="postgres")
    assert isinstance(workload(mix="Q6"), ResettableWorkload)
    assert workload(mix="Q6").reset(nobody, lambda text: None) is None


@pytest.mark.service
def test_a_query_over_its_time_out_is_censored(small: Endpoint, server: Endpoint) -> None:
    settings = workload(mix="Q1", query_timeout=0.005)
    log = to_the_end(settings.start(server, seed=1, duration_s=0.5))
    assert counts(log, Outcome.TIMED_OUT)["q1"] > 1
    assert counts(log, Outcome.ERROR) == {}


@pytest.mark.service
def test_too_many_streams_for_the_server(small: Endpoint, server: Endpoint) -> None:
    with pytest.raises(LoadError, match=r"the load cannot connect: endpoint=.* streams=60: ") as caught:
        workload(mix="60Q6").start(server, seed=1, duration_s=1.0)
    assert "max_connections" in (caught.value.hint or "")


@pytest.mark.service
def test_a_database_that_is_not_prepared(server: Endpoint) -> None:
    for settings in ({"mix": "Q6"}, {"run": "power", "refresh": True}):
        with pytest.raises(LoadError, match=r"cannot connect: endpoint=.*trimtab_nowhere"):
            workload(database="trimtab_nowhere", **settings).start(server, seed=1, duration_s=1.0)


@pytest.mark.service
def test_tls_is_asked_for(server: Endpoint) -> None:
    streams = workload(mix="Q6").streams(1)
    for mode, message in {"require": "server does not support SSL, but SSL was required", "perhaps": "perhaps"}.items():
        there = replace(server, options={"sslmode": mode})
        with pytest.raises(LoadError, match=f"cannot connect: endpoint=.*{message}"):
            start_sql_load(there, streams, duration_s=1.0, operation_timeout_s=1.0)


@pytest.mark.service
def test_the_password_comes_from_the_passfile_when_none_is_given(
    server: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passfile = tmp_path / "pgpass"
    passfile.write_text(f"{server.host}:{server.port}:*:{server.user}:from the file\n")
    passfile.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passfile))
    assert password_of(server) == "from the file"
    assert password_of(replace(server, password="correct-horse")) == "correct-horse"
    monkeypatch.setenv("PGPASSFILE", "/dev/null")
    assert password_of(server) is None


@pytest.mark.service
def test_driver_options_reach_the_driver_but_do_not_move_the_endpoint(server: Endpoint) -> None:
    options = {"dbname": "elsewhere", "options": "-c work_mem=7MB"}
    with connect(replace(server, options=options)) as connection:
        row = connection.execute("SELECT current_database(), current_setting('work_mem')").fetchone()
    assert row == ("postgres", "7MB")


@pytest.mark.service
def test_a_missing_table_is_an_error_of_the_load(server: Endpoint) -> None:
    run = workload(run="power", refresh=True, database="postgres")
    with pytest.raises(LoadError, match=r"cannot undo the refresh functions .*relation \"orders\" does not exist"):
        run.reset(server, lambda text: None)
