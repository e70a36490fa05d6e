"""Studies in a history that machines share: each is of its target's host, and one process at a time runs it."""

from __future__ import annotations

import os
import platform
import signal
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.fakes import FakeStudy
from trimtab.errors import HistoryError
from trimtab.history import History, StudyRecord, host_of, is_same_host, open_history_at
from trimtab.records import Machine, Trial
from trimtab.study import Proposal, apply_winner, load_study_file
from trimtab.study.design import run_design
from trimtab.study.known import find_known


@pytest.fixture
def lie(fake: FakeStudy, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """The target is on that host from now on; the study is short."""
    fake.text = fake.text.replace("12 trials", "3 trials")
    machine = fake.target.machine()

    def on_host(name: str) -> None:
        monkeypatch.setattr(fake.target, "machine", lambda: replace(machine, hostname=name))

    on_host("db1")
    return on_host


def history_of(fake: FakeStudy) -> History:
    return open_history_at(None, fake.path / "state")


def stop_at(fake: FakeStudy, number: int) -> None:
    fake.listener.on_trial = lambda trial: os.kill(os.getpid(), signal.SIGINT) if trial.number == number else None


@pytest.mark.slow
def test_what_another_host_has_measured_is_no_result_here(fake: FakeStudy, lie: Callable[[str], None]) -> None:
    first, _ = fake.tune()
    n_runs = len(fake.workload.seeds)
    lie("db2")
    said = "study='fake' was made on host='db1', and the target is on host='db2' now"
    with pytest.raises(HistoryError, match=said) as caught:
        fake.tune()
    assert caught.value.hint is not None
    assert "--again" in caught.value.hint
    assert len(fake.workload.seeds) == n_runs
    second, _ = fake.tune(again=True)
    assert second.machine.hostname == "db2"
    n_runs = len(fake.workload.seeds)
    lie("db1")  # which goes on with its own, though there is a newer one
    assert fake.tune()[0].id == first.id
    lie("DB1.example.org")
    assert fake.tune()[0].id == first.id
    assert len(fake.workload.seeds) == n_runs


@pytest.mark.slow
def test_a_study_that_another_host_still_runs_is_left_alone(fake: FakeStudy, lie: Callable[[str], None]) -> None:
    stop_at(fake, 3)
    record, trials = fake.tune()
    with history_of(fake) as history:
        history.update_study(record.id, status="running")
    lie("db2")
    with pytest.raises(HistoryError, match="was made on host='db1'"):
        fake.tune()
    with history_of(fake) as history:
        assert history.study(record.id).status == "running"
        assert history.trials(record.id) == trials


@pytest.mark.slow
def test_one_process_at_a_time_runs_a_study(fake: FakeStudy, lie: Callable[[str], None]) -> None:
    stop_at(fake, 3)
    record, _ = fake.tune()
    with history_of(fake) as history:
        history.update_study(record.id, status="running")
        assert history.hold(record.id)
        with pytest.raises(HistoryError, match="another process runs study='fake'"):
            fake.tune()
        assert history.study(record.id).status == "running"
    stop_at(fake, -1)
    resumed, _ = fake.tune()
    assert (resumed.id, resumed.status == "running") == (record.id, False)


@pytest.mark.slow
def test_who_has_lost_a_study_to_another_process_does_not_end_it(
    fake: FakeStudy, lie: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_next(trial: Trial) -> None:
        with history_of(fake) as history:
            record = history.find_study("fake")
            assert record is not None
            history.add_trial(record.id, replace(trial, number=trial.number + 1))

    fake.listener.on_trial = write_next
    with pytest.raises(HistoryError, match="has a trial number=1 already"):
        fake.tune()
    with history_of(fake) as history:
        (summary,) = history.summaries()
        assert summary.status == "running"


@pytest.mark.slow
def test_a_design_is_of_one_host_too(fake: FakeStudy, lie: Callable[[str], None]) -> None:
    path = fake.path / "study.toml"
    path.write_text(fake.written, encoding="utf-8")

    def ranked() -> StudyRecord:
        return run_design(load_study_file(path), fake.path / "state", fake.listener, kind="lhs", runs=8)[0]

    assert ranked().status == "ranked"
    lie("db2")
    with pytest.raises(HistoryError, match=r"study='fake\.rank-lhs' was made on host='db1'"):
        ranked()


@pytest.mark.slow
def test_who_applies_a_winner_sees_that_it_was_proven_elsewhere(fake: FakeStudy, lie: Callable[[str], None]) -> None:
    fake.text = fake.text.replace("3 trials", "12 trials")
    record, _ = fake.tune()
    assert record.status == "proven"
    seen: list[Proposal] = []

    def sees(proposal: Proposal) -> bool:
        seen.append(proposal)
        return False

    file = load_study_file(fake.path / "study.toml")
    apply_winner(record, file, fake.path / "state", agrees=sees)
    lie("db2")
    apply_winner(record, file, fake.path / "state", agrees=sees)
    assert [proposal.where.get("proven on") for proposal in seen] == [None, "host db1, and not on this one (db2)"]


@pytest.mark.parametrize(
    ("known", "here", "is_same"),
    [
        ("db1", "db1", True), ("DB1", "db1.example.org", True), ("db1.example.org", "db1", True), ("db1", "db2", False),
        ("db1.a", "db1.b", False), ("10.0.0.1", "10.0.0.2", False), ("", "db1", True), ("localhost", "db1", True),
        ("127.0.0.1", "db1", True), ("/run/postgresql", "db1", True),
    ],
)  # fmt: skip
def test_names_of_one_host(known: str, here: str, is_same: bool) -> None:
    assert is_same_host(known, here) == is_same


@pytest.mark.parametrize("name", ["", "localhost", "/run/mysqld/mysqld.sock"])
def test_a_name_that_means_this_machine_is_not_kept_as_it_is(name: str) -> None:
    assert host_of(Machine(cores=1, memory_bytes=1, hostname=name)) == platform.node()
    assert host_of(Machine(cores=1, memory_bytes=1, hostname="db1")) == "db1"


def test_a_study_of_this_machine_is_found_without_its_server() -> None:
    class Shared:
        def own_studies(self, name: str) -> Any:
            return iter([record(platform.node())])

    def unreachable() -> str:
        raise AssertionError

    history: Any = Shared()
    assert find_known(history, "tpch", unreachable) is not None


def record(host: str) -> Any:
    class Record:
        machine = Machine(cores=1, memory_bytes=1, hostname=host)

    return Record()
