"""Noise around a mean, a line and a smooth course."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trimtab.measure.residual import noise_around_course, noise_around_line, noise_around_mean

TIMES = np.array([0.0, 1.0, 1.5, 4.0, 9.0, 9.5, 12.0])
MEDIAN_OF_ONE_DF = 0.454936


def test_a_line_leaves_nothing_however_uneven_the_times() -> None:
    line = 3 + 0.5 * TIMES
    assert noise_around_line(TIMES, line).sd == pytest.approx(0, abs=1e-7)
    assert noise_around_course(TIMES, line).sd == pytest.approx(0, abs=1e-7)
    assert noise_around_mean(line).sd > 1


def test_two_values_and_three() -> None:
    assert noise_around_mean(np.array([1.0, 2.0])).sd == pytest.approx(math.sqrt(0.5 / MEDIAN_OF_ONE_DF))
    t, y = np.arange(3.0), np.array([0.0, 1.0, 0.0])
    assert noise_around_line(t, y).sd == pytest.approx(math.sqrt(1 / 1.5 / MEDIAN_OF_ONE_DF))
    assert noise_around_course(t, y).sd == pytest.approx(noise_around_line(t, y).sd)


def test_too_few_values_tell_nothing() -> None:
    one = noise_around_mean(np.array([1.0]))
    assert math.isnan(one.sd)
    assert one.df == 0
    two = noise_around_line(np.array([0.0, 1.0]), np.array([1.0, 5.0]))
    assert math.isnan(two.sd)
    assert math.isnan(noise_around_course(np.array([0.0, 1.0]), np.array([1.0, 5.0])).sd)


def test_values_of_one_moment() -> None:
    moment, y = np.zeros(4), np.array([0.0, 0.1, -0.1, 0.05])
    assert math.isfinite(noise_around_course(moment, y).sd)


def test_half_of_all_estimates_are_too_small_and_half_too_large() -> None:
    rng = np.random.default_rng(0)
    for n in (3, 4, 6, 12):
        t = np.sort(rng.uniform(0, 100, n))
        course = 0.3 * t
        rows = [course + rng.normal(0, 1, n) for _ in range(400)]
        assert np.median([noise_around_line(t, y).sd for y in rows]) == pytest.approx(1, rel=0.15)
        assert np.median([noise_around_course(t, y).sd for y in rows]) == pytest.approx(1, rel=0.15)
