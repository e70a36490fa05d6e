"""Always-valid verdicts: looking after each observation costs no honesty."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from trimtab.errors import LoadError, UsageError
from trimtab.measure import (
    EarlyStop,
    Interval,
    NoisePool,
    PairedSequence,
    anytime_interval,
    compare_pairs,
    observations_needed,
)
from trimtab.measure.sequential import _variance_inflation

from .runs import ar1

MAX_PAIRS = 20


def verdict_with_peeking(rng: np.random.Generator, gain: float, sd: float, delta: float) -> tuple[str, int]:
    """The first verdict of a sequence that is asked after each pair."""
    sequence = PairedSequence(is_maximised=True)
    for _ in range(MAX_PAIRS):
        sequence.add(math.exp(rng.normal(0, sd)), gain * math.exp(rng.normal(0, sd)))
        if sequence.verdict(delta) != "undecided":
            break
    return sequence.verdict(delta), len(sequence)


@pytest.mark.slow
def test_equal_configs_with_peeking() -> None:
    rng = np.random.default_rng(0)
    verdicts = [verdict_with_peeking(rng, 1.0, 0.05, 0.0)[0] for _ in range(600)]
    assert np.mean([v == "better" for v in verdicts]) <= 0.035
    assert np.mean([v == "not_better" for v in verdicts]) <= 0.035


@pytest.mark.slow
def test_a_fixed_test_would_be_fooled_by_peeking() -> None:
    """The reason for the sequence: the t interval, looked at after each pair, claims far too often."""
    rng = np.random.default_rng(0)
    fooled = 0
    for _ in range(300):
        b, c = np.exp(rng.normal(0, 0.05, (2, MAX_PAIRS)))
        fooled += any(compare_pairs(b[:n], c[:n], True).is_better() for n in range(3, MAX_PAIRS + 1))
    assert fooled / 300 > 0.06


@pytest.mark.parametrize(("gain", "most_pairs", "power"), [(1.8, 3, 0.95), (1.3, 5, 0.95), (1.1, MAX_PAIRS, 0.75)])
def test_real_gains_are_found(gain: float, most_pairs: int, power: float) -> None:
    rng = np.random.default_rng(1)
    found = [verdict_with_peeking(rng, gain, 0.05, 0.02) for _ in range(200)]
    assert np.mean([verdict == "better" for verdict, _ in found]) >= power
    assert np.median([n for _, n in found]) <= most_pairs


def test_a_worse_candidate_is_not_better() -> None:
    verdict, n = verdict_with_peeking(np.random.default_rng(2), 0.8, 0.03, 0.02)
    assert verdict == "not_better"
    assert n < MAX_PAIRS


def test_less_is_better_when_minimised() -> None:
    sequence = PairedSequence(is_maximised=False)
    for noise in (0.99, 1.0, 1.01, 1.0):
        sequence.add(100.0, 50.0 * noise)
    assert sequence.ratio.estimate == pytest.approx(2.0, rel=0.01)
    assert sequence.verdict(0.1) == "better"


def test_comparison_says_the_same_as_the_verdict() -> None:
    sequence = PairedSequence(is_maximised=True)
    for noise in (0.97, 1.0, 1.02, 1.01):
        sequence.add(10.0, 15.0 * noise)
    comparison = sequence.comparison()
    assert comparison.ratio == sequence.ratio
    assert comparison.n_pairs == len(sequence) == 4
    assert comparison.p_value < 0.05
    assert comparison.gains == pytest.approx((1.455, 1.5, 1.53, 1.515))


def test_p_value_and_interval_agree() -> None:
    """The interval of level 1 - p just touches no gain."""
    sequence = PairedSequence(is_maximised=True)
    gains = (1.02, 1.05, 1.01, 1.06, 1.03, 1.04)
    for gain in gains:
        sequence.add(1.0, gain)
    p_value = sequence.comparison().p_value
    assert anytime_interval(np.log(gains), 1 - p_value).low == pytest.approx(0.0, abs=1e-9)


@given(values=st.lists(st.floats(-100, 100), min_size=1, max_size=30))
def test_interval_contains_its_estimate_and_is_wider_than_students(values: list[float]) -> None:
    series = np.array(values)
    interval = anytime_interval(series)
    assert interval.low <= interval.estimate <= interval.high
    assert interval.estimate == pytest.approx(series.mean(), abs=1e-9)
    if len(values) > 1 and series.std() > 1e-6:
        half = stats.t.ppf(0.975, len(values) - 1) * series.std(ddof=1) / math.sqrt(len(values))
        assert interval.high - interval.low > 2 * half


@pytest.mark.parametrize("correlation", [0.6, 0.7, 0.8])
def test_seconds_that_hang_together_widen_the_bound_as_much_as_they_should(correlation: float) -> None:
    """AR(1) values: (1 + r) / (1 - r) of the estimate, whose bias of -(1 + 3 r) / n Marriott & Pope (1954) give."""
    rng = np.random.default_rng(9)
    found = []
    for _ in range(400):
        noise, series = rng.standard_normal(260), np.zeros(260)
        for i in range(1, 260):
            series[i] = correlation * series[i - 1] + noise[i]
        inflation = _variance_inflation(series[200:])
        found.append((inflation - 1) / (inflation + 1))
    assert float(np.mean(found)) == pytest.approx(correlation, abs=0.015)
    assert _variance_inflation(np.array([1.0, 2.0])) == pytest.approx(3.0)
    assert _variance_inflation(np.arange(30.0)) == pytest.approx(19.0)


def test_always_valid_coverage() -> None:
    misses = 0
    for series in np.random.default_rng(3).standard_normal((400, 40)):
        intervals = (anytime_interval(series[:n]) for n in range(2, 41))
        misses += any(not i.low <= 0 <= i.high for i in intervals)
    assert misses / 400 <= 0.05


def test_nothing_seen() -> None:
    assert math.isnan(anytime_interval(np.zeros(0)).estimate)
    assert PairedSequence(is_maximised=True).verdict() == "undecided"
    with pytest.raises(LoadError, match="there are no pairs to compare"):
        PairedSequence(is_maximised=True).comparison()


def test_pair_that_cannot_be_compared() -> None:
    with pytest.raises(LoadError, match="cannot compare baseline=1 with candidate=0"):
        PairedSequence(is_maximised=True).add(1.0, 0.0)


def stopped_at(frames: np.ndarray, *, is_maximised: bool = True) -> int | None:
    """The second at which the frames are stopped against an incumbent of 1; None when they are not."""
    stop = EarlyStop(Interval(1, 1, 1), is_maximised=is_maximised)
    return next((second for second, frame in enumerate(frames, 1) if stop.update(frame)), None)


@pytest.mark.parametrize(
    ("phi", "sd"),
    [(0.0, 0.1), (0.5, 0.2), *(pytest.param(phi, 0.1, marks=pytest.mark.slow) for phi in (0.5, 0.8))],
)
def test_equal_configs_are_not_stopped(phi: float, sd: float) -> None:
    stops = [stopped_at(1 + sd * series) for series in ar1(np.random.default_rng(4), 400, 30, phi)]
    assert np.mean([second is not None for second in stops]) <= 0.02


@pytest.mark.parametrize("phi", [0.0, pytest.param(0.5, marks=pytest.mark.slow)])
def test_even_at_the_border_of_the_margin_stops_are_rare(phi: float) -> None:
    stops = [stopped_at(0.9 * (1 + 0.05 * series)) for series in ar1(np.random.default_rng(7), 500, 30, phi)]
    assert np.mean([second is not None for second in stops]) <= 0.01


@pytest.mark.parametrize(("phi", "sd", "seconds"), [(0.0, 0.05, 4), (0.5, 0.1, 5), (0.5, 0.2, 8)])
def test_half_as_fast_is_stopped_within_seconds(phi: float, sd: float, seconds: int) -> None:
    stops = [stopped_at(0.5 * (1 + sd * series)) for series in ar1(np.random.default_rng(5), 200, 30, phi)]
    assert all(second is not None for second in stops)
    assert np.median([second for second in stops if second]) <= seconds


def test_minimised_metrics_are_stopped_upwards() -> None:
    rng = np.random.default_rng(6)
    assert stopped_at(2 + 0.1 * rng.standard_normal(20), is_maximised=False) is not None
    assert stopped_at(0.5 + 0.1 * rng.standard_normal(20), is_maximised=False) is None


def test_another_run_begins_with_nothing() -> None:
    stop = EarlyStop(Interval(1, 1, 1), is_maximised=True)
    assert any(stop.update(0.4) for _ in range(20))
    stop.begin()
    assert not any(stop.update(1.0) for _ in range(20))


def test_an_unknown_incumbent_stops_nothing() -> None:
    stop = EarlyStop(Interval(math.nan, math.nan, math.nan), is_maximised=True)
    assert not any(stop.update(0.0) for _ in range(20))


def test_bad_settings() -> None:
    with pytest.raises(UsageError, match=r"margin=-1 must be 0 or more and alpha=0.01 inside \(0, 0.5\)"):
        EarlyStop(Interval(1, 1, 1), is_maximised=True, margin=-1)
    with pytest.raises(UsageError, match=r"alpha=0\.5"):
        EarlyStop(Interval(1, 1, 1), is_maximised=True, alpha=0.5)


@pytest.mark.slow
@pytest.mark.parametrize("df", [3, 10])
def test_a_pool_of_noise_narrows_the_interval_and_keeps_its_level(df: int) -> None:
    rng = np.random.default_rng(5)
    n_missed = n_bounded_by_two = 0
    for _ in range(1000):
        pool = NoisePool(float((rng.normal(0, 0.03, df) ** 2).sum()), df)
        series = rng.normal(0.1, 0.03, 12)
        intervals = [anytime_interval(series[:n], pool=pool) for n in range(1, 13)]
        n_missed += any(not interval.low <= 0.1 <= interval.high for interval in intervals)
        n_bounded_by_two += math.isfinite(intervals[1].high)
    assert n_missed / 1000 <= 0.05
    assert n_bounded_by_two == 1000


def test_an_empty_pool_changes_nothing() -> None:
    values = np.array([0.1, 0.12, 0.07, 0.11])
    assert anytime_interval(values) == anytime_interval(values, pool=NoisePool())


def test_pairs_with_a_pool_agree_with_its_p_value() -> None:
    sequence = PairedSequence(is_maximised=True, pool=NoisePool(0.006, 6))
    for gain in (1.05, 1.12):
        sequence.add(1.0, gain)
    comparison = sequence.comparison()
    values = np.log(comparison.gains)
    assert 0 < comparison.p_value < 1
    last = min(
        (anytime_interval(values[:n], 1 - comparison.p_value, pool=NoisePool(0.006, 6)) for n in (1, 2)),
        key=lambda interval: abs(interval.low),
    )
    assert last.low == pytest.approx(0.0, abs=1e-9)


def _hedged(logs: Sequence[float], pool: NoisePool) -> PairedSequence:
    sequence = PairedSequence(is_maximised=True, pool=pool, is_hedged=True)
    for log in logs:
        sequence.add(1.0, math.exp(log))
    return sequence


@pytest.mark.slow
@pytest.mark.parametrize("times", [0.5, 1.0, 3.0])
def test_a_hedged_sequence_keeps_its_level_and_gains_by_a_pool_of_its_own_noise(times: float) -> None:
    """Also where the earlier runs scattered three times as much; where half as much, as long as it is not by that alone."""
    rng = np.random.default_rng(8)
    n_missed = narrower = 0
    for _ in range(300):
        pool = NoisePool(float((rng.normal(0, 0.03 * times, 6) ** 2).sum()), 6)
        logs, ratios, sequence = rng.normal(0.1, 0.03, 8), [], _hedged([], pool)
        for log in logs:
            sequence.add(1.0, math.exp(log))
            ratios.append(sequence.ratio)
        n_missed += any(not ratio.low <= math.exp(0.1) <= ratio.high for ratio in ratios[1:])
        plain = anytime_interval(logs[:3])
        narrower += math.log(ratios[2].high / ratios[2].low) < 0.7 * (plain.high - plain.low)
    assert n_missed / 300 <= (0.05 if times >= 1 else 0.1)
    assert times != 1 or narrower > 180


def test_a_pool_that_scatters_more_costs_a_hedged_sequence_next_to_nothing() -> None:
    logs = np.random.default_rng(9).normal(0.1, 0.03, 12)
    for n in (6, 12):
        plain = anytime_interval(np.array(logs[:n]))
        ratio = _hedged(logs[:n], NoisePool(6 * 0.3**2, 6)).ratio
        assert math.log(ratio.high / ratio.low) < 1.05 * (plain.high - plain.low)
        assert ratio.se == pytest.approx(plain.se)
        assert ratio.estimate == pytest.approx(math.exp(plain.estimate))


def test_pairs_that_scatter_more_than_the_pool_are_their_own_measure() -> None:
    """A config may be less steady than the baseline that the pool is of."""
    logs, quiet = [0.8, 1.2, 0.2], NoisePool(6 * 0.01**2, 6)
    ratio, alone = _hedged(logs, quiet).ratio, anytime_interval(np.array(logs), 0.96)
    assert (ratio.low, ratio.high) == (pytest.approx(math.exp(alone.low)), pytest.approx(math.exp(alone.high)))
    assert _hedged(logs, quiet).comparison().p_value > 0.05
    even = [0.80, 0.82, 0.79]
    assert math.log(_hedged(even, quiet).ratio.low) > anytime_interval(np.array(even)).low


def test_few_degrees_of_freedom_are_no_hedge() -> None:
    logs = [0.1, 0.12, 0.07]
    assert _hedged(logs, NoisePool(0.001, 2.9)).ratio == _hedged(logs, NoisePool()).ratio


def test_the_p_value_of_a_hedged_sequence_agrees_with_its_interval() -> None:
    """At 1 minus its p-value the interval touches 1: here that of the pool, and with more scatter that of the pairs alone."""
    for pool in (NoisePool(0.004, 6), NoisePool(6.0, 6)):
        logs = [0.05, 0.11, 0.06, 0.09]
        p_value = _hedged(logs, pool).comparison().p_value
        assert 0 < p_value < 0.5
        for level, is_beyond in ((1 - 1.01 * p_value, True), (1 - 0.99 * p_value, False)):
            lows = []
            for n in range(1, 5):
                sequence = PairedSequence(is_maximised=True, level=level, pool=pool, is_hedged=True)
                for log in logs[:n]:
                    sequence.add(1.0, math.exp(log))
                lows.append(sequence.ratio.low)
            assert (max(lows) > 1) == is_beyond


def test_what_a_hedge_is_expected_to_need() -> None:
    sd, pool = 0.085, NoisePool(6 * 0.085**2, 6)
    assert [observations_needed(effect, sd, 40) for effect in (0.1, 0.2, 0.4)] == [12, 6, 4]
    assert [observations_needed(effect, sd, 40, pool=pool) for effect in (0.1, 0.2, 0.4)] == [13, 5, 2]
    assert observations_needed(0.2, sd, 40, pool=NoisePool(1.0, 2.0)) == 6


def test_the_standard_error_is_that_of_the_mean() -> None:
    two = anytime_interval(np.array([1.0, 2.0]))
    assert two.se == pytest.approx(math.sqrt(0.5 / 1 / 2))
    pooled = anytime_interval(np.array([1.0, 2.0]), pool=NoisePool(squares=1.5, df=3.0))
    assert pooled.se == pytest.approx(math.sqrt((0.5 + 1.5) / (1 + 3) / 2))
    assert math.isnan(anytime_interval(np.array([1.0])).se)


def test_equal_pairs_are_no_evidence() -> None:
    sequence = PairedSequence(is_maximised=True)
    for _ in range(3):
        sequence.add(10.0, 10.0)
    assert sequence.comparison().p_value == 1.0


@pytest.mark.parametrize("is_maximised", [True, False])
def test_as_bad_as_the_border_is_not_stopped(is_maximised: bool) -> None:
    incumbent = Interval(10.0, 10.0, 10.0, 0.95, 0.0, 5)
    stop = EarlyStop(incumbent, is_maximised=is_maximised, margin=0.0)
    assert not any(stop.update(10.0) for _ in range(20))
    worse = EarlyStop(incumbent, is_maximised=is_maximised, margin=0.0)
    assert any(worse.update(9.0 if is_maximised else 11.0) for _ in range(20))


@pytest.mark.parametrize(("effect", "sd"), [(0.3, 0.06), (0.1, 0.06), (0.05, 0.02), (0.05, 0.06)])
def test_so_many_observations_tell_an_effect_about_every_second_time(effect: float, sd: float) -> None:
    n, rng = observations_needed(effect, sd, 100), np.random.default_rng(3)

    def shown(size: int) -> float:
        return float(np.mean([anytime_interval(rng.normal(effect, sd, size)).low > 0 for _ in range(300)]))

    assert 0.35 <= shown(n) <= 0.95
    assert n == 3 or shown(2 * n // 3) < 0.5


def test_no_number_of_observations_tells_no_effect() -> None:
    assert observations_needed(0.0, 0.05, 24) == 24
    assert observations_needed(-0.1, 0.05, 24) == 24
    assert observations_needed(0.001, 0.05, 24) == 24
    assert observations_needed(0.1, 0.0, 24) == 3


def test_seconds_without_an_operation_stop_nothing() -> None:
    """Of runs that take 20 s, seconds in which none ended; and four seconds of one run."""
    stop = EarlyStop(Interval(1, 1, 1), is_maximised=True)
    assert not any(stop.update(0.0, 0.0) for _ in range(30))
    stop.begin()
    assert not any(stop.update(0.2, 0.1) for _ in range(30))
    assert stop.update(0.2, 1.0), "the fourth"


def test_with_an_operation_a_second_and_more_each_second_counts() -> None:
    frames = 0.85 + 0.05 * np.random.default_rng(11).standard_normal(30)
    one, many = (EarlyStop(Interval(1, 1, 1), is_maximised=True) for _ in range(2))
    for frame in frames:
        assert one.update(frame) is many.update(frame, 2000.0)
        assert one.bound == many.bound
    few = EarlyStop(Interval(1, 1, 1), is_maximised=True)
    for frame in frames:
        few.update(frame, 0.3)
    assert few.bound > many.bound, "nine operations say less than thirty seconds of many"
