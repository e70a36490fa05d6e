"""The forest: its mean and variance, what failures teach it, and that it finds what matters."""

from __future__ import annotations

import numpy as np
import pytest

from trimtab.errors import UsageError
from trimtab.model.forest import Forest
from trimtab.search import Ledger
from trimtab.search.forest import ForestSearcher
from trimtab.search.surrogate import ForestModel
from trimtab.space import Config

from .problems import crash, grid, problem, trial


def bowl(config: Config) -> float:
    return sum(((float(config[name]) - 60) / 100) ** 2 for name in "ab")


def test_forest_follows_a_step_and_knows_less_far_away() -> None:
    rng = np.random.default_rng(1)
    x = np.vstack([rng.random((80, 3)) * [0.5, 1.0, 1.0], [[0.95, 0.5, 0.5]]])
    y = np.where(x[:, 1] > 0.5, 1.0, -1.0)
    y[-1] = -8.0
    forest = Forest(x, y, np.ones(81), np.random.default_rng(3))
    mean, sd = forest.predict(np.array([[0.2, 0.9, 0.5], [0.2, 0.1, 0.5], [0.75, 0.55, 0.5]]))
    assert mean[:2] == pytest.approx([1.0, -1.0], abs=0.3)
    assert sd[2] > 3 * sd[:2].max()
    assert forest.predict_mean(x[:5]) == pytest.approx(forest.predict(x[:5])[0])
    assert forest.importance.sum() == pytest.approx(1.0)


def test_precise_trials_weigh_more() -> None:
    x, y = np.repeat([[0.5]], 40, axis=0), np.tile([1.0, -1.0], 20)
    mean = Forest(x, y, np.tile([9.0, 1.0], 20), np.random.default_rng(3)).predict_mean(x[:1])
    assert mean[0] == pytest.approx(0.8, abs=0.1)


def learned(ledger: Ledger) -> ForestModel:
    model = ForestModel(cap=100)
    model.learn(ledger, np.random.default_rng(1))
    return model


def test_failures_leave_the_loss_alone() -> None:
    space = grid(2)
    with_failures, without = Ledger(space, space.default()), Ledger(space, space.default())
    for number, config in enumerate(space.sample(60, np.random.default_rng(3))):
        if float(config["a"]) > 50:
            with_failures.tell(crash(config, number))
        else:
            for ledger in (with_failures, without):
                ledger.tell(trial(config, number, bowl(config)))
    first, second = learned(with_failures), learned(without)
    at = space.features([Config({"a": 20, "b": 50}), Config({"a": 85, "b": 50})])
    assert first.predict(at)[0] == pytest.approx(second.predict(at)[0])


def test_pending_configs_are_worth_less() -> None:
    space = grid(2)
    ledger = Ledger(space, space.default())
    for number, config in enumerate(space.sample(15, np.random.default_rng(3))):
        ledger.tell(trial(config, number, bowl(config)))
    pending = [Config({"a": a, "b": 55}) for a in (79, 80, 81, 82)]
    there = space.features(pending[:1])
    free = learned(ledger).predict(there)[1][0]
    ledger.pending.update(pending)
    assert learned(ledger).predict(there)[1][0] < free


@pytest.mark.full  # the quick form: auto, which a forest is part of, in test_gp.py
def test_finds_the_bottom_of_a_bowl() -> None:
    """Median of three seeds; two knobs of four do nothing."""
    found = []
    for seed in range(3):
        searcher = ForestSearcher(problem(grid(4), seed=seed, candidates=200))
        for number in range(30):
            config = searcher.ask()[0]
            searcher.tell(trial(config, number, bowl(config), loss_se=0.01))
        best = searcher.best()
        assert best is not None
        found.append(bowl(best.config))
    assert np.median(found) < 0.02


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [("random_share", 1.0, "random_share must be 0 or more and less than 1"), ("cap", 5, "cap must be 10 or more")],
)
def test_options_are_checked(name: str, value: object, rule: str) -> None:
    with pytest.raises(UsageError) as caught:
        ForestSearcher(problem(grid(), **{name: value}))
    assert caught.value.hint == rule
