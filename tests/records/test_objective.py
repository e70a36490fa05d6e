"""Objective: parsing, the one flip of the sign, and constraints."""

from __future__ import annotations

import math

import pytest

from trimtab.errors import UsageError
from trimtab.measure import Interval, Measurement
from trimtab.records import Objective


def _measurement(throughput: float, p99_ms: float) -> Measurement:
    def interval(value: float) -> Interval:
        return Interval(value, value, value)

    return Measurement(
        window_s=(0.0, 10.0),
        throughput=interval(throughput),
        latency_mean_ms=interval(p99_ms / 3),
        latency_ms={"p50": interval(p99_ms / 4), "p95": interval(p99_ms / 2), "p99": interval(p99_ms)},
        n_ok=100,
        n_error=0,
        n_timed_out=0,
        is_steady=True,
        warmup_s=1.0,
        series_per_s=(),
    )


def test_more_throughput_is_less_loss() -> None:
    objective = Objective.parse("throughput")
    assert objective.loss(200.0, 100.0) == pytest.approx(-math.log(2))
    assert math.exp(-objective.loss(180.0, 100.0)) == pytest.approx(1.8)


def test_less_latency_is_less_loss() -> None:
    objective = Objective.parse("p99")
    assert objective.metric == "latency_p99"
    assert objective.loss(50.0, 100.0) == pytest.approx(-math.log(2))


def test_loss_of_what_is_far_apart_is_a_number() -> None:
    cost = Objective.parse("cost")
    assert cost.loss(1e-300, 1e300) == pytest.approx(-600 * math.log(10))
    assert cost.loss(1e300, 1e-300) == pytest.approx(600 * math.log(10))


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_loss_of_what_cannot_be_compared_is_nan(value: float) -> None:
    objective = Objective.parse("throughput")
    assert math.isnan(objective.loss(value, 100.0))
    assert math.isnan(objective.loss(100.0, value))


def test_constraints_are_read_with_their_units() -> None:
    objective = Objective.parse("p99 where throughput >= 2000 and latency_mean <= 0.5 s")
    assert [str(c) for c in objective.constraints] == ["throughput >= 2000/s", "latency_mean <= 500 ms"]
    assert Objective.parse(str(objective)) == objective


@pytest.mark.parametrize("bound", ["1000000", "12345678.5", "0.00001", "20"])
def test_a_constraint_is_written_as_it_is_read(bound: str) -> None:
    objective = Objective.parse(f"p99 where throughput >= {bound}")
    assert str(objective) == f"latency_p99 where throughput >= {bound}/s"
    assert Objective.parse(str(objective)) == objective


@pytest.mark.parametrize(("constraint", "metric", "unit"), [
    ("throughput >= 2000 ms", "throughput", "ms"), ("throughput >= 2 s", "throughput", "s"),
    ("p99 <= 20/s", "latency_p99", "/s"),
])  # fmt: skip
def test_the_unit_of_another_metric_is_refused(constraint: str, metric: str, unit: str) -> None:
    with pytest.raises(UsageError) as caught:
        Objective.parse(f"p95 where {constraint}")
    assert caught.value.message == (
        f"constraint={constraint!r} in objective='p95 where {constraint}': {metric} has no unit {unit!r}"
    )
    assert caught.value.hint == "throughput is per second (2000/s), latencies are times (20 ms or 0.5 s)"


def test_excess_is_relative_and_zero_when_met() -> None:
    objective = Objective.parse("p99 where throughput >= 2000")
    assert objective.excess(_measurement(2000, 10)) == 0.0
    assert objective.excess(_measurement(1500, 10)) == pytest.approx(0.25)


def test_unknown_metric_names_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        Objective.parse("speed")
    assert caught.value.message == "unknown metric='speed' in objective='speed'"
    assert caught.value.hint is not None
    assert "latency_p99" in caught.value.hint


def test_unreadable_constraint_shows_how_to_write_one() -> None:
    with pytest.raises(UsageError) as caught:
        Objective.parse("p99 where throughput > fast")
    assert (
        caught.value.message == "cannot read constraint='throughput > fast' in objective='p99 where throughput > fast'"
    )
    assert caught.value.hint == "write it as in: p99 where throughput >= 2000 and latency_mean <= 5 ms"


def test_what_was_not_seen_meets_no_constraint() -> None:
    """NaN, as the latency of a window in which nothing ended."""
    objective = Objective.parse("throughput where p99 <= 20 ms and throughput >= 10")
    assert objective.excess(_measurement(2000, math.nan)) == math.inf
    assert objective.excess(_measurement(math.nan, 10)) == math.inf
    assert objective.excess(_measurement(2000, 10)) == 0.0
