"""Sobol points cover the space more evenly than random ones, and never leave the feasible region."""

from __future__ import annotations

import numpy as np
from scipy.stats import qmc

from trimtab.search.random import RandomSearcher
from trimtab.search.sobol import SobolSearcher

from .driving import drive
from .problems import grid, problem


def test_points_are_more_even_than_random() -> None:
    space = grid(3, 1000)
    uneven = {}
    for searcher_class in (SobolSearcher, RandomSearcher):
        configs = searcher_class(problem(space, seed=3)).ask(64)
        uneven[searcher_class] = qmc.discrepancy(np.array([space.encode(config) for config in configs]))
    assert uneven[SobolSearcher] < 0.3 * uneven[RandomSearcher]


def test_every_half_quarter_and_eighth_is_visited_equally() -> None:
    values = np.array([config["a"] for config in SobolSearcher(problem(grid(2, 10_000))).ask(64)])
    assert np.histogram(values, bins=8, range=(0, 10_000))[0].tolist() == [8] * 8


def test_infeasible_points_are_moved() -> None:
    space = grid(3, 100, "a + b + c <= 60")
    asked = drive(SobolSearcher(problem(space)), 40)
    assert all(map(space.is_feasible, asked))
    assert len(set(asked)) == 40
