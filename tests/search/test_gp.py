"""The Gaussian-process searchers: what they start with, where they look, how failures and pending configs steer them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from trimtab.errors import UsageError
from trimtab.records import Status
from trimtab.search import create
from trimtab.search.auto import AutoSearcher
from trimtab.search.gp import GaussianProcessSearcher
from trimtab.search.optimise import _distinct, _repaired, crossed, few_changes
from trimtab.space import Config

from .problems import crash, grid, problem, trial

pytestmark = pytest.mark.slow


def bowl(config: Config) -> float:
    return sum(((float(config[name]) - 60) / 100) ** 2 for name in "ab")


def told(searcher: GaussianProcessSearcher, n: int) -> list[Config]:
    asked = []
    for number in range(n):
        asked += searcher.ask()
        searcher.tell(trial(asked[-1], number, bowl(asked[-1])))
    return asked


@pytest.mark.parametrize("searcher_class", [GaussianProcessSearcher, AutoSearcher])
def test_advice_is_asked_first_in_its_order(searcher_class: type[GaussianProcessSearcher]) -> None:
    advice = [Config({"a": 5, "b": 6, "c": 7}), Config({"a": 50, "b": 60, "c": 70})]
    searcher = searcher_class(problem(grid(3), *advice))
    assert searcher.ask(2) == advice


def test_advice_already_told_is_not_asked() -> None:
    advice = Config({"a": 5, "b": 6, "c": 7})
    searcher = AutoSearcher(problem(grid(3), advice))
    searcher.tell(trial(advice, 0, -0.1))
    assert searcher.ask()[0] != advice


def test_infeasible_advice_is_repaired() -> None:
    space = grid(2, 100, "a + b <= 100")
    searcher = AutoSearcher(problem(space, Config({"a": 90, "b": 90})))
    assert space.is_feasible(searcher.ask()[0])


@pytest.mark.parametrize(
    "searcher_class", [pytest.param(GaussianProcessSearcher, marks=pytest.mark.full), AutoSearcher]
)
def test_finds_the_bottom_of_a_bowl(searcher_class: type[GaussianProcessSearcher]) -> None:
    """By the median of three seeds: one alone shows how lucky its first configs were."""
    reached = []
    for seed in (1, 2, 3):
        searcher = searcher_class(replace(problem(grid(4)), seed=seed))
        told(searcher, 30)
        best = searcher.best()
        assert best is not None
        reached.append(bowl(best.config))
    assert np.median(reached) < 0.002


def test_few_asks_fall_into_a_crashing_region() -> None:
    """Half of the space crashes, and the loss falls towards it: after 40 trials few asks go there."""
    space = grid(3)
    searcher = GaussianProcessSearcher(problem(space))
    crashed = []
    for number in range(40):
        config = searcher.ask()[0]
        crashed.append(float(config["a"]) > 50)
        loss = -float(config["a"]) / 100
        searcher.tell(crash(config, number) if crashed[-1] else trial(config, number, loss))
    assert sum(crashed[20:]) <= 7
    best = searcher.best()
    assert best is not None
    assert float(best.config["a"]) >= 45


def test_broken_constraints_of_the_objective_are_avoided_like_crashes() -> None:
    searcher = GaussianProcessSearcher(problem(grid(2)))
    broken = []
    for number in range(30):
        config = searcher.ask()[0]
        excess = max(0.0, float(config["a"]) - 40) / 40
        broken.append(excess > 0)
        searcher.tell(trial(config, number, -float(config["a"]) / 100, excess=excess))
    assert sum(broken[15:]) <= 7
    best = searcher.best()
    assert best is not None
    assert 30 <= float(best.config["a"]) <= 40


def test_infrastructure_failure_of_planned_config_is_asked_again() -> None:
    searcher = GaussianProcessSearcher(problem(grid(2)))
    config = searcher.ask()[0]
    searcher.tell(trial(config, 0, None, status=Status.INFRASTRUCTURE))
    assert searcher.ask()[0] == config


def test_local_moves_keep_costly_knobs() -> None:
    rng = np.random.default_rng(2)
    costly = np.array([False, True] * 5)
    centre = np.full((1, 10), 0.5)
    share = {}
    for allowed in (0.0, 0.35, 1.0):
        moved = few_changes(np.full(10, 0.1), costly, allowed, 2.0)(centre, centre * 1.5, 4000, rng) != 0.5
        share[allowed] = moved[:, costly].any(axis=1).mean()
    assert share[0.0] < 0.01
    assert 0.1 < share[0.35] < 0.35 < 0.6 < share[1.0]


def test_moves_change_few_coordinates_and_at_least_one() -> None:
    rng = np.random.default_rng(2)
    near = few_changes(np.full(20, 0.05), np.zeros(20, dtype=bool), 1.0, 3.0)
    points = near(np.full((1, 20), 0.5), np.full((1, 20), 0.25), 2000, rng)
    n_changed = (points != 0.5).sum(axis=1)
    assert n_changed.min() == 1
    assert n_changed.mean() == pytest.approx(3.0, abs=0.2)
    assert ((points >= 0) & (points <= 1)).all()
    assert (points == 0.25).any()


def test_moves_prefer_heavy_coordinates() -> None:
    rng = np.random.default_rng(2)
    weights = np.array([0.7, 0.1, 0.1, 0.1])
    near = few_changes(weights, np.zeros(4, dtype=bool), 1.0, 1.0)
    changed = near(np.full((1, 4), 0.5), np.full((1, 4), 0.2), 4000, rng) != 0.5
    assert changed.mean(axis=0) == pytest.approx(weights, abs=0.03)


def test_points_between_take_every_coordinate_from_a_parent() -> None:
    parents = np.array([[0.1, 0.2, 0.3], [0.7, 0.8, 0.9]])
    points = crossed(parents, 200, np.random.default_rng(2))
    assert all(np.isin(points[:, axis], parents[:, axis]).all() for axis in range(3))
    assert len(np.unique(points, axis=0)) == 8


@pytest.mark.parametrize(("limit", "n_left"), [(64, 200), (4, 66), (200, 800)])
def test_as_many_candidates_are_repaired_as_are_lacking_of_a_quarter(limit: int, n_left: int) -> None:
    """A repair takes milliseconds; no more than 64 are made."""
    space = grid(2, 100, f"a + b <= {limit}")
    points = _repaired(space, np.random.default_rng(1).random((800, 2)))
    assert len(points) == pytest.approx(n_left, abs=3 if limit == 4 else 0)
    assert limit == 200 or space.feasible_mask(points).all()


def test_converges_when_nothing_is_to_be_gained() -> None:
    searcher = GaussianProcessSearcher(problem(grid(1, 20), marginal=0.01))
    assert not searcher.is_converged
    for number in range(21):
        config = searcher.ask()[0]
        searcher.tell(trial(config, number, abs(float(config["a"]) - 10) / 20, loss_se=0.001))
    assert searcher.is_converged


def test_converges_when_nothing_new_is_left() -> None:
    searcher = GaussianProcessSearcher(problem(grid(1, 20)))
    for value in range(21):
        searcher.tell(trial(searcher.space.repair(searcher.filler.replace({"a": value})), value, -0.1 * value))
    for _ in range(10):
        assert not searcher.is_converged
        searcher.ask()
    assert searcher.is_converged


def test_many_configs_are_capped() -> None:
    space = grid(3, 1000)
    searcher = GaussianProcessSearcher(problem(space, cap=30, candidates=50))
    for number, config in enumerate(space.sample(200, np.random.default_rng(3))):
        searcher.tell(trial(config, number, bowl(config)) if number % 5 else crash(config, number))
    assert space.is_feasible(searcher.ask(9)[-1])


def test_created_by_name() -> None:
    searcher = create("gp", problem(grid()))
    assert isinstance(searcher.inner, GaussianProcessSearcher)


def test_unknown_name() -> None:
    with pytest.raises(UsageError, match="no plug-in 'gpp' in searchers"):
        create("gpp", problem(grid()))


def test_repeats_go_to_the_best_so_far_when_it_looks_lucky() -> None:
    """With noise as large as the differences the winner of the moment is measured again, and nothing else is."""
    rng = np.random.default_rng(5)
    searcher = GaussianProcessSearcher(problem(grid(2), repeats=3))
    n_repeats = 0
    for number in range(40):
        config = searcher.ask()[0]
        if config in searcher.ledger:
            best = searcher.best()
            assert best is not None
            assert config == best.config
            n_repeats += 1
        searcher.tell(trial(config, number, bowl(config) + rng.normal(0.0, 0.1), loss_se=0.1))
    assert 1 <= n_repeats <= 15
    assert max(len(evidence.measured) for evidence in searcher.ledger) <= 3


def test_nothing_is_repeated_when_repeats_is_one() -> None:
    rng = np.random.default_rng(5)
    searcher = GaussianProcessSearcher(problem(grid(2), repeats=1))
    for number in range(25):
        config = searcher.ask()[0]
        assert config not in searcher.ledger
        searcher.tell(trial(config, number, bowl(config) + rng.normal(0.0, 0.1), loss_se=0.1))


@pytest.mark.parametrize(("n", "d"), [(0, 3), (1, 3), (40, 1), (200, 6)])
def test_candidates_that_decode_to_one_place_count_once(n: int, d: int) -> None:
    """In the order of the places, and the first of each: what is asked must not depend on how they are found."""
    places = np.random.default_rng(1).integers(3, size=(n, d)) / 2.0
    places[::7] = -0.0
    rows = _distinct(places)
    expected, first = np.unique(places, axis=0, return_index=True)
    assert rows.tolist() == first.tolist()
    assert np.array_equal(places[rows], expected)
