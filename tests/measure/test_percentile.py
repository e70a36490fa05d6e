"""Percentiles with order-statistic intervals: coverage, few values, time-outs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.measure import percentile_interval

from .runs import ar1


@given(values=st.lists(st.floats(0, 1e6), min_size=1, max_size=200), share=st.sampled_from([0.5, 0.95, 0.99]))
def test_interval_contains_an_observed_estimate(values: list[float], share: float) -> None:
    interval = percentile_interval(np.array(values), share)
    assert interval.estimate in values
    assert 0 <= interval.low <= interval.estimate <= interval.high


@pytest.mark.parametrize(("share", "n"), [(0.5, 30), (0.95, 200), (0.99, 1000)])
def test_coverage_of_independent_values(share: float, n: int) -> None:
    rng = np.random.default_rng(n)
    true = -math.log(1 - share)
    intervals = [percentile_interval(rng.exponential(size=n), share) for _ in range(600)]
    assert 0.93 <= np.mean([i.low <= true <= i.high for i in intervals]) <= 0.995


def test_coverage_of_latencies_that_hang_together() -> None:
    n, n_blocks = 400, 40
    block = np.arange(n) * n_blocks // n
    series = np.exp(ar1(np.random.default_rng(3), 400, n, 0.8))
    true = 1.0

    def covered(blocks: np.ndarray | None) -> float:
        found = [percentile_interval(x, 0.5, block=blocks, n_blocks=n_blocks) for x in series]
        return float(np.mean([i.low <= true <= i.high for i in found]))

    assert covered(block) >= 0.90
    assert covered(None) < 0.75


def test_few_values_do_not_bound_high_percentiles() -> None:
    interval = percentile_interval(np.arange(1.0, 13.0), 0.99)
    assert interval.estimate == 12.0
    assert interval.high == math.inf


def test_nearest_rank() -> None:
    values = np.arange(1.0, 101.0)
    assert [percentile_interval(values, share).estimate for share in (0.5, 0.95, 0.99)] == [50, 95, 99]


def test_bounds_of_the_median_of_a_hundred() -> None:
    interval = percentile_interval(np.arange(1.0, 101.0), 0.5)
    # Exact order statistics: P(40 <= Binomial(100, 0.5) <= 60) = 0.965.
    assert (interval.low, interval.high) == (40, 61)


def test_time_outs_leave_the_upper_end_open() -> None:
    values = np.arange(1.0, 101.0)
    censored = values > 90
    assert percentile_interval(values, 0.5, is_censored=censored).high < math.inf
    late = percentile_interval(values, 0.95, is_censored=censored)
    assert (late.estimate, late.high) == (95, math.inf)


def test_no_values_are_unknown() -> None:
    assert math.isnan(percentile_interval(np.zeros(0), 0.5).estimate)


def test_standard_error_is_half_the_width_over_the_normal_quantile() -> None:
    interval = percentile_interval(np.arange(1.0, 101.0), 0.5)
    assert interval.se == pytest.approx((61 - 40) / 2 / 1.95996, rel=1e-4)
    assert math.isnan(percentile_interval(np.array([5.0]), 0.5).se)
