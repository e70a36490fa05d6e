"""Loads of text statements on a real PostgreSQL: what they record, how they end, and how they fail."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections import Counter
from typing import Any

import numpy as np
import psycopg
import pytest
from numpy.typing import NDArray

from tests.native.conftest import PASSWORD, Server, client
from trimtab._native import Frame, Load, Operation, RunLog, Stream
from trimtab.measure import Outcome

pytestmark = pytest.mark.service

DTYPES = {"stream": "<i4", "label": "<i4", "start_s": "<f8", "end_s": "<f8", "rows": "<i8", "outcome": "u1"}


def column(log: RunLog, name: str) -> NDArray[Any]:
    return np.frombuffer(getattr(log.rows(), name), DTYPES[name])


def outcomes(log: RunLog) -> Counter[Outcome]:
    return Counter(Outcome(value) for value in column(log, "outcome"))


def durations(log: RunLog) -> NDArray[np.float64]:
    difference: NDArray[np.float64] = column(log, "end_s") - column(log, "start_s")
    return difference


def run_to_end(load: Load) -> tuple[list[Frame], RunLog]:
    frames = []
    while (frame := load.frame(30.0)) is not None:
        frames.append(frame)
    assert load.is_done
    return frames, load.log()


def n_backends(server: Server, application_name: str, *, of: str = "true") -> int:
    with server.connect() as connection:
        query = f"SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND {of}"
        row = connection.execute(query, (application_name,)).fetchone()
    assert row is not None
    return int(row[0])


def test_runs_each_stream_in_order(server: Server) -> None:
    operations = [Operation(label, ["SELECT generate_series(1, 3)"]) for label in ("a", "b", "a")]
    _, log = run_to_end(server.load([Stream(operations, repeat=False), client("SELECT 1", repeat=False)]))
    assert log.labels == ["a", "b", "q"]
    of_first = column(log, "stream") == 0
    assert column(log, "label")[of_first].tolist() == [0, 1, 0]
    assert column(log, "rows")[of_first].tolist() == [3, 3, 3]
    assert column(log, "rows")[~of_first].tolist() == [1]
    assert outcomes(log) == {Outcome.OK: 4}
    assert log.is_done


def test_columns_are_ordered_and_consistent(server: Server) -> None:
    load = server.load([client("SELECT 1") for _ in range(3)], duration_s=0.5, threads=2)
    _, log = run_to_end(load)
    end_s = column(log, "end_s")
    assert len(end_s) > 10
    assert (np.diff(end_s) >= 0).all()
    assert (column(log, "start_s") >= 0).all()
    assert (durations(log) > 0).all()
    assert set(column(log, "stream").tolist()) == {0, 1, 2}
    assert log.duration_s >= 0.5
    assert 0 < log.client_cpu_s < 2 * log.duration_s


def test_one_client_waits_for_each_answer(server: Server) -> None:
    _, log = run_to_end(server.load([client("SELECT 1", think_s=0.02)], duration_s=0.5))
    start_s, end_s = column(log, "start_s"), column(log, "end_s")
    assert (start_s[1:] - end_s[:-1] >= 0.02).all()


@pytest.mark.parametrize("over", ["socket", "tcp"])
def test_reaches_the_server(server: Server, over: str) -> None:
    reach = {} if over == "socket" else {"host": "127.0.0.1", "password": PASSWORD}
    _, log = run_to_end(server.load([client("SELECT 1", repeat=False)], **reach))
    assert outcomes(log) == {Outcome.OK: 1}


def test_wrong_password(server: Server) -> None:
    with pytest.raises(ConnectionError) as error:
        server.load([client("SELECT 1")], host="127.0.0.1", password="wrong horse")
    text = str(error.value)
    assert text == 'user 0 could not connect: 28P01 password authentication failed for user "postgres"'


def test_nobody_listens(server: Server) -> None:
    with pytest.raises(ConnectionError, match=r"user 0 could not connect: .*refused"):
        server.load([client("SELECT 1")], host="127.0.0.1", port=1)


def test_too_many_streams_for_the_server(server: Server) -> None:
    with pytest.raises(ConnectionError, match="could not connect: 53300 sorry, too many clients already"):
        server.load([client("SELECT 1") for _ in range(100)])


def test_a_server_that_never_answers_is_given_up(server: Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(ConnectionError, match=r"no connection within 0\.2 s$"):
            server.load([client("SELECT 1")], host="127.0.0.1", port=port, connect_timeout_s=0.2)


def test_settings_reach_every_connection(server: Server) -> None:
    settings = [("work_mem", "7MB"), ("search_path", "pg_catalog, public"), ("my.note", r"it's \ fine")]
    check = r"""
        DO $$ BEGIN
            IF current_setting('work_mem') <> '7MB' OR current_setting('my.note') <> 'it''s \ fine'
                OR array_length(current_schemas(false), 1) <> 2 OR current_setting('application_name') <> 'it'
            THEN RAISE 'not set'; END IF;
        END $$"""
    streams = [client(check, repeat=False) for _ in range(3)]
    _, log = run_to_end(server.load(streams, settings=settings, application_name="it"))
    assert log.errors == []
    assert outcomes(log) == {Outcome.OK: 3}


def test_settings_that_the_server_refuses(server: Server) -> None:
    with pytest.raises(ConnectionError, match='22023 invalid value for parameter "work_mem": "blue"'):
        server.load([client("SELECT 1")], settings=[("work_mem", "blue")])
    with pytest.raises(ValueError, match=r'settings: no setting can be named "work_mem\'; --"'):
        server.load([client("SELECT 1")], settings=[("work_mem'; --", "1")])


def test_errors_are_recorded_and_the_stream_goes_on(server: Server) -> None:
    operations = [Operation("bad", ["SELECT 1 / 0", "SELECT 1"]), Operation("good", ["SELECT 1"])]
    load, frames = server.load([Stream(operations, think_s=0.001)], duration_s=60.0), list[Frame]()
    while (not frames or len(load.log().errors) < 100) and (frame := load.frame(30.0)) is not None:
        frames.append(frame)
    log = load.stop()
    assert log.errors[0] == "bad: 22012 division by zero"
    assert len(log.errors) == 100
    by_outcome = outcomes(log)
    assert abs(by_outcome[Outcome.ERROR] - by_outcome[Outcome.OK]) <= 1
    label, outcome = column(log, "label"), column(log, "outcome")
    assert set(zip(label.tolist(), outcome.tolist(), strict=True)) <= {(0, 1), (1, 0), (0, 3), (1, 3)}
    assert frames[0].n_error == int(((outcome == Outcome.ERROR) & (column(log, "end_s") < 1)).sum())
    assert frames[0].n_ok == int(((outcome == Outcome.OK) & (column(log, "end_s") < 1)).sum())


def test_a_transaction_is_undone_after_an_error(server: Server) -> None:
    with server.connect() as connection:
        connection.execute("CREATE TABLE kept (n int)")
    operations = [
        Operation("undone", ["INSERT INTO kept VALUES (1)", "SELECT 1 / 0"], transaction=True),
        Operation("done", ["INSERT INTO kept VALUES (2), (3)", "SELECT 1"], transaction=True),
        Operation("alone", ["INSERT INTO kept VALUES (4)", "SELECT 1 / 0"]),
    ]
    _, log = run_to_end(server.load([Stream(operations, repeat=False)]))
    assert column(log, "outcome").tolist() == [Outcome.ERROR, Outcome.OK, Outcome.ERROR]
    assert column(log, "rows").tolist() == [0, 3, 0]
    with server.connect() as connection:
        assert connection.execute("TABLE kept").fetchall() == [(2,), (3,), (4,)]


def test_a_statement_may_hold_several(server: Server) -> None:
    text = "CREATE TEMP VIEW v AS SELECT generate_series(1, 5) AS n; SELECT * FROM v; DROP VIEW v;"
    _, log = run_to_end(server.load([Stream([Operation("q15", [text])] * 3, repeat=False)]))
    assert outcomes(log) == {Outcome.OK: 3}
    assert column(log, "rows").tolist() == [5, 5, 5]


def test_a_slow_operation_is_cut_off_and_the_stream_goes_on(server: Server) -> None:
    operations = [Operation("slow", ["SELECT pg_sleep(30)"], transaction=True), Operation("fast", ["SELECT 1"])]
    load = server.load([Stream(operations, repeat=False)], operation_timeout_s=1.0)
    _, log = run_to_end(load)
    assert column(log, "outcome").tolist() == [Outcome.TIMED_OUT, Outcome.OK]
    assert 1.0 <= durations(log)[0] < 20.0
    assert log.errors == []


def test_stop_cancels_what_is_in_flight(server: Server) -> None:
    load = server.load([client("SELECT pg_sleep(30)") for _ in range(8)], threads=2, application_name="stopped")
    while n_backends(server, "stopped", of="query LIKE 'SELECT pg_sleep%%' AND state = 'active'") < 8:
        time.sleep(0.01)
    assert n_backends(server, "stopped") == 8
    assert column(load.log(), "outcome").tolist() == []
    log = load.stop()
    assert outcomes(log) == {Outcome.CANCELLED: 8}
    assert (column(log, "end_s") <= log.duration_s).all()
    assert log.duration_s < 20
    assert log.is_done
    assert load.is_done
    assert load.frame(0.0) is None
    again = load.stop()
    assert (again.rows().end_s, again.duration_s) == (log.rows().end_s, log.duration_s)
    while n_backends(server, "stopped") > 0:
        time.sleep(0.01)


def test_the_duration_is_a_cap(server: Server) -> None:
    _, log = run_to_end(server.load([client("SELECT pg_sleep(30)")], duration_s=0.3))
    assert outcomes(log) == {Outcome.CANCELLED: 1}
    assert 0.3 <= log.duration_s < 20


def test_a_forgotten_load_stops(server: Server) -> None:
    load = server.load([client("SELECT pg_sleep(30)")], application_name="forgotten")
    assert n_backends(server, "forgotten") == 1
    del load
    while n_backends(server, "forgotten") > 0:
        time.sleep(0.01)


def test_stop_from_another_thread_wakes_the_reader(server: Server) -> None:
    load = server.load([client("SELECT pg_sleep(30)")])
    stopper = threading.Timer(0.2, load.stop)
    stopper.start()
    while load.frame(30.0) is not None:
        pass
    stopper.join()
    assert load.log().duration_s < 20


def test_columns_so_far_leave_the_load_running(server: Server) -> None:
    load = server.load([client("SELECT 1"), client("SELECT pg_sleep(30)")], threads=2)
    counts = [0]
    while len(counts) < 4:
        log = load.log()
        assert not log.is_done
        n_ended = len(column(log, "end_s"))
        assert n_ended >= counts[-1]
        if n_ended > counts[-1]:
            counts.append(n_ended)
        time.sleep(0.01)
    assert set(outcomes(log)) == {Outcome.OK}
    final = load.stop()
    assert len(column(final, "end_s")) > counts[-1]


def credited(log: RunLog, second: int) -> float:
    """What the docstring of `credited` promises, computed from the log; every label is the same one."""
    ok = column(log, "outcome") == Outcome.OK
    start_s, end_s = column(log, "start_s"), column(log, "end_s")
    ended = ok & (end_s >= second) & (end_s < second + 1)
    inside_s = end_s - np.maximum(start_s, second)
    known = (end_s - start_s)[ok & (end_s < second + 1)]
    mean_s = float(known.mean()) if len(known) else 0.0
    running = (start_s < second + 1) & (end_s >= second + 1)
    elapsed_s = second + 1 - start_s[running]
    still = np.minimum(elapsed_s, 1.0) / np.maximum(elapsed_s, mean_s)
    return float(np.sum(inside_s[ended] / (end_s - start_s)[ended]) + np.sum(still))


def test_long_operations_are_credited_to_their_seconds(server: Server) -> None:
    streams = [client(f"SELECT pg_sleep({sleep_s})") for sleep_s in (0.3, 0.7, 0.45)]
    frames, log = run_to_end(server.load(streams, duration_s=3.0, threads=2))
    assert [frame.second for frame in frames] == [0, 1, 2]
    assert sum(frame.n_ok for frame in frames) == int(
        ((column(log, "outcome") == Outcome.OK) & (column(log, "end_s") < 3)).sum()
    )
    assert [frame.credited for frame in frames] == pytest.approx([credited(log, second) for second in range(3)])
    assert repr(frames[0]).startswith("Frame(second=0, n_ok=")


def _is_back(log: RunLog, stream: int) -> bool:
    """Whether that stream had an error, and some answers since then."""
    mine = column(log, "outcome")[column(log, "stream") == stream].tolist()
    return Outcome.ERROR in mine and mine[mine.index(Outcome.ERROR) :].count(Outcome.OK) > 2


def test_a_lost_connection_is_an_error_and_comes_back(server: Server) -> None:
    load = server.load([client("SELECT pg_sleep(0.01)"), client("SELECT pg_sleep(0.01)")], application_name="lost")
    with server.connect() as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lost'")
    while not all(_is_back(load.log(), stream) for stream in (0, 1)):
        time.sleep(0.05)
    log = load.stop()
    stream, outcome = column(log, "stream"), column(log, "outcome")
    for i in (0, 1):
        mine = outcome[stream == i].tolist()
        assert mine.count(Outcome.ERROR) == 1
        assert mine[-2] == Outcome.OK
        assert mine.index(Outcome.ERROR) < len(mine) - 2
    assert log.errors == ["q: 57P01 terminating connection due to administrator command"] * 2


def test_a_database_that_is_gone_is_asked_seldom(server: Server) -> None:
    with server.connect() as connection:
        connection.execute("CREATE DATABASE gone")
    load = server.load([client("SELECT pg_sleep(0.01)")], database="gone")
    with server.connect() as connection:
        connection.execute("DROP DATABASE gone WITH (FORCE)")
    while outcomes(load.log())[Outcome.ERROR] < 5:
        time.sleep(0.05)
    log = load.stop()
    lost_s = column(log, "end_s")[column(log, "outcome") == Outcome.ERROR]
    assert (np.diff(lost_s)[:4] >= (0.05, 0.1, 0.2, 0.4)).all(), "each attempt waits twice as long as the one before"
    assert log.errors[-1] == 'q: 3D000 database "gone" does not exist'


def read_forever(load: Load) -> None:
    while True:
        load.frame(60.0)


def test_ctrl_c_is_heard(server: Server) -> None:
    load = server.load([client("SELECT pg_sleep(30)")], duration_s=60.0)

    def interrupt() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    timer = threading.Timer(0.1, interrupt)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        read_forever(load)
    assert not load.is_done
    assert outcomes(load.stop()) == {Outcome.CANCELLED: 1}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"streams": []}, "streams: a load needs at least one"),
        ({"streams": [Stream([])]}, "streams: stream 0 has no operations"),
        ({"duration_s": 0.0}, "the duration and the time-outs must be longer than 0 s"),
        ({"duration_s": -1.0}, "duration_s=-1 is not a time in seconds"),
        ({"operation_timeout_s": float("nan")}, "operation_timeout_s=NaN is not a time in seconds"),
        ({"threads": 0}, "threads=0: a load needs at least one"),
    ],
)
def test_loads_that_make_no_sense(server: Server, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        server.load(**({"streams": [client("SELECT 1")]} | options))
    assert str(error.value) == message


def test_operations_that_make_no_sense() -> None:
    with pytest.raises(ValueError, match="operation q: it has no statements"):
        Operation("q", [])
    with pytest.raises(ValueError, match="operation q: a statement holds a NUL character"):
        Operation("q", ["SELECT '\0'"])
    with pytest.raises(ValueError, match="think_s=-1 is not a time in seconds"):
        Stream([Operation("q", ["SELECT 1"])], think_s=-1.0)


def test_no_time_out_is_a_long_one(server: Server) -> None:
    load = server.load([client("SELECT 1", repeat=False)], operation_timeout_s=float("inf"))
    assert outcomes(run_to_end(load)[1]) == {Outcome.OK: 1}


def test_the_server_is_left_without_connections(server: Server) -> None:
    _, log = run_to_end(server.load([client("SELECT 1", repeat=False)] * 5, application_name="brief"))
    assert outcomes(log) == {Outcome.OK: 5}
    while n_backends(server, "brief") > 0:
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("copy", "outcome", "errors"),
    [
        ("COPY pg_class TO STDOUT", Outcome.OK, []),
        (
            "COPY pg_class FROM STDIN",
            Outcome.ERROR,
            ["copy: the statement waits for COPY data, which cannot be sent"],
        ),
    ],
)
def test_a_copy_cannot_hang_the_stream(server: Server, copy: str, outcome: Outcome, errors: list[str]) -> None:
    operations = [Operation("copy", [copy]), Operation("next", ["SELECT 1"])]
    load = server.load([Stream(operations, repeat=False)], operation_timeout_s=1.0)
    _, log = run_to_end(load)
    assert column(log, "outcome").tolist() == [outcome, Outcome.OK]
    assert log.errors == errors


def test_psycopg_agrees_about_the_password(server: Server) -> None:
    """The fixture's server really asks for a password over TCP."""
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(host="127.0.0.1", port=server.port, user="postgres", dbname="postgres")
