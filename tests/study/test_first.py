"""Whoever calls what changes a server, from the command line or not: nothing begins over what a killed Trimtab has left."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fakes import FakeStudy
from trimtab.errors import LoadError, TargetError, UsageError
from trimtab.history import open_history_at
from trimtab.records import Trial
from trimtab.space import Config
from trimtab.study import (
    Slo,
    apply_winner,
    bench,
    find_rate,
    load_study_file,
    open_changes,
    open_stage,
    rollback,
    run_design,
)
from trimtab.study.first import changed_by, lost_with_power
from trimtab.testing.fake_workload import FakeRatedWorkload
from trimtab.trial import Journal, own_to_json
from trimtab.trial.entry import APPLY, FAILED, TRIED

TOLD = "a killed study='dead' had left target='db' changed: restored as it was found"


def _left_by_a_killed_tuner(fake: FakeStudy, *more: tuple[str, dict[str, str]]) -> None:
    """Another process opens a journal entry, sets cache=999, notes `more` steps, and dies."""
    state, target = fake.path / "state", fake.target
    child = os.fork()
    if child == 0:
        entry = Journal(state).begin(target.snapshot(), study="dead", purpose="tune")
        own = own_to_json(target.announce(Config({"cache": 999})))
        entry.note(APPLY, {"target": target.name, "changes": {"cache": 999}, "own": own})
        for step, detail in more:
            entry.note(step, detail)
        os._exit(0)
    assert os.waitpid(child, 0) == (child, 0)
    target.disk.running["cache"] = target.disk.configured["cache"] = 999
    assert [entry.study for entry in open_changes(state)] == ["dead"]


def _tune(fake: FakeStudy, said: list[str]) -> None:
    fake.text = fake.text.replace("12 trials", "3 trials")
    record, _ = fake.tune(say=said.append)
    assert record.baseline["cache"] == 128


def _bench(fake: FakeStudy, said: list[str]) -> None:
    bench(_file(fake), fake.path / "state", settings={}, n_runs=1, listener=fake.listener, say=said.append)


def _find_rate(fake: FakeStudy, said: list[str]) -> None:
    fake.workload = FakeRatedWorkload(lambda: 1000.0, noise_sd=0.0)
    find_rate(
        _file(fake), fake.path / "state", slo=Slo.parse("p99 <= 20ms"), settings={}, listener=fake.listener,
        say=said.append,
    )  # fmt: skip


def _design(fake: FakeStudy, said: list[str]) -> None:
    record, _ = run_design(
        _file(fake), fake.path / "state", fake.listener, kind="lhs", runs=12, say=said.append
    )  # fmt: skip
    assert record.baseline["cache"] == 128


def _rollback(fake: FakeStudy, said: list[str]) -> None:
    with pytest.raises(UsageError, match="nothing of study='fake' is applied"):
        rollback("fake", fake.path / "state", say=said.append)


def _file(fake: FakeStudy) -> Any:
    path = fake.path / "study.toml"
    path.write_text(fake.written, encoding="utf-8")
    return load_study_file(path)


@pytest.mark.slow
@pytest.mark.parametrize("begin", [_tune, _bench, _find_rate, _design, _rollback])
def test_what_a_killed_tuner_left_is_taken_back_first(
    fake: FakeStudy, begin: Callable[[FakeStudy, list[str]], None]
) -> None:
    said: list[str] = []
    _left_by_a_killed_tuner(fake)
    begin(fake, said)
    assert said[0] == TOLD
    assert fake.target.values["cache"] == 128
    assert open_changes(fake.path / "state") == []


NOT_UNDONE = (TRIED, {"target": "db"}), (FAILED, {"error": "it did not start"})
STILL_THERE = (
    "may still hold what study='dead' has set; its tune could not be undone: .* did not help: it did not start"
)


@pytest.mark.slow
@pytest.mark.parametrize("begin", [_tune, _bench, _find_rate, _design])
def test_no_data_is_made_for_a_server_that_could_not_be_put_back(
    fake: FakeStudy, begin: Callable[[FakeStudy, list[str]], None]
) -> None:
    """It may take hours, and no change of that server is made."""
    said: list[str] = []
    _left_by_a_killed_tuner(fake, *NOT_UNDONE)
    with pytest.raises(TargetError, match=STILL_THERE):
        begin(fake, said)
    assert "the data is there already" not in [*said, *fake.listener.phases]
    with open_history_at(None, fake.path / "state") as history:
        assert history.summaries() == []


@pytest.mark.slow
def test_a_study_that_goes_on_does_not_take_what_was_left_for_another_config_of_the_users(fake: FakeStudy) -> None:
    def stop(trial: Trial) -> None:
        if trial.number == 2:
            os.kill(os.getpid(), signal.SIGINT)

    fake.listener.on_trial = stop
    fake.tune()
    _left_by_a_killed_tuner(fake, *NOT_UNDONE)
    with pytest.raises(TargetError, match=STILL_THERE):
        fake.tune()


@pytest.mark.slow
def test_nobody_is_asked_to_apply_over_it(fake: FakeStudy) -> None:
    record, _ = fake.tune()
    _left_by_a_killed_tuner(fake, *NOT_UNDONE)
    with pytest.raises(TargetError, match=STILL_THERE):
        apply_winner(record, _file(fake), fake.path / "state", agrees=lambda proposal: pytest.fail("it was shown"))


def test_who_only_reads_a_server_is_told_who_changes_it(fake: FakeStudy) -> None:
    state = fake.path / "state"
    with open_stage(_file(fake), state, changes=False) as stage:
        assert changed_by(stage.stack, state) == []
        entry = Journal(state).begin(fake.target.snapshot(), study="other", purpose="tune")
        (told,) = changed_by(stage.stack, state)
        assert told.startswith(f"study='other' (pid={os.getpid()}) is changing this server: ")
        entry.close("nothing was changed")
    _left_by_a_killed_tuner(fake)
    with open_stage(_file(fake), state, changes=False) as stage:
        (told,) = changed_by(stage.stack, state)
    assert told.startswith("a killed study='dead' has left this server changed: ")
    assert f"`trimtab recover --state {state}` restores it" in told
    assert fake.target.values["cache"] == 999


@pytest.mark.slow
def test_apply_takes_it_back_first_as_well(fake: FakeStudy) -> None:
    record, _ = fake.tune()
    said: list[str] = []
    _left_by_a_killed_tuner(fake)
    apply_winner(record, _file(fake), fake.path / "state", say=said.append)
    assert said == [TOLD]
    assert {name: fake.target.values[name] for name in record.verdict.config} == dict(record.verdict.config)


@pytest.mark.slow
def test_without_a_word_of_its_own_the_listener_is_told(fake: FakeStudy) -> None:
    fake.text = fake.text.replace("12 trials", "3 trials")
    _left_by_a_killed_tuner(fake)
    fake.tune()
    assert fake.listener.phases[0] == TOLD


def test_a_study_that_could_not_begin_does_not_stand_in_the_way_of_its_corrected_file(
    fake: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*arguments: object) -> None:
        raise LoadError("script='pay.sql' cannot be used", hint="correct it")

    fake.text = fake.text.replace("12 trials", "3 trials")
    with monkeypatch.context() as patch:
        patch.setattr(type(fake.workload), "prepare", refused)
        with pytest.raises(LoadError, match="cannot be used"):
            fake.tune()
    fake.text = fake.text.replace('name = "fake"', 'name = "fake"\nseed = 7')
    _, trials = fake.tune()
    assert trials


@pytest.mark.parametrize(
    ("kind", "n_private", "told"),
    [("tmpfs", 0, "tmpfs"), ("ramfs", 1, "ramfs"), ("ext4", 0, ""), ("tmpfs", 2, "")],
)
def test_a_state_directory_in_memory_is_told_where_a_server_outlives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, n_private: int, told: str
) -> None:
    """It need not be there yet. A private server is put back by its next study, without it."""
    mounts = {tmp_path: SimpleNamespace(kind=kind), tmp_path.parent: SimpleNamespace(kind="ext4")}
    monkeypatch.setattr("trimtab.study.first.mount_of", mounts.get)
    stack: Any = SimpleNamespace(tiers=["db", "web"], folders=(tmp_path,) * n_private)
    notes = lost_with_power(stack, tmp_path / "study" / ".trimtab")
    assert len(notes) == bool(told)
    assert all(f"study/.trimtab' lies in memory ({told}): a power cut or a reboot loses it" in note for note in notes)
    monkeypatch.setattr("trimtab.study.first.mount_of", lambda folder: None)
    assert lost_with_power(stack, tmp_path) == (), "nothing is known of it"


def test_a_study_tells_it_before_its_first_change(fake: FakeStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trimtab.study.first.mount_of", lambda folder: SimpleNamespace(kind="tmpfs"))
    fake.text = fake.text.replace("12 trials", "3 trials")

    def stop(text: str) -> None:
        if text == "preparing the data":
            raise LoadError("enough", hint="")

    fake.listener.on_phase = stop
    for begin in (fake.tune, lambda: _design(fake, [])):
        fake.listener.phases.clear()
        with pytest.raises(LoadError, match="enough"):
            begin()
        assert any("lies in memory (tmpfs)" in phase for phase in fake.listener.phases)
    assert fake.target.counts["apply"] == 0
