"""Slices and interactions on surfaces whose shape is known."""

from __future__ import annotations

import numpy as np
import pytest

from tests.importance.problems import flat_space, sampled
from trimtab.errors import UsageError
from trimtab.importance import rank_knobs, slice_of, top_pairs
from trimtab.space import Knob, KnobKind, Space

pytestmark = pytest.mark.slow


def test_slice_follows_the_objective() -> None:
    found = slice_of(sampled(lambda c: 2 * (c["a"] - 0.7) ** 2 + 0.3 * c["b"], runs=100), "a")
    assert found.knob == "a"
    truth = 2 * (np.array(found.values, dtype=float) - 0.7) ** 2
    middle = np.array(found.mean) - np.mean(found.mean)
    assert middle == pytest.approx(truth - truth.mean(), abs=0.06)
    assert all(low <= mean <= high for low, mean, high in zip(found.low, found.mean, found.high, strict=True))
    assert float(found.best) == pytest.approx(0.7, abs=0.1)
    assert found.gain_low > 0.3
    assert len(found.points) == 100


def test_slice_is_in_the_knobs_own_values() -> None:
    knobs = [
        Knob(name="memory", kind=KnobKind.INTEGER, low=16, high=4096, log=True, default=64, unit="MB", special=(-1,)),
        Knob(name="mode", kind=KnobKind.CHOICE, choices=("x", "y", "z"), default="y"),
    ]
    space = Space([*flat_space(3).knobs.values(), *knobs])
    problem = sampled(lambda c: 0.5 * (c["memory"] == -1) - 0.2 * (c["mode"] == "z"), space, 100)
    memory, mode = slice_of(problem, "memory"), slice_of(problem, "mode")
    assert memory.values[0] == -1
    assert set(memory.values[1:]) <= set(range(16, 4097))
    assert memory.mean[0] > max(memory.mean[1:]) + 0.3
    assert mode.values == ("x", "y", "z")
    assert mode.best == "z"


def test_a_knob_that_the_baseline_switches_off_is_seen_where_it_is_on() -> None:
    knobs = [
        Knob(name="gate", kind=KnobKind.BOOLEAN, default=False),
        Knob(name="x", kind=KnobKind.REAL, low=0.0, high=1.0, default=0.0, condition="gate"),
    ]
    space = Space([*flat_space(2).knobs.values(), *knobs])
    problem = sampled(lambda c: -0.5 * c["x"] * c["gate"], space, 100)
    found = slice_of(problem, "x")
    assert found.mean[0] - found.mean[-1] == pytest.approx(0.5, abs=0.2)
    assert found.best == pytest.approx(1.0, abs=0.2)
    ranks = rank_knobs(problem)
    assert {entry.knob for entry in ranks.knobs[:2]} == {"gate", "x"}
    assert "x" not in ranks.not_worth


def test_slice_of_nothing() -> None:
    with pytest.raises(UsageError, match="no slice of unknown knob='aa'") as caught:
        slice_of(sampled(lambda c: 0.0, runs=20), "aa")
    assert caught.value.hint == "did you mean a?"


def test_pairs_that_interact_are_found() -> None:
    problem = sampled(lambda c: 0.5 * c["c"] + 3 * (c["a"] - 0.5) * (c["b"] - 0.5), runs=100)
    pairs = top_pairs(problem)
    assert [(pair.first, pair.second) for pair in pairs] == [("a", "b")]
    pair = pairs[0]
    truth = (3**2 / 144) / (3**2 / 144 + 0.25 / 12)
    assert pair.share == pytest.approx(truth, abs=0.35)
    assert pair.share_low <= pair.share <= pair.share_high
    grid = np.array(pair.loss)
    assert grid.shape == (len(pair.first_values), len(pair.second_values))
    assert grid[0, 0] > grid[0, -1]
    assert grid[-1, -1] > grid[-1, 0]


def test_most_pairs_first_and_no_more_than_asked() -> None:
    problem = sampled(lambda c: 3 * (c["a"] - 0.5) * (c["b"] - 0.5) + 2 * (c["c"] - 0.5) * (c["d"] - 0.5), runs=150)
    assert [(pair.first, pair.second) for pair in top_pairs(problem, 2)] == [("a", "b"), ("c", "d")]
    assert len(top_pairs(problem, 1)) == 1


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_pairs_are_seen_where_there_are_none(seed: int) -> None:
    assert top_pairs(sampled(lambda c: c["a"] + 0.5 * c["b"], runs=80, noise=0.1, seed=seed)) == ()
    assert top_pairs(sampled(lambda c: 0.0, runs=80, noise=0.1, seed=seed)) == ()
