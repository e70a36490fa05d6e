"""What a running study does is seen by others, who may ask it to stop; nothing of that disturbs it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fakes import FakeStudy, Silent
from trimtab.host import process_mark
from trimtab.records import Trial
from trimtab.study import ask_to_stop, recover, running_now
from trimtab.study.now import shown_now
from trimtab.workload import Frame


@pytest.mark.slow
def test_others_see_what_a_study_does_and_may_stop_it(fake: FakeStudy) -> None:
    state, seen = fake.path / "state", []

    def look(trial: Trial) -> None:
        seen.append(running_now(state))
        if trial.number == 4:
            assert not ask_to_stop(state, 1, "another"), "of another history, with the same id"
            assert not ask_to_stop(state, 1, "fake", 5.0), "of another history, with the same id and name"
            assert ask_to_stop(state, 1, "fake")

    fake.listener.on_trial = look
    assert not ask_to_stop(state, 1, "fake")
    record, trials = fake.tune()
    assert record.status == "interrupted"
    assert len(trials) == 5
    (now,) = seen[-1].values()
    assert (now["name"], now["created_at"], now["trial"]) == ("fake", record.created_at, None)
    assert len(now["seconds"]) >= 5
    assert all(len(second) == 7 and second[1] > 0 for second in now["seconds"])
    assert not list((state / "now").iterdir()), "nothing runs any more"
    assert (state / "now").stat().st_mode & 0o777 == 0o700
    (state / "now" / f"1-{os.getpid()}.stop").touch()  # one that came too late is not for the next run
    fake.listener.on_trial = lambda trial: None
    assert fake.tune()[0].status == "proven"


@pytest.mark.slow  # in make check: test_others_see_what_a_study_does_and_may_stop_it
@pytest.mark.usefixtures("ablated")
def test_a_trial_is_named_while_it_runs(fake: FakeStudy) -> None:
    seen: list[Any] = []
    fake.listener.step = lambda name: seen.extend(running_now(fake.path / "state").values())  # type: ignore[method-assign]
    fake.text = fake.text.replace("12 trials", "3 trials")
    fake.tune()
    trials = [now["trial"] for now in seen if now["trial"] is not None]
    assert {trial["role"] for trial in trials} >= {"baseline", "search"}
    assert any(trial["changed"] for trial in trials)
    assert {now["step"] for now in seen} >= {"load"}
    shown = seen[-1]["seconds"]
    assert len(shown) == 120, "the last two minutes"
    assert [second[0] for second in shown] == sorted(second[0] for second in shown)


def test_what_a_dead_process_has_left_is_not_taken_for_running(fake: FakeStudy) -> None:
    folder = fake.path / "state" / "now"
    folder.mkdir(parents=True)
    said = {"study_id": 1, "name": "fake", "created_at": 1.0, "pid": os.getpid(), "mark": "another process"}
    (folder / "1.json").write_text(json.dumps(said))
    (folder / "2.json").write_text("{")
    (folder / "3.json").write_text("[]")
    assert running_now(fake.path / "state") == {}
    assert not ask_to_stop(fake.path / "state", 1, "fake")
    said |= {"study_id": 4, "mark": process_mark(os.getpid())}
    (folder / "4.json").write_text(json.dumps(said))
    (folder / "1.new").touch()
    recover(fake.path / "state")
    assert [path.name for path in folder.iterdir()] == ["4.json"], "what runs is left alone"


def test_a_disk_that_refuses_does_not_disturb(fake: FakeStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = os.replace

    def full(source: Any, goal: Any) -> None:
        if str(source).endswith(".new"):
            raise OSError(28, "No space left on device")
        replace(source, goal)

    monkeypatch.setattr("trimtab.study.now.os.replace", full)
    fake.text = fake.text.replace("12 trials", "3 trials")
    left: list[str] = []
    folder = fake.path / "state" / "now"
    fake.listener.on_trial = lambda trial: left.extend(path.name for path in folder.iterdir())
    assert fake.tune()[0].status in ("proven", "no_improvement")
    assert not left, "half of a file was left"


@pytest.mark.parametrize(("apart_s", "n_shown"), [(0.0, 3), (3600.0, 1)])
def test_seconds_that_come_at_once_are_shown_with_what_comes_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, apart_s: float, n_shown: int
) -> None:
    monkeypatch.setattr("trimtab.study.now._APART_S", apart_s)
    record: Any = SimpleNamespace(id=1, name="s", created_at=1.0)
    listener: Any = Silent()
    with shown_now(tmp_path, record, listener, lambda: False) as (now, _):
        for second in range(3):
            now.second(Frame(second, 10, 0, 10.0))
        assert len(running_now(tmp_path)[1]["seconds"]) == n_shown
        now.step("restore")
        assert len(running_now(tmp_path)[1]["seconds"]) == 3
