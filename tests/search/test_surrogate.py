"""What members believe: pending configs, which configs enter a model, and that a grown model is the same as a new one."""

from __future__ import annotations

import numpy as np
import pytest

from trimtab.search import Ledger
from trimtab.search.acquisition import scored
from trimtab.search.surrogate import Feasibility, GaussianModel
from trimtab.space import Config, Space

from .driving import bowl
from .problems import crash, grid, trial


def told(space: Space, n: int) -> Ledger:
    ledger = Ledger(space, space.default())
    for number, config in enumerate(space.sample(n, np.random.default_rng(3))):
        ledger.tell(trial(config, number, bowl(config)))
    return ledger


def learned(ledger: Ledger, cap: int = 100) -> GaussianModel:
    model = GaussianModel(2, cap)
    model.learn(ledger, np.random.default_rng(1))
    return model


def test_pending_points_lose_their_worth() -> None:
    """Kriging believer: what is being measured already is not worth asking again, nor is its neighbourhood."""
    space, rng = grid(2), np.random.default_rng(1)
    ledger = told(space, 12)
    pending = Config({"a": 80, "b": 55})
    there = space.features([pending])
    free = scored(learned(ledger), ledger, (), rng)(there)[0]
    ledger.pending[pending] += 1
    assert scored(learned(ledger), ledger, (), rng)(there)[0] < free - 0.5


def test_a_model_keeps_the_best_and_the_latest() -> None:
    space = grid(2)
    ledger = told(space, 60)
    configs = [e.config for e in ledger]
    kept = {leader.config for leader in learned(ledger, 20).leaders}
    assert len(kept) == 20
    assert kept >= set(configs[-6:])
    assert kept >= set(sorted(configs, key=bowl)[:10])


def test_with_many_configs_a_fit_keeps_its_kernel() -> None:
    """The kernel of a large model is not chosen anew: it goes on from the hyper-parameters before."""
    space, rng = grid(2), np.random.default_rng(1)
    ledger = told(space, 125)
    model = learned(ledger, 200)
    chosen = model._chosen
    assert chosen is not None
    for number, config in enumerate(space.sample(30, rng), start=500):
        ledger.tell(trial(config, number, bowl(config)))
    model.priors = ()
    model.learn(ledger, rng)
    assert model._chosen is not None
    assert model._chosen[1] is chosen[1]
    assert model._chosen[0] is not chosen[0]


def test_a_model_stays_while_nothing_is_measured() -> None:
    """A config that is asked for meanwhile counts beside it."""
    space, rng = grid(2), np.random.default_rng(1)
    ledger = told(space, 16)
    model = learned(ledger)
    base = model.base
    ledger.tell(crash(Config({"a": 3, "b": 3}), 90))
    ledger.pending[Config({"a": 80, "b": 55})] += 1
    model.learn(ledger, rng)
    assert model.base is base
    assert len(model.process) == 17
    ledger.tell(trial(ledger.evidence[0].config, 91, 0.5))  # a repeat
    model.learn(ledger, rng)
    assert model.base is not base


def test_models_grow_while_only_new_configs_come() -> None:
    """The grown model believes the same as one made anew; a repeat of an old config makes it start over."""
    space, none = grid(2), np.empty((0, 0))
    ledger = told(space, 15)
    grown = learned(ledger)
    held = grown.scale, grown.base.hyper
    at = space.features(space.sample(5, np.random.default_rng(4)))
    more = [*space.sample(5, np.random.default_rng(9)), next(iter(ledger)).config]
    for number, config in enumerate(more, start=15):
        ledger.tell(trial(config, number, bowl(config) + 0.01))
        anew = GaussianModel(2, 100)
        for model in (grown, anew):
            model.believe(ledger.evidence, none, *held)
        for ours, theirs in zip(grown.predict(at), anew.predict(at), strict=True):
            assert ours == pytest.approx(theirs, rel=1e-6)


def test_the_border_is_seen_however_rare_failures_are() -> None:
    """One of six knobs decides; the classifier's kernel is fitted on shares of unit variance, for which its priors hold."""
    space = grid(6)
    ledger = Ledger(space, space.default())
    for number, config in enumerate(space.sample(60, np.random.default_rng(2))):
        ledger.tell(crash(config, number) if float(config["c"]) > 90 else trial(config, number))
    feasibility = Feasibility(100)
    assert feasibility.learn(ledger.evidence) is not None
    assert feasibility._hyper is not None
    effects = feasibility._hyper[0].effects
    assert np.argmax(effects) == 2
    assert effects[2] > 4 * np.delete(effects, 2).max()
