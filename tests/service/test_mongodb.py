"""The target `mongodb` on a real mongod: one on the PATH, or one that TRIMTAB_MONGODB_URL names and that only the tests use."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.commands import PYTHON
from trimtab import plugins
from trimtab.measure import SecondLog
from trimtab.records import Endpoint
from trimtab.space import Config
from trimtab.systems.mongodb.client import Mongod
from trimtab.testing.target_suite import Subject, TargetSuite
from trimtab.workload.ycsb import YcsbWorkload

pytestmark = [pytest.mark.service, pytest.mark.slow, pytest.mark.needs("mongod", "pymongo")]

RECORDS = 1_000


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The table of a private mongod; skipped where only a URL is known, for its file is not."""
    program = shutil.which("mongod")
    if program is None:
        pytest.skip("the subject has no mongod to start: TRIMTAB_MONGODB_URL names one, whose file is not known")
    folder, port = tmp_path_factory.mktemp("mongod"), _free_port()
    (folder / "data").mkdir()
    conf = folder / "mongod.conf"
    conf.write_text(f"storage:\n  dbPath: {folder}/data\nnet:\n  port: {port}\n  bindIp: 127.0.0.1\n")
    url = f"mongodb://127.0.0.1:{port}/"
    return {
        "kind": "mongodb", "run": f"{program} --config {conf}", "files": {"conf": str(conf)}, "url": url, "memory": "1GiB",
        "names": {"server": url, "conf": str(conf)}, "log_file": str(folder / "out.log"), "knobs": "all",
    }  # fmt: skip


def _made(table: dict[str, Any], state_dir: Path) -> Any:
    return plugins.load("targets", "mongodb").from_settings("db", table, state_dir=state_dir)


class TestMongod(TargetSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def subject(cls, table: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
        state = tmp_path_factory.mktemp("state")
        target = _made(table, state)
        target.open()
        yield Subject(
            target=target,
            again=lambda: _made(table, state / "other"),
            reattach=lambda snapshot: type(target).from_snapshot(snapshot, state_dir=state),
            changes=Config({"sync_period": 30, "cache_size_gb": 0.5}),
            other=Config({"eviction_dirty_target": 10}),
            refused=("eviction_target", 200),
            locked=("commit_interval", 200),
            state_dir=state,
        )
        target.close()


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Endpoint]:
    url = os.environ.get("TRIMTAB_MONGODB_URL")
    if url is not None:
        folder = tmp_path_factory.mktemp("url")
        conf = folder / "mongod.conf"
        conf.write_text("net:\n  port: 27017\n")
        table = {"kind": "mongodb", "files": {"conf": str(conf)}, "url": url, "run": f"{PYTHON} -V"}
        yield _made(table, folder)._reach.endpoint()
        return
    target = _made(request.getfixturevalue("table"), tmp_path_factory.mktemp("state"))
    target.open()
    yield target.endpoint()
    target.close()


@pytest.mark.parametrize("letter", ["A", "C", "D", "E", "F"])
def test_ycsb_runs_and_its_rows_are_checked(endpoint: Endpoint, letter: str) -> None:
    workload = YcsbWorkload.from_settings(
        {"kind": "ycsb", "workload": letter, "records": RECORDS, "load": {"users": 4}}
    )
    workload.prepare(endpoint, lambda text: None)
    workload.reset(endpoint, lambda text: None)
    run = workload.start(endpoint, seed=1, duration_s=60.0)
    try:
        assert run.frame(60.0) is not None
    finally:
        log = run.stop()
        workload.clean_up(endpoint)
    assert isinstance(log, SecondLog)
    assert (log.errors, log.error_classes) == ((), {})
    assert workload.prepare(endpoint, lambda text: None).was_cached


def test_every_knob_is_one_that_this_version_takes_or_locks(table: dict[str, Any], tmp_path: Path) -> None:
    target = _made(table, tmp_path)
    target.open()
    try:
        states = target.states()
        server = Mongod(table["names"]["server"])
        version = server.run({"buildInfo": 1})["version"]
        server.close()
        unknown = {name: state.lock_reason for name, state in states.items() if "needs" in (state.lock_reason or "")}
        print(f"mongod {version}: {len(states)} knobs, not in this version: {unknown}")
        assert len(states) - len(unknown) >= 40
    finally:
        target.close()
