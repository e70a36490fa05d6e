"""An application's own traffic: its throughput says what its users ask for, so a trial is judged by how long they wait."""

from __future__ import annotations

import math
from typing import Any

import pytest

from trimtab.flow.regression import RegressionMeter
from trimtab.measure import Interval, Measurement
from trimtab.records import Context, Role, Status, Trial
from trimtab.space import Config
from trimtab.trial import GuardLimits, Guardrails, Yardstick
from trimtab.trial.guard import Breach
from trimtab.workload import Frame
from trimtab.workload.observe.counters import Counted
from trimtab.workload.observe.run import ObserveRun


def measured(throughput: float = 1000.0, mean_ms: float = 8.0, *, is_observed: bool = True) -> Measurement:
    return Measurement(
        window_s=(0, 5), throughput=Interval(throughput, throughput, throughput),
        latency_mean_ms=Interval(mean_ms, mean_ms, mean_ms), latency_ms={}, n_ok=5000, n_error=0, n_timed_out=0, is_steady=True,
        warmup_s=0, series_per_s=(), users=8, is_observed=is_observed,
    )  # fmt: skip


def second(number: int, *, per_s: float = 1000.0, mean_ms: float = 8.0) -> Frame:
    return Frame(number, round(per_s), 0, per_s, is_observed=True, response_mean_us=mean_ms * 1e3)


def breach_of(*frames: Frame, baseline: Measurement | None = None) -> Breach | None:
    guard = Guardrails(GuardLimits(), max_error_rate=0.01, yardstick=Yardstick.of([baseline or measured()]))
    for frame in frames:
        breach = guard.second(frame, in_window=True)
        if breach is not None:
            return breach
    return None


def test_three_times_the_mean_latency_ends_a_trial() -> None:
    breach = breach_of(*(second(n, mean_ms=24 + n % 3) for n in range(30)))
    assert breach is not None
    assert (breach.status, breach.metric) == (Status.STOPPED_EARLY, "latency_mean")
    assert breach.reason.startswith("stopped: mean=2")
    assert breach.reason.endswith("times the baseline's (limit 2 times)")


def test_a_lull_ends_no_trial() -> None:
    assert breach_of(*(second(n, per_s=300 + n % 3, mean_ms=7.5 + n % 2) for n in range(60))) is None


def test_less_traffic_that_waits_longer_ends_a_trial() -> None:
    breach = breach_of(*(second(n, per_s=300 + n % 3, mean_ms=12 + n % 2) for n in range(60)))
    assert breach is not None
    assert breach.metric == "throughput"


def test_a_server_that_hangs_ends_a_trial() -> None:
    """Nothing ends any more, so that no second has a latency."""
    breach = breach_of(second(0), *(second(n, per_s=0, mean_ms=0) for n in range(1, 60)))
    assert breach is not None
    assert breach.metric == "throughput"


def test_without_latencies_throughput_is_all_there_is() -> None:
    frames = [second(n, per_s=300 + n % 3, mean_ms=0) for n in range(60)]
    breach = breach_of(*frames, baseline=measured(mean_ms=math.nan))
    assert breach is not None
    assert breach.metric == "throughput"


def trial(measurement: Measurement, role: Role = Role.SEARCH) -> Trial:
    return Trial(
        number=0, role=role, config=Config({}), context=Context(workload="", clients=8), status=Status.OK,
        measurement=measurement, cost_s={"warmup": 2.0, "measure": 8.0},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("baseline_ms", "throughput", "mean_ms", "lost_s"),
    [
        pytest.param(8, 500, 8, 0, id="a lull"),
        pytest.param(8, 1000, 28, 1000 * 10 * 0.02, id="longer waits"),
        pytest.param(8, 0, math.nan, 8 * 10, id="a server that hangs"),
        pytest.param(math.nan, 500, math.nan, 8 * 10 / 2, id="latency is not known"),
    ],
)
def test_the_regression_budget_counts_how_long_users_wait(
    baseline_ms: float, throughput: float, mean_ms: float, lost_s: float
) -> None:
    meter = RegressionMeter()
    meter.take(trial(measured(1000, baseline_ms), Role.BASELINE))
    meter.take(trial(measured(throughput, mean_ms)))
    assert meter.lost_s == pytest.approx(lost_s)


class _Counted:
    """Counters that say one thing after the other, the last of them for ever."""

    what, source = "statement", "a list"

    def __init__(self, *said: Counted) -> None:
        self._said = list(said)

    def __enter__(self) -> _Counted:
        return self

    def __exit__(self, *problem: object) -> None:
        pass

    def read(self, session: Any) -> Counted:
        return self._said.pop(0) if len(self._said) > 1 else self._said[0]


@pytest.mark.slow
def test_each_second_has_the_mean_of_its_own() -> None:
    counters = _Counted(Counted(1000, 50.0), Counted(1100, 50.5), Counted(1300, 53.5))
    run = ObserveRun(lambda: counters, counters, clients=4, duration_s=2.0)  # type: ignore[arg-type,return-value]
    frames = [run.frame(3.0), run.frame(3.0)]
    log = run.stop()
    assert [frame is not None and frame.is_observed for frame in frames] == [True, True]
    assert [frame.response_mean_us for frame in frames if frame is not None] == [5_000, 15_000]
    assert log.is_observed
    assert sum(frame.n_ok for frame in frames if frame is not None) <= log.response.total
