"""Runs that measured the load generator, in a whole study: never a score, never a lesson, and no reason to lose a winner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from tests.fakes import FakeStudy
from trimtab.errors import LoadError
from trimtab.records import Endpoint, Role, Status, Trial
from trimtab.testing.fake_workload import FakeRatedRun, FakeRatedWorkload

pytestmark = pytest.mark.slow


@dataclass(slots=True)
class BusyAtTimes(FakeRatedWorkload):
    """The next `n_bad` runs are those of a generator without a free core."""

    n_bad: int = 0

    def start(self, endpoint: Endpoint, *, seed: int, duration_s: float) -> FakeRatedRun:
        run = FakeRatedWorkload.start(self, endpoint, seed=seed, duration_s=duration_s)
        if self.n_bad:
            self.n_bad -= 1
            run.capacity_per_s = round(run.capacity_per_s)
            run.log_changes = {"n_threads": 1, "memory_bytes": 0, "client_cpu_s": _Full(0.95)}
        return run


class _Full:
    """A column as long as the others, whatever their length is."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __len__(self) -> int:
        return 7

    def __getitem__(self, where: slice) -> np.ndarray:
        return np.full(where.stop - where.start, self.value)


def test_a_busy_generator_in_the_search_is_said(fake: FakeStudy) -> None:
    fake.workload = busy = BusyAtTimes(fake.target.speed)
    fake.listener.on_trial = lambda trial: setattr(busy, "n_bad", 2 if trial.number == 3 else busy.n_bad)
    _, trials = fake.tune()
    assert trials[4].status is Status.INFRASTRUCTURE
    assert (
        "trial 4: invalid run: the load generator used 95 % of its core (limit 80 %); it counts in the budget, and teaches the "
        "searcher nothing" in fake.listener.phases
    )


def test_a_busy_generator_in_the_proof_costs_time_and_no_winner(fake: FakeStudy) -> None:
    fake.workload = busy = BusyAtTimes(fake.target.speed)

    def on_trial(trial: Trial) -> None:
        if trial.role is Role.PROOF_BASELINE and not any(
            t.status is Status.INFRASTRUCTURE for t in fake.listener.ended
        ):
            busy.n_bad = 2  # the run and its repeat

    fake.listener.on_trial = on_trial
    record, trials = fake.tune()
    assert record.status == "proven"
    invalid = [trial for trial in trials if trial.status is Status.INFRASTRUCTURE]
    assert len(invalid) == 1
    assert invalid[0].measurement is None
    assert invalid[0].reason == "invalid run: the load generator used 95 % of its core (limit 80 %)"
    after = trials[trials.index(invalid[0]) + 1]
    assert (after.role, after.config, after.status) == (invalid[0].role, invalid[0].config, Status.OK)


def test_a_study_whose_generator_is_too_small_says_so(fake: FakeStudy) -> None:
    fake.workload = BusyAtTimes(fake.target.speed, n_bad=99)
    with pytest.raises(LoadError) as raised:
        fake.tune()
    assert raised.value.message == (
        "the baseline itself cannot be measured: infrastructure: invalid run: "
        "the load generator used 95 % of its core (limit 80 %)"
    )
    assert (
        raised.value.hint
        == "lower the load, or give the generator `threads`, free cores or real-time priority; `trimtab bench` shows it"
    )


def test_the_start_state_is_told_once(fake: FakeStudy) -> None:
    fake.workload = FakeRatedWorkload(fake.target.speed)
    _, trials = fake.tune()
    told = [
        text for text in fake.listener.phases if text.startswith("every run starts from the same data: made afresh")
    ]
    assert len(told) == 1
    assert all("reset" in trial.cost_s for trial in trials if trial.status is Status.OK)
