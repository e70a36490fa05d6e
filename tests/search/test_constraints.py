"""Searches that begin where a constraint of the objective is missed, where nothing but the baseline works, or with bad starts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.needs import IS_FULL
from trimtab.records import Role
from trimtab.search import SearcherBase
from trimtab.search.auto import AutoSearcher
from trimtab.search.contextual import ContextualGaussianProcessSearcher
from trimtab.search.gp import GaussianProcessSearcher
from trimtab.search.optimise import TrustRegion
from trimtab.search.tpe import TreeParzenSearcher
from trimtab.space import Config

from .driving import best_config
from .problems import crash, grid, problem, trial


def missed(config: Config) -> float:
    """All is well where both knobs are high; the baseline misses the constraint by 0.9."""
    return max(0.0, 85 - float(config["a"])) / 100 + max(0.0, 85 - float(config["b"])) / 100


def slower(config: Config) -> float:
    """Everything costs a little, what meets the constraint as well."""
    return sum(float(value) for value in config.values()) / 500


def asks_until_met(searcher: SearcherBase, n: int) -> int:
    """Asks until a config met the constraint; `n` when none did."""
    home = searcher.filler
    searcher.tell(trial(home, 0, 0.0, role=Role.BASELINE, excess=missed(home)))
    for number in range(1, n):
        config = searcher.ask()[0]
        searcher.tell(trial(config, number, slower(config), excess=missed(config)))
        if missed(config) == 0:
            return number
    return n


@pytest.mark.slow
@pytest.mark.parametrize(
    "searcher",
    [
        AutoSearcher,  # of which a Gaussian process is a part
        pytest.param(GaussianProcessSearcher, marks=pytest.mark.full),
        pytest.param(ContextualGaussianProcessSearcher, marks=pytest.mark.full),
        TreeParzenSearcher,
    ],
)
def test_configs_that_come_nearer_lead_to_one_that_meets_the_constraint(searcher: type[SearcherBase]) -> None:
    """It is met by 2 % of all configs, and faster ones miss it by more: without that a search goes astray."""

    few = {} if IS_FULL or "candidates" not in searcher.OPTIONS else {"candidates": 200}

    class Blind(searcher):  # type: ignore[valid-type,misc]
        NEARS_CONSTRAINTS = False

    found, astray = (
        [asks_until_met(each(problem(grid(6), seed=seed, budget=30, **few)), 30) for seed in range(1, 7)]
        for each in (searcher, Blind)
    )
    assert max(found) < 30, found
    assert sum(found) < 0.7 * sum(astray), (found, astray)


def test_a_region_forgets_losses_that_meant_something_else() -> None:
    """A config that meets the constraint begins anew, though its loss is more than loss and excess were before."""
    searcher = AutoSearcher(problem(grid(6), budget=30))
    searcher.tell(trial(searcher.filler, 0, 0.0, role=Role.BASELINE, excess=0.1))
    searcher.tell(trial(Config(dict.fromkeys("abcdef", 20)), 1, -0.5, excess=0.05))
    searcher.tell(trial(Config(dict.fromkeys("abcdef", 40)), 2, 0.4))
    (region,) = {
        id(each.region): each.region for each in searcher.members if isinstance(each.region, TrustRegion)
    }.values()
    assert region._least == 0.4


def test_no_config_is_best_until_one_meets_the_constraint() -> None:
    searcher = AutoSearcher(problem(grid(6), budget=30))
    asks_until_met(searcher, 4)
    assert searcher.best() is None
    meets = Config(dict.fromkeys("abcdef", 90))
    searcher.tell(trial(meets, 9, 0.7))
    assert best_config(searcher) == meets


def test_where_only_the_baseline_works_one_knob_is_changed_at_a_time() -> None:
    """All that goes far crashes, and so does what is asked then."""
    space = grid(6)
    searcher = AutoSearcher(problem(space, budget=40))
    searcher.tell(trial(space.default(), 0, 0.0, role=Role.BASELINE))
    for number in range(1, 4):
        searcher.tell(crash(Config(dict.fromkeys("abcdef", 60 + number)), number))
    searcher._is_designed = True
    for number in range(4, 10):
        config = searcher.ask()[0]
        assert len([name for name in space.knobs if config[name] != space.default()[name]]) == 1
        searcher.tell(crash(config, number))


def test_starts_that_turn_out_worse_than_the_baseline_are_given_up() -> None:
    space = grid(3)
    starts = [Config({"a": n, "b": n, "c": n}) for n in (90, 80, 70)]
    for make in (AutoSearcher, TreeParzenSearcher):
        searcher = make(replace(problem(space, budget=30), starts=starts))
        searcher.tell(trial(space.default(), 0, 0.0, role=Role.BASELINE))
        assert searcher.ask()[0] == starts[0]
        searcher.tell(trial(starts[0], 1, 0.4))
        for number in range(2, 6):
            config = searcher.ask()[0]
            assert config not in starts
            searcher.tell(trial(config, number, 0.1))
