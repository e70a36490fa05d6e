"""Load models, histograms per second and totals of a load on a real PostgreSQL."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.native.conftest import Server, client
from trimtab._native import Frame, Http, Load, Model, Operation, Page, Pages, Postgres, RunLog, Stream, Streams, Ycsb

NAMES = ("response", "service", "error", "queue", "lateness", "attempts")


def buckets(log: RunLog, what: str) -> dict[str, NDArray[Any]]:
    columns = log.buckets(what)
    dtypes = {"second": "<i4", "label": "<i4", "value_us": "<f8", "count": "<i8"}
    return {name: np.frombuffer(getattr(columns, name), dtype) for name, dtype in dtypes.items()}


def total(log: RunLog, what: str) -> int:
    return int(buckets(log, what)["count"].sum())


def largest_us(log: RunLog, what: str) -> int:
    return int(buckets(log, what)["value_us"].max())


def per_second(log: RunLog, name: str) -> NDArray[Any]:
    is_float = name in ("credited", "client_cpu_s", "steal_s", "wait_s")
    return np.frombuffer(getattr(log.seconds(), name), "<f8" if is_float else "<i8")


def frames_of(load: Load) -> list[Frame]:
    frames = []
    while (frame := load.frame(30.0)) is not None:
        frames.append(frame)
    return frames


def finished(load: Load) -> RunLog:
    frames_of(load)
    return load.stop()


@pytest.mark.service
def test_histograms_and_totals_of_a_closed_loop_agree(server: Server) -> None:
    streams = [client("SELECT 1"), client("SELECT 1 / 0", label="bad", think_s=0.01)]
    load = server.load(streams, duration_s=2.3, keep_rows=False, threads=2)
    frames = frames_of(load)
    log = load.stop()
    assert (log.labels, log.n_threads, log.users, log.is_open) == (["q", "bad"], 2, 2, False)
    assert log.rows().label == b""
    ok, failed = per_second(log, "ok"), per_second(log, "error")
    assert len(ok) == 3
    assert [frame.n_ok for frame in frames] == ok[:2].tolist()
    for what in ("response", "service", "queue", "attempts"):
        found = buckets(log, what)
        assert set(found["label"].tolist()) == {0}
        assert np.bincount(found["second"], found["count"], minlength=3).tolist() == ok.tolist()
    assert set(buckets(log, "attempts")["value_us"].tolist()) == {1}
    assert set(buckets(log, "error")["label"].tolist()) == {1}
    assert total(log, "error") == failed.sum() == sum(log.error_classes.values()) > 20
    assert log.error_classes.keys() == {"statement"}
    assert per_second(log, "credited").sum() == pytest.approx(ok.sum())
    assert per_second(log, "offered").sum() >= ok.sum() + failed.sum()
    assert not per_second(log, "shed").any()
    assert not per_second(log, "timed_out").any()
    assert per_second(log, "client_cpu_s").sum() == pytest.approx(log.client_cpu_s)
    assert (per_second(log, "steal_s") >= 0).all()
    # A row for each thread; each thread can wait for a second within a second, and a little more at its edges.
    waits = per_second(log, "wait_s").reshape(2, 3)
    assert ((waits >= 0) & (waits < 2)).all()
    assert log.priority == "normal"
    # The think time's timer is ours. (Two hundred thoughts on a quiet machine.)
    assert total(log, "wakeup") > 20
    assert total(log, "lateness") > 20
    assert 0 < log.memory_bytes < 1_000_000


@pytest.mark.service
def test_percentiles_of_a_frame_are_those_of_its_histogram(server: Server) -> None:
    load = server.load([client("SELECT 1")], duration_s=1.2)
    frame = frames_of(load)[0]
    found = buckets(load.stop(), "response")
    values = np.repeat(np.floor(found["value_us"] + 0.5), found["count"] * (found["second"] == 0))
    expected = np.percentile(values, [50, 95, 99], method="inverted_cdf").tolist()
    assert [frame.response_p50_us, frame.response_p95_us, frame.response_p99_us] == expected
    assert frame.client_cpu_s > 0
    assert frame.wait_s is not None
    assert frame.steal_s >= 0
    assert frame.wakeup_p99_us > 0
    assert (frame.backlog, frame.n_shed, frame.n_timed_out) == (0, 0, 0)


@pytest.mark.service
@pytest.mark.parametrize("arrivals", ["poisson", "uniform"])
def test_an_open_loop_offers_its_rate(server: Server, arrivals: str) -> None:
    model = Model.open(500.0, arrivals=arrivals)
    log = finished(server.load([client("SELECT 1")] * 8, model=model, duration_s=3.0, threads=2, seed=7))
    assert log.is_open
    offered = per_second(log, "offered")
    margin = 5 if arrivals == "uniform" else 5 * np.sqrt(1500)
    assert abs(offered.sum() - 1500) <= margin
    # What is still on its way when the run ends depends on how busy the machine is, and so do arrivals that share a wake-up.
    assert offered.sum() / 2 < per_second(log, "ok").sum() <= offered.sum()
    assert total(log, "lateness") <= offered.sum()
    assert total(log, "wakeup") > 50
    assert log.priority in ("normal", "short slices", "real-time")


@pytest.mark.service
def test_profiles_change_the_rate(server: Server) -> None:
    expected = {
        ("step", ((1.0, 400.0),)): [100, 400],
        ("ramp", 300.0, 2.0): [150, 250],
        ("sine", 100.0, 2.0): [100 + 200 / np.pi, 100 - 200 / np.pi],
    }
    for profile, per_s in expected.items():
        given: Any = ("step", list(profile[1])) if profile[0] == "step" else profile  # type: ignore[arg-type]
        model = Model.open(100.0, arrivals="uniform", profile=given)
        log = finished(server.load([client("SELECT 1")] * 4, model=model, duration_s=2.0))
        assert np.abs(per_second(log, "offered")[:2] - per_s).max() <= 12, profile


@contextmanager
def stopped_backends(server: Server, application_name: str) -> Iterator[None]:
    with server.connect() as connection:
        query = "SELECT pid FROM pg_stat_activity WHERE application_name = %s"
        pids = [row[0] for row in connection.execute(query, (application_name,)).fetchall()]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.service
def test_a_stalled_server_shows_in_the_response_and_not_in_the_service(server: Server) -> None:
    model = Model.open(300.0)
    load = server.load([client("SELECT 1")] * 4, model=model, duration_s=30.0, application_name="stalled")
    load.frame(30.0)
    with stopped_backends(server, "stalled"):
        time.sleep(1.0)
    load.frame(30.0)
    load.frame(30.0)
    log = load.stop()
    service, response = buckets(log, "service"), buckets(log, "response")
    assert service["count"][service["value_us"] > 900_000].sum() <= 4
    assert response["count"][response["value_us"] > 100_000].sum() > 150
    assert largest_us(log, "response") > 900_000
    assert largest_us(log, "queue") > 900_000


@pytest.mark.service
def test_what_no_user_can_take_is_shed(server: Server) -> None:
    model = Model.open(1000.0, backlog_max=50)
    load = server.load([client("SELECT pg_sleep(0.05)")] * 2, model=model, duration_s=2.0)
    frames = frames_of(load)
    log = load.stop()
    offered, shed, ok = (int(per_second(log, name).sum()) for name in ("offered", "shed", "ok"))
    assert shed > 1_700
    # Besides what waits there are two in flight.
    assert offered - shed - ok <= 50 + 2
    assert frames[-1].backlog == 50
    assert frames[-1].n_shed > 800


@pytest.mark.service
def test_conflicts_are_tried_again(server: Server) -> None:
    with server.connect() as connection:
        connection.execute("CREATE TABLE counter AS SELECT 0 AS n")
    statements = [
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "UPDATE counter SET n = n + 1",
        "SELECT pg_sleep(0.002)",
    ]
    streams = [client(*statements, transaction=True) for _ in range(4)]
    log = finished(server.load(streams, duration_s=1.0, max_tries=1_000))
    attempts = buckets(log, "attempts")
    assert attempts["value_us"].max() > 1
    assert log.error_classes == {}
    with server.connect() as connection:
        row = connection.execute("SELECT n FROM counter").fetchone()
    # Those that were cancelled at the end may have been committed.
    assert row is not None
    assert 0 <= row[0] - total(log, "response") <= 4


@pytest.mark.service
def test_a_time_out_is_in_the_errors_histogram(server: Server) -> None:
    stream = Stream([Operation("slow", ["SELECT pg_sleep(30)"])], repeat=False)
    log = finished(server.load([stream], operation_timeout_s=0.2))
    assert per_second(log, "timed_out").tolist() == [1]
    assert 190_000 < largest_us(log, "error") < 20_000_000
    assert log.error_classes == {}
    assert total(log, "response") == 0


@pytest.mark.service
def test_users_must_be_as_many_as_streams(server: Server) -> None:
    with pytest.raises(ValueError, match="users=3: there are 1 streams, one for each user"):
        server.load([client("SELECT 1")], users=3)
    log = finished(server.load([client("SELECT 1", repeat=False)], users=1))
    assert log.users == 1
    with pytest.raises(ValueError, match='what="latency" is no histogram of a run'):
        log.buckets("latency")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 0.0}, "rate=0 is not a positive number of operations per second"),
        ({"arrivals": "bursts"}, 'arrivals="bursts" is none of poisson, uniform'),
        ({"profile": ("wave", 1.0, 2.0)}, 'profile="wave" with these values is none of step, ramp, sine'),
        ({"profile": ("step", [(2.0, 1.0), (1.0, 1.0)])}, "profile step: the times must be more than 0 s and ascend"),
        ({"profile": ("sine", 20.0, 1.0)}, "profile sine: amplitude=20 must not exceed rate=10"),
        ({"backlog_age_max_s": 0.0}, "backlog_age_max_s must be longer than 0 s"),
    ],
)
def test_models_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        Model.open(**({"rate": 10.0} | options))


def test_think_times_that_make_no_sense() -> None:
    with pytest.raises(ValueError, match="think_s=-1 is not a time in seconds"):
        Model.closed(think_s=-1.0)


def test_drivers_that_make_no_sense() -> None:
    access: dict[str, Any] = {"host": "localhost", "port": 1, "user": "u", "database": "d"}
    with pytest.raises(ValueError, match='tls="maybe" is none of disable, prefer, require, verify-ca, verify-full'):
        Postgres(**access, tls="maybe")
    with pytest.raises(ValueError, match='settings: no setting can be named "a b"'):
        Postgres(**access, settings=[("a b", "1")])


def test_streams_that_make_no_sense() -> None:
    with pytest.raises(ValueError, match="streams: a load needs at least one"):
        Streams([])


@pytest.mark.service
def test_a_statement_that_the_server_cannot_prepare_is_told(server: Server) -> None:
    source = Ycsb(dialect="postgresql", table="nowhere", records=10, read=1.0)
    with pytest.raises(ValueError, match='^42P01 statement 1: relation "nowhere" does not exist$'):
        Load(driver=server.driver(), source=source, users=2, duration_s=1.0, operation_timeout_s=1.0)
    with pytest.raises(ConnectionError, match='^user 0 could not connect: 3D000 database "nowhere" does not exist$'):
        Load(driver=server.driver(database="nowhere"), source=source, users=2, duration_s=1.0, operation_timeout_s=1.0)


def test_other_threads_run_while_a_load_that_is_dropped_ends() -> None:
    """A page that never comes is waited for a moment before it is given up; where the machine is busy, that can be too short for
    another thread to have its turn."""
    turns, is_over = list[float](), threading.Event()

    def turn() -> None:
        while not is_over.wait(0.001):
            turns.append(time.monotonic())

    other = threading.Thread(target=turn)
    other.start()
    try:
        assert any(began < moment < ended for began, ended in map(dropped, range(20)) for moment in turns)
    finally:
        is_over.set()
        other.join()


def dropped(_: int) -> tuple[float, float]:
    """The middle of the time that it takes: outside it, threads may run in any case."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        driver = Http(host="127.0.0.1", port=listener.getsockname()[1])
        load: Load | None = Load(
            driver=driver, source=Pages([Page("p", "/")]), users=1, duration_s=60.0, operation_timeout_s=60.0
        )
        assert load is not None
        load.frame(0.2)
        began = time.monotonic()
        load = None
        ended = time.monotonic()
    quarter = (ended - began) / 4
    return began + quarter, ended - quarter
