"""Differential evolution: the population, selection, and failures that replace nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trimtab.errors import UsageError
from trimtab.records import Status
from trimtab.search.differential_evolution import DifferentialEvolutionSearcher
from trimtab.space import Config

from .driving import best_config, bowl, drive
from .problems import grid, problem, trial


def test_population_is_the_advice_and_a_hypercube() -> None:
    advice = Config({"a": 17, "b": 19})
    searcher = DifferentialEvolutionSearcher(problem(grid(), advice, population=6))
    asked = drive(searcher, 6)
    assert asked[0] == advice
    assert len(set(asked)) == 6
    assert set(searcher._members) == set(asked)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["best", "current-to-best", "rand"])
def test_finds_the_bottom_of_a_bowl(strategy: str) -> None:
    searcher = DifferentialEvolutionSearcher(problem(grid(), population=8, strategy=strategy))
    drive(searcher, 120)
    assert bowl(best_config(searcher)) < 0.02


@pytest.mark.parametrize("target", range(4))
def test_a_member_is_moved_by_others_only(target: int) -> None:
    """Storn and Price, eq. 2: r1, r2 and r3 differ from each other and from the target; of four members all others are drawn."""
    searcher = DifferentialEvolutionSearcher(problem(grid(4), population=4, strategy="rand"))
    drive(searcher, 4)
    for seed in range(5):
        moved = searcher._moved(target, list(np.eye(4)), np.random.default_rng(seed))
        assert np.flatnonzero(moved == 0.0).tolist() == [target]


def test_members_only_get_better_and_no_failure_gets_in() -> None:
    def loss(config: Config) -> float:
        return math.inf if float(config["a"]) > 70 else bowl(config)

    searcher = DifferentialEvolutionSearcher(problem(grid(), population=6))
    drive(searcher, 6, loss)
    before = sorted(map(loss, searcher._members))
    drive(searcher, 40, loss, start=6)
    after = sorted(map(loss, searcher._members))
    assert all(late <= early for late, early in zip(after, before, strict=True))
    assert math.isfinite(after[-1])


def test_what_others_found_replaces_the_worst_member() -> None:
    searcher = DifferentialEvolutionSearcher(problem(grid(), population=4))
    drive(searcher, 6)
    found = Config({"a": 62, "b": 31})
    searcher.tell(trial(found, 20, -5.0))
    searcher.ask()
    assert found in searcher._members


def test_a_trial_that_taught_nothing_is_forgotten() -> None:
    searcher = DifferentialEvolutionSearcher(problem(grid(), population=4))
    drive(searcher, 4)
    members = list(searcher._members)
    config = searcher.ask()[0]
    searcher.tell(trial(config, 9, None, status=Status.INFRASTRUCTURE))
    searcher.ask()
    assert searcher._members == members


def test_population_follows_the_budget() -> None:
    sizes = [DifferentialEvolutionSearcher(problem(grid(), budget=n))._n for n in (10, 96, 1000)]
    assert sizes == [6, 12, 20]


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("population", 3, "population must be 0, or 4 or more"),
        ("strategy", "worst", "strategy must be 'best', 'current-to-best' or 'rand'"),
        ("factor", 0.0, "factor must be more than 0 and at most 2"),
        ("crossover", 1.5, "crossover must be between 0 and 1"),
    ],
)
def test_options(name: str, value: object, rule: str) -> None:
    with pytest.raises(UsageError) as caught:
        DifferentialEvolutionSearcher(problem(grid(), **{name: value}))
    assert caught.value.hint == rule
