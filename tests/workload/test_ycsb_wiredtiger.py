"""YCSB on WiredTiger: A to F in the engine's own process, rows checked; what a dead engine leaves; bad input."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trimtab import plugins
from trimtab.errors import LoadError
from trimtab.load.wiredtiger import ask
from trimtab.measure import SecondLog
from trimtab.records import Endpoint
from trimtab.space import Config
from trimtab.workload import LoadRun, Workload
from trimtab.workload.server import store_of
from trimtab.workload.ycsb import YcsbWorkload

pytestmark = [pytest.mark.service, pytest.mark.slow, pytest.mark.needs("wiredtiger")]

RECORDS = 2_000


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("wt")
    table = {"kind": "wiredtiger", "embedded": "11", "folder": str(folder / "kv"), "memory": "512MiB"}
    made = plugins.load("targets", "wiredtiger").from_settings("kv", table, state_dir=folder)
    made.open()
    yield made
    made.close()


@pytest.fixture
def endpoint(target: Any) -> Endpoint:
    found: Endpoint = target.endpoint()
    return found


def ycsb(**settings: Any) -> YcsbWorkload:
    return YcsbWorkload.from_settings(
        {"kind": "ycsb", "records": RECORDS, "load": {"users": 3, "think": "2ms"}, **settings}
    )


def ran(workload: Workload, endpoint: Endpoint, seconds: int = 1) -> SecondLog:
    """The log of a run that ends after so many of its own seconds."""
    workload.prepare(endpoint, lambda text: None)
    workload.reset(endpoint, lambda text: None)  # type: ignore[attr-defined]
    run = workload.start(endpoint, seed=1, duration_s=60.0)
    try:
        for _ in range(seconds):
            while run.frame(60.0) is None:
                assert not run.is_done
    finally:
        log = run.stop()
        workload.clean_up(endpoint)  # type: ignore[attr-defined]
    assert isinstance(log, SecondLog)
    return log


@pytest.mark.parametrize("letter", ["A", "B", "C", "D", "E", "F"])
def test_every_core_workload_runs_and_its_rows_are_checked(endpoint: Endpoint, letter: str) -> None:
    log = ran(ycsb(workload=letter, read_all_fields=letter != "B"), endpoint)
    assert (log.errors, log.error_classes) == ((), {})
    assert log.credited.sum() > 10
    expected = {"A": "READ UPDATE", "B": "READ UPDATE", "C": "READ", "D": "READ INSERT", "E": "INSERT SCAN",
                "F": "READ READ-MODIFY-WRITE"}  # fmt: skip
    assert log.labels == tuple(expected[letter].split())
    # What the engine does on these threads is not the load's.
    assert log.client_cpu_s.sum() == 0


def test_wrong_rows_are_seen(endpoint: Endpoint) -> None:
    """The same database with records of another shape than the load expects."""
    made = ycsb(workload="C", field_length=50, database="shape")
    made.prepare(endpoint, lambda text: None)
    other = YcsbWorkload(replace(ycsb(workload="C", database="shape").settings))
    run = other.start(endpoint, seed=1, duration_s=60.0)
    assert run.frame(60.0) is not None
    log = run.stop()
    assert isinstance(log, SecondLog)
    assert set(log.error_classes) == {"validation"}
    assert "a field of 50 bytes instead of 100" in log.errors[0]


def test_prepared_data_is_kept_and_a_run_works_on_a_copy(endpoint: Endpoint) -> None:
    workload = ycsb(workload="D")
    ran(workload, endpoint)
    assert workload.prepare(endpoint, lambda text: None).was_cached
    store = store_of(endpoint)
    with store.connect(workload.settings.database) as session:
        assert session.n_records() == RECORDS  # type: ignore[attr-defined]
        assert not store.exists(session, workload.database.name)


def test_a_load_runs_on_a_table_with_the_settings_in_use(target: Any, endpoint: Endpoint) -> None:
    name = f"trimtab_ycsb_{RECORDS}"
    ran(ycsb(workload="C", start_state="none"), endpoint)
    before = ask(endpoint.host, {"do": "names"})[name]
    found = target.snapshot()
    target.apply(Config({"block_compressor": "zlib"}))
    log = ran(ycsb(workload="C", start_state="none"), endpoint)
    after = ask(endpoint.host, {"do": "names"})[name]
    assert (log.errors, ask(endpoint.host, {"do": "count", "name": name})) == ((), RECORDS)
    assert after["marker"] == before["marker"]
    assert after["kind"] != before["kind"]
    target.restore(found)


def test_a_time_out_that_has_no_effect_is_told(endpoint: Endpoint) -> None:
    said: list[str] = []
    ycsb(workload="C").prepare(endpoint, said.append)
    assert "operation_timeout" not in " ".join(said)
    ycsb(workload="C", operation_timeout="3s").prepare(endpoint, said.append)
    assert "operation_timeout has no effect on a target of kind=wiredtiger" in " ".join(said)


def test_an_open_loop_does_not_go_before_the_engine(target: Any, endpoint: Endpoint) -> None:
    """Its threads do the engine's work, and have no priority of a generator's."""
    workload = ycsb(workload="C", load={"users": 2, "rate": 200})
    workload.prepare(endpoint, lambda text: None)
    run = workload.start(endpoint, seed=1, duration_s=60.0)
    try:
        assert run.frame(60.0) is not None
        threads = [int(path.name) for path in Path(f"/proc/{target._reach.pid}/task").iterdir()]
        assert {os.sched_getscheduler(thread) for thread in threads} == {os.SCHED_OTHER}
    finally:
        log = run.stop()
    assert isinstance(log, SecondLog)
    assert (log.is_open, log.errors, log.priority) == (True, (), "")


def test_a_load_from_elsewhere_is_refused(endpoint: Endpoint) -> None:
    workload = ycsb(workload="C", load={"users": 1, "from": ["local"]})
    workload.prepare(endpoint, lambda text: None)
    with pytest.raises(LoadError, match="runs in the engine's own process") as raised:
        workload.start(endpoint, seed=1, duration_s=1.0)
    assert "leave `from` out" in (raised.value.hint or "")


def test_an_engine_that_dies_in_a_run_ends_it_and_comes_back_with_its_data(target: Any, endpoint: Endpoint) -> None:
    workload = ycsb(workload="A")
    workload.prepare(endpoint, lambda text: None)
    workload.reset(endpoint, lambda text: None)
    run = workload.start(endpoint, seed=1, duration_s=60.0)
    assert run.frame(60.0) is not None
    os.kill(target._reach.pid, signal.SIGKILL)
    with pytest.raises(LoadError, match="ended in the middle of the run: the engine's process has ended"):
        _to_the_end(run)
    while target._reach.pid is not None:
        time.sleep(0.01)
    target._reach.ensure_up()
    assert workload.prepare(endpoint, lambda text: None).was_cached


def test_a_damaged_table_ends_the_engine_and_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "kv"
    table = {"kind": "wiredtiger", "embedded": "11", "folder": str(folder), "memory": "512MiB"}
    made = plugins.load("targets", "wiredtiger").from_settings("kv", table, state_dir=tmp_path)
    workload = ycsb(workload="C")
    made.open()
    workload.prepare(made.endpoint(), lambda text: None)
    made.close()
    (rows,) = folder.glob("trimtab_ycsb_*.wt")
    with rows.open("r+b") as out:
        out.seek(4096)
        out.write(b"\xff" * (rows.stat().st_size - 4096))
    made.open()
    try:
        with pytest.raises(LoadError, match=f"preparing database=trimtab_ycsb_{RECORDS} failed: .*WT_PANIC") as raised:
            workload.prepare(made.endpoint(), lambda text: None)
        assert f"remove {folder}: it is made again" in (raised.value.hint or "")
        while made._reach.pid is not None:
            time.sleep(0.01)
        assert "fatal read error" in made.log_excerpt() or "checksum" in made.log_excerpt()
    finally:
        made.close()


def _to_the_end(run: LoadRun) -> None:
    while run.frame(60.0) is not None:
        pass


def test_nobody_at_the_socket(tmp_path: Path) -> None:
    nowhere = Endpoint(protocol="wiredtiger", host=str(tmp_path / "engine.sock"), port=0, user="", database="x")
    with pytest.raises(LoadError, match="the engine's process does not answer: socket="):
        ycsb(workload="C").prepare(nowhere, lambda text: None)
    with pytest.raises(LoadError, match="the load cannot run in the engine's process: socket="):
        ycsb(workload="C").start(nowhere, seed=1, duration_s=1.0)
