"""The Parzen density as a density, and the searcher that follows the ratio of two of them."""

from __future__ import annotations

import numpy as np
import pytest

from trimtab.errors import UsageError
from trimtab.search.parzen import Parzen
from trimtab.search.tpe import TreeParzenSearcher
from trimtab.space import Config

from .problems import crash, grid, problem, trial

pytestmark = pytest.mark.slow

BINS = (np.array([0.0, 0.2, 1.0]), np.array([0, 2, 4]))
"""A number, a number with two special values, a choice of four."""

POINTS = np.array([[0.3, 0.6, 0.125], [0.35, 0.05, 0.125], [0.8, 0.9, 0.875]])


def bowl(config: Config) -> float:
    return sum(((float(config[name]) - 60) / 100) ** 2 for name in "ab")


@pytest.mark.parametrize("is_joint", [True, False])
@pytest.mark.parametrize("n", [0, 1, 3])
def test_the_density_adds_up_to_one(is_joint: bool, n: int) -> None:
    density = Parzen(POINTS[:n], BINS, is_joint=is_joint)
    fine = (np.arange(100) + 0.5) / 100
    second = [0.05, 0.15, *(0.2 + 0.8 * fine)]
    weights = [1.0, 1.0, *np.full(100, 0.8 / 100)]
    total = 0.0
    for choice in (0.125, 0.375, 0.625, 0.875):
        for place, weight in zip(second, weights, strict=True):
            points = np.column_stack([fine, np.full(100, place), np.full(100, choice)])
            total += weight * float(np.exp(density.log_density(points)).mean())
    assert total == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("is_joint", [True, False])
def test_draws_follow_the_density(is_joint: bool) -> None:
    """Shares of drawn points in cells against the mass that the density gives them."""
    density = Parzen(POINTS, BINS, is_joint=is_joint)
    drawn = density.draw(20_000, np.random.default_rng(1))
    even = np.random.default_rng(2).random((20_000, 3))
    even[:, 1] = 0.2 + 0.8 * even[:, 1]
    even[:, 2] = 0.125
    expected = 0.8 * 0.0 + float(np.exp(density.log_density(even)).mean()) * 0.8
    found = float(((drawn[:, 1] >= 0.2) & (drawn[:, 2] < 0.25)).mean())
    assert found == pytest.approx(expected, abs=0.02)
    assert ((drawn >= 0) & (drawn <= 1)).all()


def test_a_joint_density_keeps_what_belongs_together() -> None:
    bins = (np.zeros(2), np.zeros(2, dtype=np.int64))
    corners = np.repeat([[0.1, 0.1], [0.9, 0.9]], 20, axis=0)
    at = np.array([[0.1, 0.1], [0.1, 0.9]])
    joint = Parzen(corners, bins, is_joint=True).log_density(at)
    single = Parzen(corners, bins, is_joint=False).log_density(at)
    assert joint[0] > joint[1] + 1.0
    assert single[0] == pytest.approx(single[1])


def test_widths_of_single_knobs_are_gaps_in_the_range() -> None:
    """Special values, which are bins, are no neighbours, and the range ends where the bins begin."""
    places = np.array([[0.1], [0.3], [0.8]])
    plain = Parzen(places, (np.zeros(1), np.zeros(1, dtype=np.int64)), is_joint=False)
    assert plain._sd.ravel() == pytest.approx([0.25, 0.5, 0.5], abs=1e-12)
    mixed = np.vstack([0.6 + 0.4 * places, [[0.15], [0.45], [0.45]]])
    special = Parzen(mixed, (np.array([0.6]), np.array([2])), is_joint=False)
    assert special._sd[:3] == pytest.approx(0.4 * plain._sd)


@pytest.mark.parametrize("multivariate", [True, pytest.param(False, marks=pytest.mark.full)])
def test_finds_the_bottom_of_a_bowl(multivariate: bool) -> None:
    """Median of three seeds; three knobs of five do nothing."""
    found = []
    for seed in range(3):
        searcher = TreeParzenSearcher(problem(grid(5), seed=seed, multivariate=multivariate))
        for number in range(60):
            config = searcher.ask()[0]
            searcher.tell(trial(config, number, bowl(config), loss_se=0.01))
        best = searcher.best()
        assert best is not None
        found.append(bowl(best.config))
    assert np.median(found) < 0.02


def test_failures_are_left_alone() -> None:
    """Half of the space crashes and the loss falls towards it."""
    searcher = TreeParzenSearcher(problem(grid(3)))
    crashed = []
    for number in range(60):
        config = searcher.ask()[0]
        crashed.append(float(config["a"]) > 50)
        searcher.tell(crash(config, number) if crashed[-1] else trial(config, number, -float(config["a"]) / 100))
    assert sum(crashed[30:]) <= 9


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("gamma", 1.0, "gamma must be between 0 and 1"),
        ("startup", -1, "startup must be 0 or more"),
        ("draws", 0, "draws must be 1 or more"),
        ("cap", 5, "cap must be 10 or more"),
    ],
)
def test_options_are_checked(name: str, value: object, rule: str) -> None:
    with pytest.raises(UsageError) as caught:
        TreeParzenSearcher(problem(grid(), **{name: value}))
    assert caught.value.hint == rule


def test_the_few_configs_that_meet_the_constraints_are_not_forgotten() -> None:
    """More trials than enter the densities, nearly all of them fast and beyond a limit."""
    searcher = TreeParzenSearcher(problem(grid(), startup=1, cap=10))
    for number in range(40):
        is_met = number == 5
        config = Config({"a": number, "b": number})
        searcher.tell(trial(config, number, -15.5 if is_met else -float(number), excess=0.0 if is_met else 1.0))
    assert searcher.space.is_feasible(searcher.ask(3)[-1])
