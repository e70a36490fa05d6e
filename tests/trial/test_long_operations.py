"""Loads of few long operations: seconds in which none ended are no evidence against a config."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from trimtab.measure import EarlyStop, Interval, Outcome, QueryLog
from trimtab.records import Context, Endpoint
from trimtab.testing.fake_target import FakeTarget
from trimtab.trial import End, GuardLimits, Guardrails, MeasurePlan, Yardstick, measure_load
from trimtab.trial.pace import Pace
from trimtab.trial.watch import Watch
from trimtab.workload import Frame, Preparation

PLAN = MeasurePlan(window_s=30, window_max_s=30, warmup_floor_s=2, warmup_cap_s=15)


@dataclass(slots=True)
class _Runs:
    """One operation after the other, each of `took_s`; seconds before the first ends are credited with nothing."""

    took_s: float
    second: int = 0

    def frame(self, timeout_s: float) -> Frame | None:
        second, self.second = self.second, self.second + 1
        n = math.floor((second + 1) / self.took_s) - math.floor(second / self.took_s)
        return Frame(second, n, 0, 1 / self.took_s if second + 1 > self.took_s else 0.0)

    @property
    def is_done(self) -> bool:
        return False

    def log(self) -> QueryLog:
        n = math.ceil(self.second / self.took_s)
        end_s = np.minimum(np.arange(1, n + 1) * self.took_s, self.second)
        is_whole = np.arange(1, n + 1) * self.took_s <= self.second
        return QueryLog(
            labels=("run",), stream=np.zeros(n, dtype=np.int32), label=np.zeros(n, dtype=np.int32),
            start_s=np.arange(n, dtype=np.float64) * self.took_s, end_s=end_s, rows=np.ones(n, dtype=np.int64),
            outcome=np.where(is_whole, Outcome.OK, Outcome.CANCELLED).astype(np.uint8), duration_s=float(self.second),
        )  # fmt: skip

    def stop(self) -> QueryLog:
        return self.log()


@dataclass(slots=True)
class _Work:
    took_s: float
    kind: str = "runs"
    protocols: tuple[str, ...] = ("fake",)

    @property
    def context(self) -> Context:
        return Context(workload="runs", clients=1)

    def prepare(self, endpoint: Endpoint, report: Callable[[str], None]) -> Preparation:
        return Preparation(0.0, 0, True)

    def start(self, endpoint: Endpoint, *, seed: int, duration_s: float) -> _Runs:
        return _Runs(self.took_s)


def ended(took_s: float, yardstick: Yardstick, best_per_s: float) -> tuple[End, float]:
    """How the run of a candidate ends, and after how many seconds of its window."""
    guards = Guardrails(GuardLimits(), max_error_rate=0.01, yardstick=yardstick)
    stop = EarlyStop(Interval(best_per_s, best_per_s, best_per_s), is_maximised=True)
    result = measure_load(
        _Work(took_s), FakeTarget("db").endpoint(), PLAN, seed=1, early_stop=stop, watch=Watch(guards, None, 1.0)
    )
    return result.end, result.measure_s


@pytest.mark.parametrize("took_s", [12.0, 20.0])
@pytest.mark.parametrize("times", [0.7, 1.0, 1.5])
def test_a_candidate_of_few_long_runs_is_measured_to_the_end(took_s: float, times: float) -> None:
    baseline = measure_load(_Work(took_s), FakeTarget("db").endpoint(), PLAN, seed=1).measurement
    assert baseline is not None
    yardstick = Yardstick.of([baseline])
    assert yardstick is not None
    assert ended(times * took_s, yardstick, 1 / took_s) == (End.COMPLETE, 30.0)


def test_one_that_is_much_slower_is_stopped_once_enough_runs_have_ended() -> None:
    end, measure_s = ended(4.0, Yardstick(1.0, math.nan, 1.0, 1.2), 1.0)
    assert end in (End.STOPPED_EARLY, End.GUARDED)
    assert 4 <= measure_s < 20


def test_one_that_hangs_is_stopped_at_once_where_thousands_were_due() -> None:
    yardstick = Yardstick(2000.0, math.nan, 2000.0, 0.05)
    end, measure_s = ended(1e9, yardstick, 2000.0)
    assert end in (End.STOPPED_EARLY, End.GUARDED)
    assert measure_s <= 4


def test_the_first_run_may_take_as_long_as_the_baselines_longest() -> None:
    pace, none = Pace(0.25, 3.0), Frame(0, 0, 0, 0.0)
    assert [pace.take(none) for _ in range(5)] == [None, None, None, 0.25, 0.25]
    assert pace.take(Frame(5, 1, 0, 0.2)) == 1.0
    assert [pace.take(none) for _ in range(5)] == [0.0, 0.0, 0.0, 0.25, 0.25]
    assert pace.take(Frame(9, 1, 1, 0.2, 1)) == 3.0, "failed ones and time-outs ended, too"
    unknown = Pace()
    assert [unknown.take(none) for _ in range(100)] == [None] * 100
