"""Pairs, noise floor: gains are claimed only when they are there."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from trimtab.errors import LoadError, UsageError
from trimtab.measure import Interval, compare_pairs, exp_interval, noise_floor

POSITIVE = st.floats(1e-3, 1e6)


@given(pairs=st.lists(st.tuples(POSITIVE, POSITIVE), min_size=1, max_size=20))
def test_direction_and_swap(pairs: list[tuple[float, float]]) -> None:
    baseline, candidate = map(list, zip(*pairs, strict=True))
    gain = compare_pairs(baseline, candidate, is_maximised=True).ratio
    assert gain.low <= gain.estimate * (1 + 1e-12)
    assert gain.estimate <= gain.high * (1 + 1e-12)
    for mirrored in (compare_pairs(candidate, baseline, is_maximised=True), compare_pairs(baseline, candidate, False)):
        assert mirrored.ratio.estimate == pytest.approx(1 / gain.estimate)


def test_known_pairs() -> None:
    result = compare_pairs([10, 20, 40], [20, 44, 72], is_maximised=True)
    logs = np.log([2, 2.2, 1.8])
    half = 4.302653 * logs.std(ddof=1) / math.sqrt(3)
    assert result.ratio.estimate == pytest.approx(math.exp(logs.mean()))
    assert result.ratio.low == pytest.approx(math.exp(logs.mean() - half))
    assert result.gains == pytest.approx((2, 2.2, 1.8))
    assert result.n_pairs == 3
    assert result.p_value == pytest.approx(stats.ttest_1samp(logs, 0).pvalue)
    assert result.is_better(0.2)
    assert not result.is_better(0.7)


def test_pairing_removes_what_both_share() -> None:
    rng = np.random.default_rng(0)
    weather = np.exp(rng.normal(0, 0.5, 8))
    result = compare_pairs(list(100 * weather), list(110 * weather * np.exp(rng.normal(0, 0.01, 8))), True)
    assert result.ratio.estimate == pytest.approx(1.1, rel=0.015)
    assert result.ratio.relative_half_width < 0.015


def test_equal_configs_are_called_better_as_rarely_as_promised() -> None:
    rng = np.random.default_rng(1)
    claims = [compare_pairs(b, c, True).is_better() for b, c in np.exp(rng.normal(0, 0.05, (2000, 2, 6)))]
    assert 0.012 <= np.mean(claims) <= 0.038


def test_one_pair_bounds_nothing() -> None:
    result = compare_pairs([1.0], [2.0], True)
    assert (result.ratio.low, result.ratio.high) == (0.0, math.inf)
    assert result.ratio.estimate == pytest.approx(2.0)
    assert math.isnan(result.p_value)


@pytest.mark.parametrize(("candidate", "p_value"), [([2.0, 2.0], 0.0), ([1.0, 1.0], 1.0)])
def test_pairs_without_scatter(candidate: list[float], p_value: float) -> None:
    assert compare_pairs([1.0, 1.0], candidate, True).p_value == p_value


def test_no_pairs() -> None:
    with pytest.raises(LoadError, match=r"n_baseline=0 n_candidate=0\nhint: measure baseline and candidate in turns"):
        compare_pairs([], [], True)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_values_that_cannot_be_compared(bad: float) -> None:
    with pytest.raises(
        LoadError, match=r"cannot compare baseline=5 with candidate=.*: both must be positive and finite"
    ):
        compare_pairs([5.0], [bad], True)


def test_noise_floor_of_known_values() -> None:
    floor = noise_floor([100.0, 110.0, 90.0])
    sd = np.log([100, 110, 90]).std(ddof=1)
    assert floor.relative_sd == pytest.approx(sd)
    assert floor.floor == pytest.approx(math.exp(4.302653 * sd * math.sqrt(4 / 3)) - 1)
    assert floor.n == 3


def test_noise_floor_is_exceeded_by_equal_configs_as_rarely_as_promised() -> None:
    rng = np.random.default_rng(2)
    claims = []
    for runs in np.exp(rng.normal(0, 0.05, (2000, 6))):
        gain = runs[5] / math.exp(np.log(runs[:5]).mean())
        claims.append(gain > 1 + noise_floor(list(runs[:5])).floor)
    assert 0.012 <= np.mean(claims) <= 0.038


def test_noise_floor_takes_intervals() -> None:
    assert noise_floor([Interval(1, 0, 2), Interval(2, 1, 3)]) == noise_floor([1.0, 2.0])


@pytest.mark.parametrize("values", [[], [3.0]])
def test_noise_floor_needs_two_runs(values: list[float]) -> None:
    floor = noise_floor(values)
    assert math.isnan(floor.relative_sd)
    assert (floor.floor, floor.n) == (math.inf, len(values))


def test_noise_floor_of_failed_runs() -> None:
    with pytest.raises(LoadError, match=r"the noise floor needs positive values, got values=\[1.0, 0.0\]"):
        noise_floor([1.0, 0.0])


def test_bad_level() -> None:
    with pytest.raises(UsageError, match="level=2 is not between 0 and 1"):
        noise_floor([1.0, 2.0], level=2)


@pytest.mark.parametrize(
    ("low", "middle", "high"),
    [(0.1, 0.2, 0.4), (-math.inf, 0.0, math.inf), (-9e3, 800.0, 4e3), (720.0, 730.0, math.inf)],
)
def test_a_ratio_that_no_number_can_hold_is_as_large_as_one_can(low: float, middle: float, high: float) -> None:
    ratio = exp_interval(Interval(middle, low, high, 0.9, 0.3, 7))
    assert ratio.low == pytest.approx(math.exp(min(low, 700.0)))
    assert ratio.estimate == pytest.approx(math.exp(min(middle, 700.0)))
    assert ratio.high == (math.inf if high == math.inf else pytest.approx(math.exp(min(high, 700.0))))
    assert (ratio.level, ratio.se, ratio.n) == (0.9, 0.3, 7)
