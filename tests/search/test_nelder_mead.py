"""Nelder-Mead as a state machine: probes, simplex, penalty, convergence, restart."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from trimtab.records import Status
from trimtab.search.nelder_mead import NelderMeadSearcher
from trimtab.space import Config, Space

from .problems import crash, grid, problem, trial

Loss = Callable[[Config], float]


def bowl(config: Config) -> float:
    """Least (0) at a=62, b=31."""
    return ((float(config["a"]) - 62) / 50) ** 2 + ((float(config["b"]) - 31) / 50) ** 2


def drive(searcher: NelderMeadSearcher, n: int, loss: Loss = bowl) -> list[Config]:
    asked = []
    for number in range(n):
        asked += searcher.ask()
        value = loss(asked[-1])
        finite = math.isfinite(value)
        searcher.tell(trial(asked[-1], number, value) if finite else crash(asked[-1], number))
    return asked


def best_config(searcher: NelderMeadSearcher) -> Config:
    best = searcher.best()
    assert best is not None
    return best.config


def test_advice_and_probes_come_first() -> None:
    space = grid()
    advice = Config({"a": 17, "b": 19})
    searcher = NelderMeadSearcher(problem(space, advice, probes=3))
    asked = drive(searcher, 5)
    assert asked[0] == advice
    # The fifth is the first vertex after the start: it differs from the best of the first four in one knob.
    start = min(asked[:4], key=bowl)
    assert len(asked[4].difference(start)) == 1


def test_finds_the_bottom_of_a_bowl() -> None:
    searcher = NelderMeadSearcher(problem(grid(), probes=4))
    drive(searcher, 60)
    assert bowl(best_config(searcher)) < 0.003


def test_reflects_expands_and_contracts_by_the_coefficients() -> None:
    """In one dimension a step can be followed by hand: vertices 50 (loss 50) and 60 (loss 40), falling to the right."""
    space = grid(1)
    options = {"probes": 1, "radius": 0.1, "reflect": 1.0, "expand": 2.0}
    searcher = NelderMeadSearcher(problem(space, **options))
    start = searcher.ask()[0]
    searcher.tell(trial(Config({"a": 50}), 0, -1000.0))
    searcher.tell(trial(start, 1, 100.0))
    vertex = int(searcher.ask()[0]["a"])
    assert abs(vertex - 50) == 10
    worse = vertex
    searcher.tell(trial(Config({"a": worse}), 2, -900.0))
    reflected = searcher.ask()[0]
    assert reflected["a"] == 50 - (worse - 50)
    searcher.tell(trial(reflected, 3, -1100.0))
    assert searcher.ask()[0]["a"] == 50 - 2 * (worse - 50)


def test_infeasible_points_are_never_asked_but_steer_the_simplex() -> None:
    space = grid(2, 100, "a + b <= 80")
    searcher = NelderMeadSearcher(problem(space, probes=4))
    asked = drive(searcher, 60)
    assert all(space.is_feasible(config) for config in asked)
    # The bottom (62, 31) is infeasible; the least loss on the border is at (55.5, 24.5), about 0.034.
    assert bowl(best_config(searcher)) < 0.06


def test_crashing_region_is_left() -> None:
    def loss(config: Config) -> float:
        return math.inf if float(config["a"]) > 70 else bowl(config)

    searcher = NelderMeadSearcher(problem(grid(), probes=4))
    drive(searcher, 60, loss)
    assert bowl(best_config(searcher)) < 0.01


def test_converges_and_goes_on_when_asked() -> None:
    searcher = NelderMeadSearcher(problem(grid(), probes=2))
    for number in range(300):
        config = searcher.ask()[0]
        searcher.tell(trial(config, number, 0.0))
        if searcher.is_converged:
            break
    assert searcher.is_converged
    assert searcher.ask()[0] not in searcher.ledger


def test_a_restart_leaves_a_local_minimum() -> None:
    """A wide valley at a=20 and a deeper, narrow one at a=85: only a new simplex elsewhere finds the second."""

    def loss(config: Config) -> float:
        a, b = float(config["a"]), float(config["b"])
        return min(abs(a - 20) / 100, abs(a - 85) / 20 - 0.5) + abs(b - 50) / 100

    searcher = NelderMeadSearcher(problem(grid(), Config({"a": 22, "b": 48}), probes=1, radius=0.05))
    drive(searcher, 12, loss)
    assert loss(best_config(searcher)) >= 0
    drive(searcher, 150, loss)
    assert loss(best_config(searcher)) < -0.3


def test_infrastructure_failure_is_asked_again() -> None:
    searcher = NelderMeadSearcher(problem(grid(), probes=1))
    config = searcher.ask()[0]
    searcher.tell(trial(config, 0, None, status=Status.INFRASTRUCTURE))
    assert searcher.ask()[0] == config


def test_known_losses_are_not_measured_again() -> None:
    """A simplex walks over configs that another search has told without asking for them."""
    space = grid(1, 10)
    searcher = NelderMeadSearcher(problem(space, probes=1))
    for a in range(10):
        searcher.tell(trial(Config({"a": a}), a, float(a)))
    assert searcher.ask()[0] == Config({"a": 10})


def test_asks_beyond_the_simplex_are_near_the_best() -> None:
    space: Space = grid(2, 1000)
    searcher = NelderMeadSearcher(problem(space, probes=1))
    drive(searcher, 8, lambda config: float(config["a"]) / 1000)
    waiting = searcher.ask()[0]
    extra = searcher.ask(4)
    assert waiting not in extra
    assert len(set(extra)) == 4


@pytest.mark.parametrize("init", ["axes", "random"])
def test_initial_simplex_is_feasible_and_spans_the_space(init: str) -> None:
    space = grid(4, 100, "a + b + c + d <= 150")
    searcher = NelderMeadSearcher(problem(space, probes=1, init=init))
    probe = searcher.ask()[0]
    searcher.tell(trial(probe, 0, 0.0))
    vertices = searcher.ask(4)
    assert len({probe, *vertices}) == 5
    assert all(space.is_feasible(config) for config in vertices)
