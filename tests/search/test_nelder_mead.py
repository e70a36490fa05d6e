"""Nelder-Mead as a state machine: probes, simplex, penalty, convergence, restart."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trimtab.records import Status
from trimtab.search.nelder_mead import NelderMeadSearcher
from trimtab.space import Config, Space

from .driving import best_config, bowl, drive
from .problems import crash, grid, problem, trial


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


def test_an_outside_contraction_is_a_part_of_the_reflection() -> None:
    """A reflection twice as far, which is better than the worst vertex only, is taken back by half."""
    options = {"probes": 1, "radius": 0.1, "reflect": 2.0, "expand": 4.0, "contract": 0.5}
    searcher = NelderMeadSearcher(problem(grid(1), **options))
    start = searcher.ask()[0]
    searcher.tell(trial(Config({"a": 50}), 0, -1000.0))
    searcher.tell(trial(start, 1, 100.0))
    worst = int(searcher.ask()[0]["a"])
    searcher.tell(trial(Config({"a": worst}), 2, -900.0))
    reflected = searcher.ask()[0]
    assert reflected["a"] == 50 - 2 * (worst - 50)
    searcher.tell(trial(reflected, 3, -950.0))
    assert searcher.ask()[0]["a"] == 50 - (worst - 50)


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


@pytest.mark.parametrize("init", ["axes", "random", "boundary", "latin", "prior"])
def test_initial_simplex_is_feasible_and_spans_the_space(init: str) -> None:
    space = grid(4, 100, "a + b + c + d <= 150")
    searcher = NelderMeadSearcher(problem(space, probes=1, init=init))
    probe = searcher.ask()[0]
    searcher.tell(trial(probe, 0, 0.0))
    vertices = searcher.ask(4)
    assert all(space.is_feasible(config) for config in vertices)
    edges = np.array([space.encode(config) - space.encode(probe) for config in vertices])
    assert np.linalg.matrix_rank(edges) == 4


def _vertices(init: str, n: int = 2, **options: object) -> list[Config]:
    """The vertices beside the start a=30, b=70, ..."""
    start = Config(dict(zip("abcd"[:n], (30, 70, 10, 90), strict=False)))
    searcher = NelderMeadSearcher(problem(grid(n), start, probes=0, init=init, **options))
    searcher.ask()
    searcher.tell(trial(start, 0, 0.0))
    return searcher.ask(n)


def test_boundary_goes_to_the_far_ends() -> None:
    assert _vertices("boundary") == [Config({"a": 100, "b": 70}), Config({"a": 30, "b": 0})]


def test_latin_takes_each_slice_of_the_box_once() -> None:
    vertices = _vertices("latin", 4, radius=0.08)
    for name, low in (("a", 22.0), ("b", 62.0), ("c", 2.0), ("d", 82.0)):
        places = sorted((float(config[name]) - low) / 16 * 4 for config in vertices)
        assert all(i - 0.15 <= place <= i + 1.15 for i, place in enumerate(places))


def test_random_stays_within_the_radius() -> None:
    for config in _vertices("random", 4, radius=0.1):
        assert all(abs(float(config[name]) - at) <= 10 for name, at in zip("abcd", (30, 70, 10, 90), strict=True))


def test_prior_takes_the_best_that_is_known_and_leaves_out_what_adds_no_dimension() -> None:
    """Of five known configs the three best lie on a line, one failed; the third vertex is the next best off the line."""
    searcher = NelderMeadSearcher(problem(grid(), probes=0, init="prior"))
    known = [(50, 50, 0.0), (60, 60, 0.1), (40, 40, 0.2), (20, 80, 0.9), (80, 20, 0.5)]
    for number, (a, b, loss) in enumerate(known):
        searcher.tell(trial(Config({"a": a, "b": b}), number, loss))
    searcher.tell(crash(Config({"a": 50, "b": 51}), 9))
    # The first ask is the reflection of the worst vertex, (80, 20), through the middle of the others.
    assert searcher.ask() == [Config({"a": 30, "b": 90})]


def test_prior_fills_up_along_the_axes() -> None:
    searcher = NelderMeadSearcher(problem(grid(3), probes=0, init="prior"))
    for number, a in enumerate((50, 60, 70)):
        searcher.tell(trial(Config({"a": a, "b": 50, "c": 50}), number, float(number)))
    changed = [config.difference(Config({"a": 50, "b": 50, "c": 50})) for config in searcher.ask(2)]
    assert sorted(map(tuple, changed)) == [("b",), ("c",)]


def test_repair_asks_the_nearest_feasible_point_instead() -> None:
    """The reflected point (70, 70) breaks a + b <= 110: penalty never asks it, repair asks a point on the border."""
    space = grid(2, 100, "a + b <= 110")
    for reject in ("penalty", "repair"):
        searcher = NelderMeadSearcher(problem(space, probes=0, init="prior", reject=reject))
        for number, (a, b) in enumerate([(60, 40), (40, 60), (30, 30)]):
            searcher.tell(trial(Config({"a": a, "b": b}), number, float(number)))
        asked = searcher.ask()[0]
        assert space.is_feasible(asked)
        total = float(asked["a"]) + float(asked["b"])
        assert total == 110 if reject == "repair" else total < 100


@pytest.mark.slow
def test_collapse_to_one_lattice_point_starts_a_new_simplex() -> None:
    """On a coarse lattice the vertices soon are neighbours; every config there is gets asked, and none twice."""
    space = grid(2, 7)
    searcher = NelderMeadSearcher(problem(space, probes=1))
    asked = drive(searcher, 64, lambda config: abs(float(config["a"]) - 3) + abs(float(config["b"]) - 4))
    assert len(set(asked)) == 64
    assert best_config(searcher) == Config({"a": 3, "b": 4})


def test_convergence_shows_with_the_trial_that_brings_it_and_not_one_ask_later() -> None:
    searcher = NelderMeadSearcher(problem(grid(1, 1000), probes=1, restarts=1))
    was_converged = False
    for number in range(200):
        config = searcher.ask()[0]
        was_converged = searcher.is_converged
        searcher.tell(trial(config, number, 0.0))
        if searcher.is_converged:
            break
    assert searcher.is_converged
    assert not was_converged
