"""What a trial costs of the study's budget: what was spent for it, and no time in which nothing was done."""

from __future__ import annotations

import time
from importlib import import_module
from pathlib import Path

import pytest

from tests.hand_clock import HandClock
from tests.trial.test_pause import ended
from tests.trial.test_room import PLAN, Bench
from trimtab.errors import LoadError, TargetError
from trimtab.records import Fault, Role, Status, Trial
from trimtab.systems import Disturbance, Evidence
from trimtab.testing.fake_target import FakeTarget
from trimtab.testing.fake_workload import FakeRatedWorkload
from trimtab.trial.pause import unless_paused
from trimtab.workload import StartState


class Dying(FakeTarget):
    """Like a server that somebody has killed before the next trial; to bring it up takes a moment."""

    def evidence(self) -> Evidence:
        return Evidence()

    def disturbances(self) -> tuple[Disturbance, ...]:
        if not self.counts["restore"]:
            raise TargetError("connection refused")
        return ()

    def notes(self) -> tuple[str, ...]:
        return ()


def test_a_server_that_is_brought_up_before_a_trial_costs_that_time(tmp_path: Path) -> None:
    """It may have to replay its log for minutes, of which the budget would know nothing."""
    bench, said = Bench(tmp_path), list[str]()
    bench.target = Dying(slow_s=0.02)
    with bench.room(say=said.append) as room:
        trial = room.run(bench.baseline, number=0, role=Role.BASELINE, plan=PLAN, seed=7, hand_over=True)
    assert trial.status is Status.OK
    assert said[0] == "the target does not answer between two trials: connection refused; it is restored"
    assert trial.cost_s["other"] >= 0.02


def test_the_way_back_from_a_config_with_which_the_load_cannot_be_run_is_the_trials(tmp_path: Path) -> None:
    bench = Bench(tmp_path, slow_s=0.02)

    def full(second: int) -> None:
        if bench.target.values["cache"] == 256:
            raise LoadError("the load cannot connect: too many users")

    bench.workload.on_second = full
    trial = bench.run(cache=256)
    assert trial.status is Status.FAILED_LOAD
    assert trial.cost_s["restore"] >= 0.02


def test_fresh_data_is_paid_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also before the load is tried without the config that it could not be run with."""
    bench, clock = Bench(tmp_path), HandClock()
    workload = bench.workload = FakeRatedWorkload(bench.target.speed)
    for module in ("room", "runs", "start_state"):
        monkeypatch.setattr(import_module(f"trimtab.trial.{module}"), "time", clock)

    def reset(*arguments: object) -> StartState:
        clock.sleep(30.0)
        return StartState("copied", 30.0)

    def full(second: int) -> None:
        if bench.target.values["cache"] == 256:
            raise LoadError("the load cannot connect: too many users")

    monkeypatch.setattr(FakeRatedWorkload, "reset", reset)
    workload.on_second = full
    trial = bench.run(cache=256)
    assert trial.status is Status.FAILED_LOAD
    assert (trial.cost_s["reset"], trial.cost_s["failed"]) == (120.0, 0.0)


class SleepingClock(HandClock):
    """Of a machine that has slept for a while: of its clocks only that since its start has gone on."""

    CLOCK_BOOTTIME = time.CLOCK_BOOTTIME

    def __init__(self) -> None:
        super().__init__()
        self.asleep_s = 0.0

    def clock_gettime(self, clock: int) -> float:
        return self.now_s + (self.asleep_s if clock == self.CLOCK_BOOTTIME else 0.0)


@pytest.mark.parametrize(("slept_s", "stopped_s"), [(60.0, 0.0), (3600.0, 0.0), (0.0, 3600.0), (60.0, 60.0)])
def test_a_pause_costs_nothing(monkeypatch: pytest.MonkeyPatch, slept_s: float, stopped_s: float) -> None:
    """Neither by Ctrl-Z nor of a machine that sleeps, be it longer or shorter than the run."""
    clock, pauses = SleepingClock(), iter([0.0, slept_s + stopped_s, 0.0, 0.0])
    monkeypatch.setattr(import_module("trimtab.trial.pause"), "time", clock)

    class Watching:
        @staticmethod
        def paused_s() -> float:
            return next(pauses)

    def once() -> Trial:
        clock.sleep(100.0 + stopped_s)
        clock.asleep_s += slept_s
        return ended(Status.OK, Fault.NONE)

    trial = unless_paused(Watching(), once, resync=lambda: None, say=lambda text: None)  # type: ignore[arg-type]
    assert trial.cost_s == {"failed": 100.0}
