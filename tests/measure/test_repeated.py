"""Repeated intervals: looks at each of a known number of pairs, and no more, cost what they may."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tests.bench_modules import BENCHMARKS, bench_modules
from trimtab.measure import Looks, NoisePool, PairedSequence, anytime_interval, expected_half_width, observations_needed
from trimtab.measure.repeated import ALPHAS, MOST, false_alarm, last_p_value, repeated_half_width

N = 24


def share_of_misses(looks: Looks, level: float, pool_df: int, n: int = 1500) -> float:
    """How many sequences of pairs without a difference have an interval that leaves out 0 at any look."""
    rng, missed = np.random.default_rng(7), 0
    for _ in range(n):
        gains = rng.normal(0.0, 0.07, looks.most)
        pool = NoisePool(0.07**2 * float(rng.chisquare(pool_df)), pool_df) if pool_df else NoisePool()
        intervals = (anytime_interval(gains[:k], level, pool=pool, looks=looks) for k in range(1, looks.most + 1))
        missed += any(interval.low > 0 or interval.high < 0 for interval in intervals)
    return missed / n


@pytest.mark.slow
@pytest.mark.parametrize(("most", "level"), [(3, 0.95), (8, 0.95), (N, 0.95), (N, 0.8), (60, 0.9)])
@pytest.mark.parametrize(("pool_df", "first"), [(0, 3), (3, 3), (3, 1), (6, 1), (12, 1)])
def test_all_looks_together_miss_as_seldom_as_promised(most: int, level: float, pool_df: int, first: int) -> None:
    alpha = 1 - level
    share, error = share_of_misses(Looks(most, first), level, pool_df), math.sqrt(alpha * level / 1500)
    assert share <= alpha + 3 * error
    assert share >= 0.6 * alpha, "a wider interval than needed finds less"


@pytest.mark.slow
def test_the_table_is_what_its_simulation_says() -> None:
    most = (8, 24)
    with bench_modules(BENCHMARKS / "acceptance", "looks") as modules:
        found = modules["looks"].last_p_values(60_000, most, seed=11)
    for row, each in zip(found, most, strict=True):
        for p_value, alpha in zip(row[:6], ALPHAS[:6], strict=True):
            assert last_p_value(alpha, each) == pytest.approx(p_value, rel=0.15)


@pytest.mark.parametrize("n", [4, 10, N])
def test_it_lies_between_one_look_and_any_number_of_looks(n: int) -> None:
    one_look = stats.t.ppf(0.975, n - 1) / math.sqrt(n)
    assert (
        one_look < expected_half_width(n, 1.0, looks=Looks(10 if n <= 10 else N)) < 1.02 * expected_half_width(n, 1.0)
    )


def test_one_look_is_students_interval() -> None:
    assert repeated_half_width(3, 2.0, 2, 0.05, Looks(3)) == pytest.approx(
        stats.t.ppf(0.975, 2) / math.sqrt(3), rel=1e-6
    )


@pytest.mark.parametrize("alpha", [0.3, 0.05, 0.0125, 0.0001])
@pytest.mark.parametrize("most", [3, 7, N, 100, 1000])
def test_the_chance_of_a_false_alarm_and_the_p_value_at_the_last_look_belong_together(alpha: float, most: int) -> None:
    assert false_alarm(last_p_value(alpha, most), most, Looks(most)) == pytest.approx(alpha, rel=1e-6)
    assert last_p_value(alpha, most) <= alpha * 1.001


def test_more_looks_ask_for_more() -> None:
    for alpha in ALPHAS[1:]:
        asked = [last_p_value(alpha, most) for most in (*MOST, 500, 1000)]
        assert asked == sorted(asked, reverse=True)


def test_no_p_value_is_above_one_and_none_is_lost() -> None:
    assert false_alarm(0.9, 3, Looks(N)) == 1.0
    assert false_alarm(0.0, 3, Looks(N)) == 0.0


def test_the_p_value_of_the_comparison_just_touches_no_gain() -> None:
    gains = (1.02, 1.05, 1.01, 1.06, 1.03, 1.04)
    sequence = PairedSequence(is_maximised=True, looks=Looks(8))
    for gain in gains:
        sequence.add(1.0, gain)
    p_value = sequence.comparison().p_value
    assert anytime_interval(np.log(gains), 1 - p_value, looks=Looks(8)).low == pytest.approx(0.0, abs=1e-6)


def test_before_the_first_look_nothing_is_known() -> None:
    sequence = PairedSequence(is_maximised=True, looks=Looks(N))
    for _ in range(2):
        sequence.add(1.0, 1.5)
        assert sequence.ratio.high == math.inf
        assert sequence.comparison().p_value == 1.0
    sequence.add(1.0, 1.5)
    assert sequence.ratio.low == pytest.approx(1.5)


def test_more_pairs_than_were_meant_are_an_error() -> None:
    sequence = PairedSequence(is_maximised=True, looks=Looks(3))
    for gain in (1.1, 1.2, 1.3, 1.4):
        sequence.add(1.0, gain)
    with pytest.raises(ValueError, match="n=4 pairs, but the intervals were made for most=3"):
        assert sequence.ratio


def test_fewer_pairs_are_needed_where_their_number_is_bounded() -> None:
    """10 % at 5 % noise: twelve of any number, nine of 24, eight of twelve."""
    effect, sd = math.log(1.1 / 1.02), math.sqrt(2) * 0.05
    needed = [observations_needed(effect, sd, 12, looks=looks) for looks in (None, Looks(40), Looks(24), Looks(12))]
    assert needed == sorted(needed, reverse=True)
    assert needed[0] > needed[2]


@pytest.mark.slow
def test_gains_are_proven_earlier_and_more_often() -> None:
    """5 % at 3 % noise, of which any number of looks proves two fifths within 24 pairs."""
    rng, shares = np.random.default_rng(3), []
    rows = np.log(1.05) + rng.normal(0, 0.03 * math.sqrt(2), (300, N))
    for looks in (None, Looks(N)):
        found = [
            any(anytime_interval(row[:k], looks=looks).low > math.log(1.02) for k in range(3, N + 1)) for row in rows
        ]
        shares.append(float(np.mean(found)))
    assert shares[1] > shares[0] + 0.15
