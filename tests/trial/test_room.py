"""TrialRoom: the order of the steps, a status for everything a config can do, and the target always as it was found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trimtab.errors import ForeignChangeError, LoadError, RestoreError
from trimtab.records import Endpoint, Objective, Role, Status, Trial
from trimtab.space import Config, Space
from trimtab.systems import Stack
from trimtab.testing.fake_target import FakeTarget
from trimtab.testing.fake_workload import FakeRatedWorkload, FakeWorkload
from trimtab.trial import Interrupted, Journal, MeasurePlan, TrialRoom
from trimtab.workload import Frame, StartState

PLAN = MeasurePlan(window_s=5, window_max_s=5, warmup_floor_s=0, warmup_cap_s=10)
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
    def room(self, **options: Any) -> Iterator[TrialRoom]:
        with TrialRoom(
            Stack.of(self.target),
            self.workload,
            self.space,
            self.baseline,
            **{
                "objective": Objective.parse("throughput where throughput >= 10"),
                "state_dir": self.path,
                "study": "test",
                "listener": Steps(self.target),
                **options,
            },
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


def test_load_that_ends_by_itself_without_an_error_teaches_nothing(bench: Bench) -> None:
    bench.workload.dies_after_s = 4
    trial = bench.run(cache=256, hand_over=True)
    assert (trial.status, trial.measurement) == (Status.INFRASTRUCTURE, None)
    assert trial.reason == (
        "the load ended by itself before its window was complete, without an error: its operations had run out, or the "
        "load engine died"
    )
    assert len(bench.workload.seeds) == 2
    assert not trial.status.is_config_fault
    assert dict(bench.target.values) == bench.found


def test_load_that_ends_by_itself_with_errors_failed(bench: Bench) -> None:
    bench.workload.dies_after_s = 4
    bench.workload.error_share = 0.1
    trial = bench.run(cache=256)
    assert trial.status is Status.FAILED_LOAD
    assert trial.reason == (
        "the load ended by itself before its window was complete, first error: op: 40001 made to fail"
    )


@pytest.fixture
def rated(bench: Bench) -> FakeRatedWorkload:
    """In place of the bench's workload: short operations, 1000/s at most, no noise."""
    workload = FakeRatedWorkload(lambda: 1000.0, noise_sd=0.0)
    bench.workload = workload
    return workload


def test_short_operations_are_measured(bench: Bench, rated: FakeRatedWorkload) -> None:
    trial = bench.run(cache=256)
    assert (trial.status, trial.reason) == (Status.OK, "")
    m = trial.measurement
    assert m is not None
    assert m.throughput.estimate == pytest.approx(900)
    # M/M/1 with 100/s to spare: p99 = ln(100) / 100 s.
    assert m.latency_ms["p99"].estimate == pytest.approx(46.0, rel=0.02)
    assert {name: stats.n_ok for name, stats in m.by_label.items()} == {"read": 4050, "update": 450}


def test_every_run_begins_with_a_reset_that_is_told_once(bench: Bench, rated: FakeRatedWorkload) -> None:
    said: list[str] = []
    with bench.room(say=said.append) as room:
        for _ in range(2):
            trial = _run(room, bench.baseline.replace({"cache": 256}))
    assert rated.resets[-1] == "clean"
    assert len(rated.resets) == 3
    assert "reset" in trial.cost_s
    assert said == ["every run starts from the same data: made afresh, 250ms before each run (a fake)"]


def test_data_that_cannot_be_removed_is_told(bench: Bench, rated: FakeRatedWorkload) -> None:
    class Sticky(FakeRatedWorkload):
        def clean_up(self, endpoint: Endpoint) -> None:
            raise LoadError("cannot drop the copy")

    bench.workload = Sticky(lambda: 1000.0)
    said: list[str] = []
    with bench.room(say=said.append) as room:
        _run(room, bench.baseline)
    assert said[-1] == "the data of the last run is still on the server: cannot drop the copy"


def test_nothing_to_reset_is_not_told(bench: Bench, rated: FakeRatedWorkload) -> None:
    rated.writes = False
    said: list[str] = []
    with bench.room(say=said.append) as room:
        trial = _run(room, bench.baseline)
    assert (said, rated.resets) == ([], [])
    assert "reset" not in trial.cost_s


def test_a_reset_that_fails_is_retried_and_then_stops_the_study(bench: Bench, rated: FakeRatedWorkload) -> None:
    class Broken(FakeRatedWorkload):
        def reset(self, endpoint: Endpoint, report: Callable[[str], None]) -> StartState | None:
            self.resets.append("")
            raise LoadError("cannot copy the database")

    bench.workload = broken = Broken(lambda: 1000.0)
    with pytest.raises(LoadError, match="although the target is well: cannot copy the database"):
        bench.run(cache=256)
    assert len(broken.resets) == 4, "three times with the config, and once with the settings as found"
    assert dict(bench.target.values) == bench.found


def test_a_generator_that_was_the_bottleneck_is_no_score_and_teaches_nothing(
    bench: Bench, rated: FakeRatedWorkload
) -> None:
    rated.log_changes["client_cpu_s"] = np.full(5, 0.9)
    trial = bench.run(cache=256)
    assert (trial.status, trial.measurement) == (Status.INFRASTRUCTURE, None)
    assert trial.reason == "invalid run: the load generator used 90 % of its core (limit 80 %)"
    assert len(rated.seeds) == 2
    assert "failed" in trial.cost_s


def test_one_wrong_answer_fails_the_load(bench: Bench, rated: FakeRatedWorkload) -> None:
    rated.error_share, rated.error_class = 0.0012, "validation"
    trial = bench.run(cache=256)
    assert trial.status is Status.FAILED_LOAD
    assert trial.reason == (
        "5 answers of the server were wrong (validation 5), first error: read: made to fail (validation)"
    )


def test_reason_has_error_classes_and_the_first_texts(bench: Bench, rated: FakeRatedWorkload) -> None:
    rated.error_share = 0.2
    rated.log_changes |= {"error_classes": {"timeout": 3, "serialization": 40}, "errors": ("a", "b", "a", "c", "d")}
    trial = bench.run(cache=256)
    assert trial.status is Status.FAILED_LOAD
    assert trial.reason == "error_rate=20.0 % (serialization 40, timeout 3), first errors: a | b | c"


def test_clients_that_were_thrown_out_bring_the_servers_log(bench: Bench, rated: FakeRatedWorkload) -> None:
    rated.error_share, rated.error_class = 0.2, "connect"
    bench.target.log_excerpt = lambda n_lines=20: "LOG: terminating any other active server processes"  # type: ignore[method-assign]
    trial = bench.run(cache=256)
    assert trial.status is Status.FAILED_LOAD
    assert trial.reason.endswith(
        "first error: read: made to fail (connect)\nLOG: terminating any other active server processes"
    )


@pytest.mark.parametrize(
    ("objective", "status"),
    [
        ("throughput", Status.OK),
        ("latency_p99", Status.FAILED_LOAD),
        ("throughput where p99 <= 20 ms", Status.FAILED_LOAD),
        ("throughput where throughput >= 10", Status.OK),
    ],
)
def test_overload_fails_when_latency_counts(
    bench: Bench, rated: FakeRatedWorkload, objective: str, status: Status
) -> None:
    bench.workload = rated.with_rate(2000)
    with bench.room(objective=Objective.parse(objective)) as room:
        trial = _run(room, bench.baseline)
    assert trial.status is status
    if status is Status.FAILED_LOAD:
        assert trial.reason == (
            "overloaded: 50.0 % of the requests were dropped (limit 0.1 %); throughput=1,000/s of offered=2,000/s, "
            "so that latencies grow without bound"
        )
    else:
        assert trial.measurement is not None
        assert trial.measurement.throughput.estimate == pytest.approx(1000)


def test_latency_objective_in_an_open_loop_that_is_kept_up_with(bench: Bench, rated: FakeRatedWorkload) -> None:
    bench.workload = rated.with_rate(500)
    objective = Objective.parse("latency_p99")
    with bench.room(objective=objective) as room:
        trial = _run(room, bench.baseline)
    assert trial.measurement is not None
    assert objective.value(trial.measurement).estimate == pytest.approx(9.21, rel=0.03)


def test_another_workload_from_here_on(bench: Bench, rated: FakeRatedWorkload) -> None:
    with bench.room() as room:
        room.use(rated.with_rate(100))
        trial = _run(room, bench.baseline)
    assert trial.measurement is not None
    assert (trial.measurement.is_open, trial.measurement.offered_per_s) == (True, 100.0)


def test_missed_constraint_of_the_objective_is_an_excess(tmp_path: Path) -> None:
    bench = Bench(tmp_path, speed=lambda values: 8.0)
    bench.workload.noise_sd = 0.0
    trial = bench.run(cache=256)
    assert trial.status is Status.OK
    assert trial.excess == pytest.approx(0.2, abs=0.01)
    assert not trial.is_feasible


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
    assert entry.snapshots[0].values == bench.found


def test_what_somebody_else_has_set_by_the_end_is_told_and_leaves_nothing_open(bench: Bench) -> None:
    """What the next command finds open, it takes for that of a killed study."""

    def run() -> None:
        with bench.room() as room:
            _run(room, bench.baseline.replace({"cache": 256, "sort_memory": 8}), hand_over=True)
            bench.target.disk.running["sort_memory"] = 99

    with pytest.raises(ForeignChangeError, match="sort_memory=99: somebody else has set it"):
        run()
    assert dict(bench.target.values) == {**bench.found, "sort_memory": 99}
    assert Journal(bench.path).open_entries() == []


def test_baseline_is_run_as_found_without_setting_anything(tmp_path: Path) -> None:
    bench = Bench(tmp_path, reject_when=lambda values: True)
    trial = bench.run()
    assert trial.status is Status.OK
    assert trial.effective == {}


def test_same_seed_for_every_trial(bench: Bench) -> None:
    bench.run(cache=256)
    bench.run(cache=512)
    assert bench.workload.seeds == [7, 7]


@pytest.mark.parametrize("is_restored", [True, False])
def test_the_copy_of_the_data_goes_even_when_the_target_cannot_be_restored(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, is_restored: bool
) -> None:
    workload = bench.workload = FakeRatedWorkload(bench.target.speed)

    def refuse(*_: object, **__: object) -> None:
        raise RestoreError("it was changed by another program", hint="look")

    def run() -> None:
        with bench.room() as trials:
            _run(trials, bench.baseline)
            if not is_restored:
                monkeypatch.setattr(trials, "restore", refuse)

    if is_restored:
        run()
    else:
        with pytest.raises(RestoreError, match="changed by another program"):
            run()
    assert workload.resets[-1] == "clean"


@pytest.mark.parametrize("is_fresh", [True, False])
def test_a_start_state_that_makes_no_data_anew_leaves_the_server_warm(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, is_fresh: bool
) -> None:
    """ "rollback", or inverse operations that found nothing to take back."""
    state, seen = StartState("rolled back", 0.0, is_fresh=is_fresh), list[str]()
    workload = bench.workload = FakeRatedWorkload(bench.target.speed)
    monkeypatch.setattr(type(workload), "reset", lambda *_: state)
    with bench.room() as trials:
        monkeypatch.setattr(trials._runs.warmth, "has_fresh_data", lambda: seen.append("fresh"))
        _run(trials, bench.baseline)
    assert seen == (["fresh"] if is_fresh else [])
