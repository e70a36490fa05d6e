"""TrialRoom: the order of the steps, a status for everything a config can do, and the target always as it was found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from trimtab.errors import LoadError, RestoreError
from trimtab.records import Objective, Role, Status, Trial
from trimtab.space import Config, Space
from trimtab.testing.fake_target import FakeTarget
from trimtab.testing.fake_workload import FakeWorkload
from trimtab.trial import Interrupted, Journal, MeasurePlan, TrialRoom
from trimtab.workload import Frame

PLAN = MeasurePlan(window_s=5, window_max_s=5, warmup_floor_s=2, warmup_cap_s=10)
NAMES = ("cache", "sort_memory", "page_cost", "workers", "compile", "method")


class Steps:
    """Writes down what the room says beside what the target is asked to do."""

    def __init__(self, target: FakeTarget) -> None:
        self.target = target

    def step(self, name: str) -> None:
        self.target.calls.append(f"({name})")

    def second(self, frame: Frame) -> None:
        if self.target.calls[-1] != "(second)":
            self.target.calls.append("(second)")


class Bench:
    """A target, a workload, and the room between them."""

    def __init__(self, path: Path, **target: Any) -> None:
        self.path = path
        self.target = FakeTarget(**target)
        self.workload = FakeWorkload(self.target.speed)
        states = self.target.states()
        self.baseline = Config({name: states[name].running for name in NAMES})
        constraints = self.target.constraints(NAMES, self.workload.context)
        self.space = Space([states[name].knob for name in NAMES], constraints)
        self.found = dict(self.target.values)

    @contextmanager
    def room(self, is_interrupted: Callable[[], bool] = lambda: False) -> Iterator[TrialRoom]:
        with TrialRoom(
            self.target,
            self.workload,
            self.space,
            self.baseline,
            objective=Objective.parse("throughput where throughput >= 10"),
            state_dir=self.path,
            study="test",
            listener=Steps(self.target),
            is_interrupted=is_interrupted,
        ) as room:
            yield room

    def run(self, hand_over: bool = False, **changes: Any) -> Trial:
        with self.room() as room:
            return _run(room, self.baseline.replace(changes), hand_over=hand_over)


def _run(room: TrialRoom, config: Config, **options: Any) -> Trial:
    return room.run(config, number=0, role=Role.SEARCH, plan=PLAN, seed=7, **options)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_steps_come_in_their_order(bench: Bench) -> None:
    bench.target.calls.clear()
    trial = bench.run(cache=256)
    assert trial.status is Status.OK
    assert bench.target.calls == [
        "snapshot", "(check)", "preflight", "(apply)", "apply", "(load)", "(second)", "health", "(restore)", "restore",
    ]  # fmt: skip
    assert set(trial.cost_s) == {"preflight", "apply", "warmup", "measure", "other", "restore"}


def test_measurement_is_what_the_target_gives(bench: Bench) -> None:
    trial = bench.run(cache=256)
    expected = FakeTarget(speed=None)
    expected.disk.running["cache"] = 256
    assert trial.measurement is not None
    assert trial.measurement.throughput.estimate == pytest.approx(expected.speed(), rel=0.05)
    assert trial.effective["cache"] == 256


def test_journal_is_open_while_the_target_is_changed_and_closed_after(bench: Bench) -> None:
    seen = []
    bench.workload.on_second = lambda second: seen.append(len(Journal(bench.path).open_entries()))
    bench.run(cache=256)
    assert set(seen) == {1}
    assert Journal(bench.path).open_entries() == []


def test_target_is_as_found_after_every_ending(bench: Bench) -> None:
    bench.run(cache=256, method="ring")
    assert dict(bench.target.values) == bench.found


def test_hand_over_keeps_the_config_until_the_room_is_left(bench: Bench) -> None:
    with bench.room() as room:
        _run(room, bench.baseline.replace({"cache": 256}), hand_over=True)
        assert bench.target.values["cache"] == 256
        _run(room, bench.baseline.replace({"sort_memory": 8}), hand_over=True)
        assert (bench.target.values["cache"], bench.target.values["sort_memory"]) == (128, 8)
    assert bench.target.counts["restore"] == 1
    assert dict(bench.target.values) == bench.found


def test_infeasible_config_never_reaches_the_target(bench: Bench) -> None:
    trial = bench.run(cache=900, sort_memory=64)
    assert trial.status is Status.INFEASIBLE
    assert "memory budget" in trial.reason
    assert bench.target.counts["preflight"] == bench.target.counts["apply"] == 0


def test_rejected_by_preflight_changes_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path, reject_when=lambda values: values["cache"] == 256)
    trial = bench.run(cache=256)
    assert (trial.status, trial.measurement) == (Status.REJECTED, None)
    assert "rejects" in trial.reason
    assert bench.target.counts["apply"] == 0


def test_crash_has_the_servers_own_words_and_is_undone(tmp_path: Path) -> None:
    bench = Bench(tmp_path, crash_when=lambda values: values["cache"] == 256)
    trial = bench.run(cache=256, hand_over=True)
    assert trial.status is Status.CRASHED
    assert "FATAL: cannot run with {'cache': 256}" in trial.reason
    assert dict(bench.target.values) == bench.found


def test_server_that_dies_under_load_crashed(tmp_path: Path) -> None:
    bench = Bench(tmp_path, dies_when=lambda values: values["cache"] == 256)
    trial = bench.run(cache=256, hand_over=True)
    assert trial.status is Status.CRASHED
    assert "the fake server is down" in trial.reason
    assert bench.target.disk.is_up


def test_failing_operations_are_no_throughput(bench: Bench) -> None:
    bench.workload.error_share = 0.2
    trial = bench.run(cache=256)
    assert (trial.status, trial.measurement) == (Status.FAILED_LOAD, None)
    assert trial.reason.startswith("error_rate=2")
    assert trial.reason.endswith("%, first error: op: 40001 made to fail")


def test_load_that_ends_by_itself_failed(bench: Bench) -> None:
    bench.workload.dies_after_s = 4
    trial = bench.run(cache=256)
    assert trial.status is Status.FAILED_LOAD
    assert trial.reason == "the load ended by itself before its window was complete"


def test_missed_constraint_of_the_objective_is_an_excess(tmp_path: Path) -> None:
    bench = Bench(tmp_path, speed=lambda values: 8.0)
    bench.workload.noise_sd = 0.0
    trial = bench.run(cache=256)
    assert trial.status is Status.OK
    assert trial.excess == pytest.approx(0.2, abs=0.01)
    assert not trial.is_feasible


def test_infrastructure_fault_is_retried(bench: Bench) -> None:
    faults = iter([ConnectionError("reset by peer"), None, None])

    def fault(second: int) -> None:
        if second == 1 and (error := next(faults)) is not None:
            raise error

    bench.workload.on_second = fault
    trial = bench.run(cache=256)
    assert trial.status is Status.OK
    assert "failed" in trial.cost_s


def test_infrastructure_fault_that_stays_stops_the_study_with_the_target_restored(bench: Bench) -> None:
    def fault(second: int) -> None:
        raise ConnectionError("reset by peer")

    bench.workload.on_second = fault
    with pytest.raises(LoadError, match="the load cannot be run although the target is well: reset by peer"):
        bench.run(cache=256)
    assert dict(bench.target.values) == bench.found
    assert Journal(bench.path).open_entries() == []


def test_interrupted_trial_is_no_result_and_undone(bench: Bench) -> None:
    with bench.room(is_interrupted=lambda: True) as room, pytest.raises(Interrupted):
        _run(room, bench.baseline.replace({"cache": 256}))
    assert dict(bench.target.values) == bench.found


def test_bug_in_the_middle_restores_too(bench: Bench) -> None:
    def bug(second: int) -> None:
        raise ZeroDivisionError

    bench.workload.on_second = bug
    with pytest.raises(ZeroDivisionError):
        bench.run(cache=256)
    assert dict(bench.target.values) == bench.found


def test_failed_restore_leaves_the_journal_open_for_recover(tmp_path: Path) -> None:
    bench = Bench(tmp_path, fail_restore=2)
    with pytest.raises(RestoreError):
        bench.run(cache=256)
    (entry,) = Journal(tmp_path).open_entries()
    assert entry.snapshot.values == bench.found


def test_baseline_is_run_as_found_without_setting_anything(tmp_path: Path) -> None:
    bench = Bench(tmp_path, reject_when=lambda values: True)
    trial = bench.run()
    assert trial.status is Status.OK
    assert trial.effective == {}


def test_same_seed_for_every_trial(bench: Bench) -> None:
    bench.run(cache=256)
    bench.run(cache=512)
    assert bench.workload.seeds == [7, 7]
