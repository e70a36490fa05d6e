"""Somebody asks to stop, by a signal or a file: no config is blamed for it, nothing is cut off, and what was done is told."""

from __future__ import annotations

import os
import signal
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.hand_clock import HandClock
from tests.trial.test_room import PLAN, Bench
from tests.trial.test_stack_follow import Following
from trimtab.errors import ApplyError, LoadError, RestoreError, UnavailableError
from trimtab.records import Role
from trimtab.study.recovery import recover
from trimtab.study.rollback_point import point_of
from trimtab.testing.fake_target import FakeTarget
from trimtab.testing.fake_workload import FakeRatedWorkload
from trimtab.trial import Entry, Interrupted, Journal, take_back


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Following:
    return Following.found_again(tmp_path, monkeypatch)


def asks_first(
    target: FakeTarget, method: str, monkeypatch: pytest.MonkeyPatch, number: signal.Signals = signal.SIGINT
) -> None:
    """The signal comes when a method of the target is called, before it does anything."""
    real = getattr(target, method)

    def called(*arguments: Any, **options: Any) -> Any:
        os.kill(os.getpid(), number)
        return real(*arguments, **options)

    monkeypatch.setattr(target, method, called)


def roll_back(stack: Following) -> None:
    point = point_of(stack.path, "s")
    assert point is not None
    take_back(point.snapshots, point.owns, study="s", state_dir=stack.path, file=point.path)


def test_no_config_is_blamed_before_the_load_was_tried_without_it(bench: Bench) -> None:
    asked: list[bool] = []

    def full(second: int) -> None:
        if bench.target.values["cache"] == 256:
            raise LoadError("the load cannot connect: too many users")
        asked.append(True)

    bench.workload.on_second = full
    with bench.room(is_interrupted=lambda: bool(asked)) as room, pytest.raises(Interrupted):
        room.run(bench.baseline.replace({"cache": 256}), number=0, role=Role.SEARCH, plan=PLAN, seed=7)
    assert dict(bench.target.values) == bench.found


def test_no_data_is_made_afresh_for_a_run_that_is_not_made(bench: Bench) -> None:
    workload = bench.workload = FakeRatedWorkload(lambda: 1000.0)
    asked: list[bool] = []

    def fault(second: int) -> None:
        asked.append(True)
        raise ConnectionError("reset by peer")

    workload.on_second = fault
    with bench.room(is_interrupted=lambda: bool(asked)) as room, pytest.raises(Interrupted):
        room.run(bench.baseline.replace({"cache": 256}), number=0, role=Role.SEARCH, plan=PLAN, seed=7)
    assert len(workload.resets) == 2, "before the run, and at the end"
    assert dict(bench.target.values) == bench.found


def test_the_stop_file_counts_while_a_tier_that_was_away_is_waited_for(
    stack: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module("trimtab.trial.follow"), "_AWAY_S", 0.5)

    def away() -> None:
        (stack.path / "stop").touch()
        raise UnavailableError("it answers 503")

    with stack.room() as room:
        stack.run(room, db__cache=256)
        stack.log.clear()
        monkeypatch.setattr(stack.targets["web"], "health", away)
        with pytest.raises(Interrupted, match="stopped by the kill switch"):
            stack.run(room, db__method="ring")
    assert stack.log == []


def test_so_it_does_while_one_is_waited_for_after_a_change(stack: Following, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what is stopped is the study: the reason names no tier."""
    clock = HandClock()
    monkeypatch.setattr(import_module("trimtab.trial.follow"), "time", clock)

    def away() -> None:
        (stack.path / "stop").touch()
        raise UnavailableError("it answers 503")

    monkeypatch.setattr(stack.targets["web"], "health", away)
    with stack.room() as room, pytest.raises(Interrupted, match="^stopped by the kill switch"):
        stack.run(room, db__cache=256)
    assert clock.now_s < 1.0
    assert stack.values() == stack.found


def test_no_other_tier_is_changed_then(stack: Following) -> None:
    """Each of them may take a minute to restart."""
    db = stack.targets["db"]
    apply = db.apply

    def changes(*arguments: Any, **options: Any) -> Any:
        (stack.path / "stop").touch()
        return apply(*arguments, **options)

    db.apply = changes  # type: ignore[method-assign]
    with stack.room() as room, pytest.raises(Interrupted, match="stopped by the kill switch"):
        stack.run(room, db__method="ring", app__method="ring")
    assert [line for line in stack.log if line.startswith("apply")] == ["apply db"]
    assert stack.values() == stack.found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_apply_that_was_finished_says_so(
    stack: Following, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    asks_first(stack.targets["db"], "apply", monkeypatch, number)
    with pytest.raises(Interrupted) as caught:
        stack.commit(db__method="ring")
    assert caught.value.message == "stopped by the user, when study='s' was applied already"
    assert caught.value.hint == "`trimtab rollback s` takes it back"
    assert stack.targets["db"].values["method"] == "ring"
    assert Journal(stack.path).open_entries() == []


def test_an_apply_that_failed_says_that(stack: Following, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        raise ApplyError("it does not take that")

    monkeypatch.setattr(stack.targets["db"], "apply", refuse)
    with pytest.raises(ApplyError, match="it does not take that"):
        stack.commit(db__method="ring")
    assert stack.values() == stack.found


def test_a_rollback_that_was_finished_says_so(stack: Following, monkeypatch: pytest.MonkeyPatch) -> None:
    stack.commit(db__method="ring")
    asks_first(stack.targets["db"], "restore", monkeypatch)
    with pytest.raises(Interrupted, match="^stopped by the user, when study='s' was rolled back already"):
        roll_back(stack)
    assert stack.values() == stack.found
    assert point_of(stack.path, "s") is None


def test_recover_finishes_what_it_has_begun(stack: Following, monkeypatch: pytest.MonkeyPatch) -> None:
    stack.commit(db__method="ring", app__method="ring")
    with monkeypatch.context() as patch:
        patch.setattr(stack.targets["db"], "_fail_restore", 1)
        with pytest.raises(RestoreError):
            roll_back(stack)
    monkeypatch.setattr(Entry, "is_owner_alive", property(lambda entry: False))
    asks_first(stack.targets["db"], "restore", monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        recover(stack.path)
    assert stack.values() == stack.found
