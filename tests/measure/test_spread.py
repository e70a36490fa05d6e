"""Scatter compared: rarely wrong however often one looks, and right when it is plain."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trimtab.measure import beside_neighbours, relative_range, spread_evidence, spread_p_value, spread_ratio, usual_sd


def ever(rng: np.random.Generator, times: float, n_most: int) -> bool:
    """Whether the evidence reaches 20 at any of the looks after 2, 3, ... runs of each."""
    b, c = rng.normal(0, 1, n_most), rng.normal(3, times, n_most)
    return any(spread_evidence(b[:n], c[:n]) >= 20 for n in range(2, n_most + 1))


@pytest.mark.parametrize("times", [1.0, pytest.param(0.5, marks=pytest.mark.slow)])
def test_equal_or_calmer_configs_are_rarely_called_wild(times: float) -> None:
    rng = np.random.default_rng(1)
    assert np.mean([ever(rng, times, 12) for _ in range(1500)]) <= 0.05


def test_five_times_the_scatter_is_seen() -> None:
    rng = np.random.default_rng(2)
    assert np.mean([ever(rng, 5.0, 8) for _ in range(300)]) >= 0.7


def test_scale_and_level_do_not_matter() -> None:
    b, c = np.array([1.0, 1.1, 0.9]), np.array([2.0, 3.0, 1.0])
    assert spread_evidence(7 + 100 * b, -3 + 100 * c) == pytest.approx(spread_evidence(b, c))
    assert spread_evidence(b, c) > 1 > spread_evidence(c, b)


def test_the_p_value_of_equal_configs_is_even_and_a_known_scatter_counts() -> None:
    rng = np.random.default_rng(3)
    ps = [spread_p_value(rng.normal(0, 1, 5), rng.normal(3, 1, 5)) for _ in range(1500)]
    assert np.mean(np.array(ps) < 0.05) == pytest.approx(0.05, abs=0.02)
    calm, wild = np.array([0.0, 0.01, 0.02]), np.array([0.0, 0.3, 0.6])
    assert spread_p_value(calm, wild) == pytest.approx(1 / 901), "F(2, 2) has the tail 1 / (1 + F)"
    assert spread_p_value(calm, wild, known_sd=0.3) == pytest.approx(0.5)


def test_edges() -> None:
    one, flat, some = np.array([1.0]), np.array([1.0, 1.0]), np.array([1.0, 2.0])
    assert spread_evidence(one, some) == spread_evidence(some, one) == 1.0
    assert spread_evidence(flat, flat) == spread_evidence(some, flat) == 1.0
    assert spread_evidence(flat, some) == math.inf
    assert spread_p_value(one, some) == spread_p_value(some, one) == spread_p_value(flat, flat) == 1.0
    assert (spread_p_value(flat, some), spread_p_value(some, flat)) == (0.0, 1.0)
    assert math.isnan(spread_ratio(one, some))
    assert math.isnan(spread_ratio(flat, some))
    assert spread_ratio(some, np.array([0.0, 3.0])) == pytest.approx(3.0)
    assert relative_range(np.log([1.0, 1.3, 1.1])) == pytest.approx(0.3)
    assert relative_range(np.zeros(1)) == 0.0


def test_beside_its_neighbours_a_series_has_no_drift_and_keeps_its_odd_values() -> None:
    drifting = np.linspace(0.0, 3.0, 13)
    assert np.abs(beside_neighbours(drifting)).max() <= 0.25, (
        "less at the ends, where there are neighbours on one side only"
    )
    odd = drifting.copy()
    odd[5] -= 0.9
    assert beside_neighbours(odd)[5] == pytest.approx(-0.65, abs=0.26)
    assert beside_neighbours(np.array([])).size == 0
    assert beside_neighbours(np.array([4.0])).tolist() == [0.0]


def test_the_usual_scatter_is_the_ordinary_one_where_no_run_is_odd() -> None:
    rng = np.random.default_rng(3)
    rows = rng.normal(0.0, 0.05, (400, 12)) + np.linspace(0.0, 0.2, 12)
    found = np.array([usual_sd(row, 1.0) for row in rows])
    assert float(np.median(found)) == pytest.approx(0.05, rel=0.15)
    rows[:, 7] -= 0.5
    odd = np.array([usual_sd(row, 1.0) for row in rows])
    assert float(np.median(odd)) == pytest.approx(0.05, rel=0.4)


def test_few_runs_do_not_tell_what_is_odd() -> None:
    logs = [0.0, 0.01, -0.5, 0.0, 0.02]
    assert usual_sd(logs, 0.25) == 0.25
    assert usual_sd([*logs, 0.01], 0.25) < 0.03
    assert usual_sd([*logs, 0.01], 0.001) == 0.001, "never more than the ordinary one"
    assert usual_sd([], 0.0) == 0.0
