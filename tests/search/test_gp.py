"""The Gaussian-process searchers: what they start with, where they look, how failures and pending configs steer them."""

from __future__ import annotations

import numpy as np
import pytest

from trimtab.errors import UsageError
from trimtab.records import Status
from trimtab.search import create
from trimtab.search.auto import AutoSearcher
from trimtab.search.candidates import Moves
from trimtab.search.gp import GaussianProcessSearcher
from trimtab.search.ledger import Ledger
from trimtab.search.surrogate import Surrogate, fit_surrogate
from trimtab.space import Config

from .problems import crash, grid, problem, trial


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


@pytest.mark.parametrize("searcher_class", [GaussianProcessSearcher, AutoSearcher])
def test_finds_the_bottom_of_a_bowl(searcher_class: type[GaussianProcessSearcher]) -> None:
    searcher = searcher_class(problem(grid(4)))
    told(searcher, 30)
    best = searcher.best()
    assert best is not None
    assert bowl(best.config) < 0.01


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


def test_small_budget_explores_nothing() -> None:
    space = grid(10)
    advice = Config(dict.fromkeys(space.knobs, 60))
    designs = {budget: AutoSearcher(problem(space, advice, budget=budget))._design for budget in (8, 60)}
    assert designs[8] == [advice]
    assert len(designs[60]) > 1
    assert all(0 < len(advice.difference(config)) < 9 for config in designs[60][1:])


def test_local_moves_keep_costly_knobs() -> None:
    rng = np.random.default_rng(2)
    costly = np.array([False, True] * 5)
    centre = np.full((1, 10), 0.5)
    share = {}
    for allowed in (0.0, 0.35, 1.0):
        moved = Moves(np.full(10, 0.1), costly, allowed, 2.0).near(centre, centre * 1.5, 4000, rng) != 0.5
        share[allowed] = moved[:, costly].any(axis=1).mean()
    assert share[0.0] < 0.01
    assert 0.1 < share[0.35] < 0.35 < 0.6 < share[1.0]


def test_moves_change_few_coordinates_and_at_least_one() -> None:
    rng = np.random.default_rng(2)
    moves = Moves(np.full(20, 0.05), np.zeros(20, dtype=bool), 1.0, 3.0)
    points = moves.near(np.full((1, 20), 0.5), np.full((1, 20), 0.25), 2000, rng)
    n_changed = (points != 0.5).sum(axis=1)
    assert n_changed.min() == 1
    assert n_changed.mean() == pytest.approx(3.0, abs=0.2)
    assert ((points >= 0) & (points <= 1)).all()
    assert (points == 0.25).any()


def test_moves_prefer_heavy_coordinates() -> None:
    rng = np.random.default_rng(2)
    weights = np.array([0.7, 0.1, 0.1, 0.1])
    moves = Moves(weights, np.zeros(4, dtype=bool), 1.0, 1.0)
    changed = moves.near(np.full((1, 4), 0.5), np.full((1, 4), 0.2), 4000, rng) != 0.5
    assert changed.mean(axis=0) == pytest.approx(weights, abs=0.03)


def test_points_between_take_every_coordinate_from_a_parent() -> None:
    parents = np.array([[0.1, 0.2, 0.3], [0.7, 0.8, 0.9]])
    points = Moves.between(parents, 200, np.random.default_rng(2))
    assert all(np.isin(points[:, axis], parents[:, axis]).all() for axis in range(3))
    assert len(np.unique(points, axis=0)) == 8


def test_pending_points_lose_their_worth() -> None:
    """Kriging believer: what is being measured already is not worth asking again, nor is its neighbourhood."""
    space = grid(2)
    ledger = Ledger(space, space.default())
    for number, config in enumerate(space.sample(12, np.random.default_rng(3))):
        ledger.tell(trial(config, number, bowl(config)))
    evidence = list(ledger)
    hyper = fit_surrogate(evidence, 100)
    there = space.features([Config({"a": 80, "b": 55})])
    free = Surrogate(evidence, np.empty((0, 2)), hyper, cap=100, caution=1.0)
    taken = Surrogate(evidence, there, hyper, cap=100, caution=1.0)
    assert taken.worth(there)[0] < free.worth(there)[0] - 0.5


def test_surrogate_keeps_the_best_and_the_latest() -> None:
    space = grid(2)
    ledger = Ledger(space, space.default())
    configs = space.sample(60, np.random.default_rng(3))
    for number, config in enumerate(configs):
        ledger.tell(trial(config, number, bowl(config)))
    evidence = list(ledger)
    surrogate = Surrogate(evidence, np.empty((0, 2)), fit_surrogate(evidence, 20), cap=20, caution=1.0)
    kept = {leader.config for leader in surrogate.leaders}
    assert len(kept) == 20
    assert kept >= set(configs[-6:])
    assert kept >= set(sorted(configs, key=bowl)[:10])


def test_converges_when_nothing_is_to_be_gained() -> None:
    searcher = GaussianProcessSearcher(problem(grid(1, 20), marginal=0.01))
    assert not searcher.is_converged
    for number in range(21):
        config = searcher.ask()[0]
        searcher.tell(trial(config, number, abs(float(config["a"]) - 10) / 20, loss_se=0.001))
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


def test_surrogates_grow_while_only_new_configs_come() -> None:
    """The grown surrogate believes the same as one made anew; a repeat of an old config makes it start over."""
    space = grid(2)
    ledger = Ledger(space, space.default())
    configs = space.sample(20, np.random.default_rng(3))
    for number, config in enumerate(configs[:15]):
        ledger.tell(trial(config, number, bowl(config)))
    hyper, none = fit_surrogate(list(ledger), 100), np.empty((0, 2))
    old = Surrogate(list(ledger), none, hyper, cap=100, caution=1.0)
    at = space.features(space.sample(5, np.random.default_rng(4)))
    for number, config in enumerate([*configs[15:], configs[0]], start=15):
        ledger.tell(trial(config, number, bowl(config) + 0.01))
        grown = Surrogate(list(ledger), none, hyper, cap=100, caution=1.0, previous=old)
        anew = Surrogate(list(ledger), none, hyper, cap=100, caution=1.0)
        assert grown.worth(at) == pytest.approx(anew.worth(at), rel=1e-6)
        old = grown


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
