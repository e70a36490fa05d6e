"""Intervals of means: they cover what they promise, also when the values hang together."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.errors import UsageError
from trimtab.measure import Interval, batch_means_interval, pooled_interval, positive, ratio_interval
from trimtab.measure.interval import long_run_se

from .runs import ar1

FINITE = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=80)


@given(values=FINITE)
def test_intervals_contain_their_estimate(values: list[float]) -> None:
    for interval in (batch_means_interval(values), pooled_interval(values)):
        assert interval.low <= interval.estimate <= interval.high
        assert interval.estimate == pytest.approx(np.mean(values))


@given(values=FINITE, factor=st.floats(0.1, 100))
def test_intervals_scale_with_the_unit(values: list[float], factor: float) -> None:
    plain = batch_means_interval(values)
    scaled = batch_means_interval(np.array(values) * factor)
    assert scaled.low == pytest.approx(plain.low * factor, rel=1e-6, abs=1e-6)
    assert scaled.high == pytest.approx(plain.high * factor, rel=1e-6, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("k", [5, 10, 20, 60])
@pytest.mark.parametrize("phi", [0.0, 0.5])
def test_coverage_on_autocorrelated_series(k: int, phi: float) -> None:
    intervals = [batch_means_interval(series) for series in ar1(np.random.default_rng(k), 1500, k, phi)]
    assert 0.90 <= np.mean([i.low <= 0 <= i.high for i in intervals]) <= 0.99


def test_independent_values_would_have_been_far_too_sure() -> None:
    """The reason for batch means: Student's t on the values themselves misses much more often."""
    intervals = [pooled_interval(series) for series in ar1(np.random.default_rng(1), 500, 20, 0.5)]
    assert np.mean([i.low <= 0 <= i.high for i in intervals]) < 0.85


def test_effective_number_is_smaller_when_values_hang_together() -> None:
    rng = np.random.default_rng(2)
    n = [np.mean([batch_means_interval(s).n for s in ar1(rng, 200, 60, phi)]) for phi in (0.0, 0.8)]
    assert n[1] < n[0] / 2


def test_level_widens() -> None:
    series = np.arange(10.0) % 3
    widths = [batch_means_interval(series, level) for level in (0.8, 0.95, 0.99)]
    assert widths[0].high < widths[1].high < widths[2].high


@pytest.mark.parametrize("interval_of", [batch_means_interval, pooled_interval])
def test_one_value_has_no_bounds(interval_of: object) -> None:
    assert callable(interval_of)
    interval = interval_of([3.0])
    assert (interval.estimate, interval.low, interval.high) == (3.0, -math.inf, math.inf)


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [1.0, math.inf]])
def test_no_or_no_finite_values_are_unknown(values: list[float]) -> None:
    for interval in (batch_means_interval(values), pooled_interval(values)):
        assert math.isnan(interval.estimate)
        assert (interval.low, interval.high) == (-math.inf, math.inf)


def test_a_constant_series_is_certain() -> None:
    interval = batch_means_interval([2.0] * 10)
    assert (interval.low, interval.high, interval.n) == (2.0, 2.0, 10.0)


def test_ratio_is_sum_over_sum() -> None:
    interval = ratio_interval(np.array([2.0, 0.0, 7.0, 3.0, 1.0, 5.0]), np.array([1.0, 0.0, 3.0, 1.0, 1.0, 2.0]))
    assert interval.estimate == pytest.approx(18 / 8)
    assert interval.low < 18 / 8 < interval.high
    assert interval.n == 8


def test_ratio_of_nothing_is_unknown() -> None:
    assert math.isnan(ratio_interval(np.zeros(5), np.zeros(5)).estimate)


def test_ratio_of_one_operation_has_no_bounds() -> None:
    interval = ratio_interval(np.array([0.0, 7.0, 0.0]), np.array([0.0, 1.0, 0.0]))
    assert (interval.estimate, interval.high) == (7.0, math.inf)


@pytest.mark.parametrize("level", [0, 1, -0.5, math.nan])
def test_bad_level(level: float) -> None:
    with pytest.raises(UsageError, match=r"level=.* is not between 0 and 1\nhint: use 0.95"):
        batch_means_interval([1.0, 2.0], level)


def test_relative_half_width() -> None:
    assert Interval(10, 9, 12).relative_half_width == pytest.approx(0.15)
    assert Interval(0, 0, 1).relative_half_width == math.inf


def test_the_interval_of_a_rate_is_never_negative() -> None:
    """Runs that differ as much as these reach below 0 on the plain scale."""
    plain = pooled_interval([10.0, 1.0, 14.0])
    rate = positive(plain)
    assert plain.low < 0 < rate.low < rate.estimate < rate.high
    assert rate.estimate == plain.estimate
    assert math.log(rate.high / rate.estimate) == pytest.approx((plain.high - plain.estimate) / plain.estimate)
    assert rate.low * rate.high == pytest.approx(rate.estimate**2)


def test_a_tight_interval_of_a_rate_is_nearly_the_plain_one() -> None:
    plain = pooled_interval([100.0, 101.0, 99.5, 100.5])
    rate = positive(plain)
    assert (rate.low, rate.high) == pytest.approx((plain.low, plain.high), rel=1e-3)


@pytest.mark.parametrize(
    ("values", "ends"), [([3.0], (0.0, math.inf)), ([0.0, 0.0], (0.0, 0.0)), ([1e-300, 1.0], (0.0, math.inf))]
)
def test_rates_without_an_error_or_above_0_have_ends_all_the_same(
    values: list[float], ends: tuple[float, float]
) -> None:
    rate = positive(pooled_interval(values))
    assert rate.low >= ends[0]
    assert rate.high <= ends[1]
    assert rate.low <= rate.estimate <= rate.high


def test_the_error_of_a_ratio_is_that_of_its_residuals() -> None:
    counts = np.array([10.0, 20.0, 30.0, 40.0, 50.0, 60.0])
    exact = ratio_interval(3.0 * counts, counts)  # each block has the same ratio
    assert (exact.estimate, exact.low, exact.high) == pytest.approx((3.0, 3.0, 3.0))


def test_two_values_have_one_degree_of_freedom_and_hence_ends() -> None:
    for interval in (pooled_interval([1.0, 2.0]), batch_means_interval([1.0, 2.0])):
        assert math.isfinite(interval.low)
        assert math.isfinite(interval.high)
    pair = pooled_interval([1.0, 2.0])
    assert pair.se == pytest.approx(0.5)
    assert pair.high - 1.5 == pytest.approx(12.706 * 0.5, rel=1e-4)


def test_the_long_run_error_of_a_cosine_is_known() -> None:
    """One degree of freedom: the projection on the first cosine, raised by 1 + 1/k."""
    k = 8
    wave = np.cos(np.pi * (np.arange(k) + 0.5) / k)
    se, dof = long_run_se(wave, max_dof=1)
    assert dof == 1
    assert se == pytest.approx(math.sqrt(2 / k) * float(wave @ wave) / math.sqrt(k) * (1 + 1 / k))
