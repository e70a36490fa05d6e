"""Warm-up ends by the series: where the step is, at once when there is none, at the cap when it never settles."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.errors import UsageError
from trimtab.measure import SteadyDetector, warmup_end


def ramp(rng: np.random.Generator, rise_s: int, total_s: int, noise: float = 0.03) -> np.ndarray:
    """Throughput that rises from 20 to 100 in `rise_s` seconds and stays there."""
    level = 100 - 80 * np.clip(1 - np.arange(total_s) / rise_s, 0, 1)
    return level * (1 + noise * rng.standard_normal(total_s))


def fed(series: np.ndarray, floor_s: float = 5, cap_s: float = 60) -> SteadyDetector:
    detector = SteadyDetector(floor_s, cap_s)
    for value in series:
        if detector.update(value):
            break
    return detector


@pytest.mark.parametrize("batch", [None, 1, 5])
def test_cut_is_at_the_end_of_the_ramp(batch: int | None) -> None:
    rng = np.random.default_rng(0)
    cuts = [warmup_end(ramp(rng, 20, 100), batch=batch) for _ in range(50)]
    assert 15 <= np.median(cuts) <= 25


def test_cut_of_a_short_series() -> None:
    assert warmup_end(np.array([1.0, 9.0, 10.0, 10.2, 9.8, 10.2, 9.8, 10.2, 9.8, 10.2])) == 2


@given(values=st.lists(st.floats(0, 1e6), max_size=120))
def test_at_most_half_is_cut(values: list[float]) -> None:
    assert 0 <= warmup_end(np.array(values)) <= len(values) / 2


def test_the_window_never_begins_before_the_floor() -> None:
    rng = np.random.default_rng(4)
    for _ in range(20):
        detector = fed(rng.poisson(2000, 60).astype(float), floor_s=6)
        assert detector.is_steady
        assert detector.warmup_s >= 6


def test_a_level_series_is_steady_at_the_floor() -> None:
    rng = np.random.default_rng(1)
    seen = [fed(100 * (1 + 0.05 * rng.standard_normal(60))).observed_s for _ in range(100)]
    assert np.median(seen) == 5
    assert np.mean(np.array(seen) <= 10) > 0.9


def test_a_ramp_is_waited_for() -> None:
    rng = np.random.default_rng(2)
    found = [fed(ramp(rng, 12, 60)) for _ in range(100)]
    assert all(detector.is_steady for detector in found)
    # The window that begins at the cut is within a few per cent of the final level.
    levels = [100 - 80 * max(0.0, 1 - (d.warmup_s + d.observed_s) / 2 / 12) for d in found]
    assert np.mean(np.array(levels) > 93) > 0.9


def test_a_slow_rise_under_noise_is_mostly_noticed() -> None:
    """As a Java machine compiles: two thirds faster within a minute, and every second differs from the next by a twentieth."""
    rng = np.random.default_rng(3)
    seconds = np.arange(60)
    level = 1 - 0.65 * np.exp(-seconds / 15)
    found = [fed(level * (1 + 0.05 * rng.standard_normal(60)), floor_s=15) for _ in range(100)]
    ends = np.array([int(detector.observed_s) - 1 for detector in found])
    assert np.mean(level[ends] > 0.9) > 0.9


def test_the_cap_decides_when_it_never_settles() -> None:
    detector = fed(np.exp(np.arange(40.0) / 4), cap_s=30)
    assert detector.is_over
    assert not detector.is_steady
    assert detector.warmup_s == detector.observed_s == 30


def test_silence_is_not_steady() -> None:
    detector = fed(np.zeros(20), cap_s=20)
    assert (detector.is_over, detector.is_steady) == (True, False)


def test_answers_stay() -> None:
    detector = fed(np.full(10, 7.0))
    assert detector.is_steady
    before = detector.warmup_s, detector.observed_s
    assert detector.update(1e9)
    assert (detector.warmup_s, detector.observed_s) == before


def test_no_warmup_asked_for() -> None:
    detector = SteadyDetector(0, 0)
    assert detector.is_over
    assert detector.warmup_s == 0


def test_bad_bounds() -> None:
    with pytest.raises(UsageError, match=r"floor_s=9 and cap_s=5 must hold 0 <= floor_s <= cap_s"):
        SteadyDetector(9, 5)


def test_four_frames_are_enough_and_three_are_not() -> None:
    detector = SteadyDetector(floor_s=0, cap_s=60)
    assert [detector.update(100.0) for _ in range(4)] == [False, False, False, True]
