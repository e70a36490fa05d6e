"""A run from which the hypervisor took much more than from others is made again, twice at most, and only where it would be
believed; what is taken all the same makes the result less certain."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.trial.test_room import Bench
from trimtab.measure import Interval, Measurement
from trimtab.records import Role, Status
from trimtab.trial import MeasurePlan, runs
from trimtab.trial.stolen import StolenTime, _taken_s

PLAN = MeasurePlan(window_s=5, window_max_s=5, warmup_floor_s=0, warmup_cap_s=10)


SHARP = Measurement(
    window_s=(0.0, 10.0), throughput=Interval(100.0, 99.0, 101.0, se=0.5), latency_mean_ms=Interval(1.0, 0.9, 1.1, se=0.05),
    latency_ms={"p99": Interval(5.0, 4.0, 9.0, se=1.0)}, n_ok=1000, n_error=0, n_timed_out=0, is_steady=True, warmup_s=0.0,
    series_per_s=(100.0,) * 10,
)  # fmt: skip


class Clock:
    """Seconds that pass only in sleep, and what a hypervisor has taken until each of them on two cores."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *taken_s: float | None) -> None:
        self.taken_s, self.slept = list(taken_s), 0
        monkeypatch.setattr("trimtab.trial.stolen.time.sleep", self._sleep)
        monkeypatch.setattr(
            "trimtab.trial.stolen._taken_s", lambda: self.taken_s[min(self.slept, len(self.taken_s) - 1)]
        )

    def _sleep(self, seconds: float) -> None:
        self.slept += 1


@pytest.fixture(autouse=True)
def calm(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch, 0.0)


def result(share: float | None, **others: Any) -> Any:
    """What a run on two cores showed."""
    steal = None if share is None else 2 * share
    return SimpleNamespace(
        **{"breach": None, "measurement": SimpleNamespace(steal_share=steal, generators=()), **others}
    )


TAKEN_S = _taken_s


def test_a_run_of_which_much_was_stolen_is_made_again_twice_at_most() -> None:
    said: list[str] = []
    stolen = StolenTime(said.append, n_cores=2)
    assert not any(stolen.spoils(Status.OK, result(0.01)) for _ in range(4))
    assert stolen.spoils(Status.OK, result(0.18))
    assert said == ["the hypervisor took 18 % of this machine's CPU from the run: it is repeated"]
    assert stolen.spoils(Status.OK, result(0.3))
    assert not stolen.spoils(Status.OK, result(0.3)), "the third run of a trial stands"
    assert stolen.spoils(Status.STOPPED_EARLY, result(0.3)), "that of the next trial does not"


def test_where_much_is_always_stolen_another_run_would_be_no_better() -> None:
    stolen = StolenTime(lambda text: None, n_cores=2)
    assert [stolen.spoils(Status.OK, result(share)) for share in (0.2, 0.2, 0.2, 0.25, 0.45)] == [
        True, False, False, False, True,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("status", "run"),
    [
        (Status.CRASHED, result(0.5)),
        (Status.FAILED_LOAD, result(0.5)),
        (Status.OK, result(0.5, breach=object())),
        (Status.OK, result(None)),
        (Status.OK, result(0.5, measurement=None)),
        (Status.OK, result(0.5, measurement=SimpleNamespace(steal_share=1.0, generators=("far",)))),
    ],
)
def test_what_is_no_measurement_of_this_machine_is_not_judged(status: Status, run: Any) -> None:
    assert not StolenTime(lambda text: None, n_cores=2).spoils(status, run)


def test_the_trial_has_the_run_that_was_not_disturbed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench, said, shares, throughputs = Bench(tmp_path), list[str](), [0.9, 0.0], list[float]()
    measure = runs.measure_load

    def disturbed(*arguments: Any, **options: Any) -> Any:
        found = measure(*arguments, **options)
        assert found.measurement is not None
        throughputs.append(found.measurement.throughput.estimate)
        return replace(found, measurement=replace(found.measurement, steal_share=shares.pop(0)))

    monkeypatch.setattr(runs, "measure_load", disturbed)
    monkeypatch.setattr("trimtab.trial.stolen.os.cpu_count", lambda: 2)
    with bench.room(say=said.append) as room:
        trial = room.run(bench.baseline.replace({"cache": 256}), number=0, role=Role.SEARCH, seed=1, plan=PLAN)
    assert trial.measurement is not None
    assert trial.measurement.throughput.estimate == throughputs[1] != throughputs[0]
    assert "failed" in trial.cost_s, "the first run counts for nothing"
    assert said == ["the hypervisor took 45 % of this machine's CPU from the run: it is repeated"]


def test_it_waits_until_little_has_been_taken_for_three_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, 0.0, 0.9, 1.8, 1.81, 1.82, 2.4, 2.41, 2.42, 2.43, 2.44)
    StolenTime(lambda text: None, n_cores=2).spoils(Status.OK, result(0.5))
    assert clock.slept == 8


@pytest.mark.parametrize(
    ("is_stopped", "taken_s", "slept"),
    [(False, [0.9 * i for i in range(99)], 60), (True, [0.0], 0), (False, [None], 0)],
)
def test_it_does_not_wait_for_ever(
    monkeypatch: pytest.MonkeyPatch, is_stopped: bool, taken_s: list[float | None], slept: int
) -> None:
    clock = Clock(monkeypatch, *taken_s)
    StolenTime(lambda text: None, lambda: is_stopped, n_cores=2).spoils(Status.OK, result(0.5))
    assert clock.slept == slept


def test_the_real_steal_time_of_this_machine_can_be_read() -> None:
    assert (stolen_s := TAKEN_S()) is not None
    assert 0 <= stolen_s <= time.clock_gettime(time.CLOCK_BOOTTIME) * (os.cpu_count() or 1)


def test_what_is_taken_all_the_same_makes_the_result_less_certain() -> None:
    stolen = StolenTime(lambda text: None, n_cores=2)
    for share in (0.0, 0.02, 0.04, 0.5, 0.5, 0.5):
        stolen.spoils(Status.OK, result(share))
    found = stolen.widened(replace(SHARP, steal_share=1.0))
    assert found is not None
    assert found.throughput.estimate == 100
    assert found.throughput.se == pytest.approx(46, abs=1)
    assert 0 <= found.throughput.low < 20 < 180 < found.throughput.high
    assert found.latency_mean_ms.high > 1.3 * SHARP.latency_mean_ms.estimate
    assert found.latency_ms["p99"].low >= 0


@pytest.mark.parametrize(
    "changes", [{"steal_share": 0.08}, {"steal_share": None}, {"steal_share": 1.0, "generators": ("far",)}]
)
def test_little_that_is_taken_changes_nothing(changes: dict[str, Any]) -> None:
    stolen = StolenTime(lambda text: None, n_cores=2)
    for share in (0.0, 0.02, 0.04):
        stolen.spoils(Status.OK, result(share))
    found = replace(SHARP, **changes)
    assert stolen.widened(found) == found
    assert stolen.widened(None) is None
