"""Hill climbing: neighbours of the best, kept when better, a new start when stuck, and never an invalid config."""

from __future__ import annotations

import math

import pytest

from trimtab.errors import UsageError
from trimtab.search.hill_climbing import HillClimbingSearcher
from trimtab.space import Config

from .driving import best_config, bowl, drive
from .problems import grid, problem, trial


def test_starts_from_the_advice_and_moves_few_knobs() -> None:
    advice = Config(dict.fromkeys("abcdefgh", 50))
    searcher = HillClimbingSearcher(problem(grid(8), advice, probes=0))
    asked = drive(searcher, 9, lambda config: float(config != advice))
    assert asked[0] == advice
    changed = [len(config.difference(advice)) for config in asked[1:]]
    assert max(changed) <= 5
    assert sum(changed) / len(changed) < 3


def test_starts_from_the_baseline_without_advice() -> None:
    space = grid(3)
    assert HillClimbingSearcher(problem(space, probes=0)).ask() == [space.default()]


def test_climbs_from_what_others_found() -> None:
    searcher = HillClimbingSearcher(problem(grid(8, 1000), probes=0, radius=0.02))
    drive(searcher, 3, lambda config: 1.0)
    found = Config(dict.fromkeys("abcdefgh", 900))
    searcher.tell(trial(found, 10, -5.0))
    drive(searcher, 2, lambda config: 1.0, start=11)
    assert len(searcher.ask()[0].difference(found)) <= 5


def test_finds_the_bottom_of_a_bowl() -> None:
    searcher = HillClimbingSearcher(problem(grid()))
    drive(searcher, 60)
    assert bowl(best_config(searcher)) < 0.02


def test_never_invalid_under_a_tight_constraint() -> None:
    space = grid(4, 100, "a + b + c + d <= 40", "a >= b")
    asked = drive(HillClimbingSearcher(problem(space)), 60)
    assert all(map(space.is_feasible, asked))


@pytest.mark.parametrize("restart", ["kick", "random"])
def test_a_new_start_leaves_a_local_minimum(restart: str) -> None:
    def loss(config: Config) -> float:
        a, b = float(config["a"]), float(config["b"])
        return min(abs(a - 10) / 100, abs(a - 90) / 30 - 0.5) + abs(b - 50) / 100

    options = {"radius": 0.02, "probes": 0, "patience": 6, "restart": restart, "kick": 0.5}
    searcher = HillClimbingSearcher(problem(grid(), Config({"a": 10, "b": 50}), **options))
    drive(searcher, 6, loss)
    assert loss(best_config(searcher)) >= 0
    drive(searcher, 150, loss, start=6)
    assert loss(best_config(searcher)) < -0.3


def test_starts_elsewhere_when_the_baseline_crashes() -> None:
    searcher = HillClimbingSearcher(problem(grid(), probes=0))
    drive(searcher, 40, lambda config: math.inf if float(config["a"]) < 30 else bowl(config))
    assert bowl(best_config(searcher)) < 0.2


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("probes", -1, "probes must be 0 or more"),
        ("radius", 0.0, "radius must be more than 0 and at most 1"),
        ("kick", 1.5, "kick must be more than 0 and at most 1"),
        ("width", 0, "width must be 1 or more"),
        ("patience", -1, "patience must be 0 or more"),
        ("restart", "never", "restart must be 'kick' or 'random'"),
    ],
)
def test_options(name: str, value: object, rule: str) -> None:
    with pytest.raises(UsageError) as caught:
        HillClimbingSearcher(problem(grid(), **{name: value}))
    assert caught.value.hint == rule
