"""AtuneRT: few probes, one simplex, stop when going on cannot pay, and an honest account."""

from __future__ import annotations

import math

import pytest

from trimtab.records import Status
from trimtab.search.atunert import Amortisation, AtuneRTSearcher
from trimtab.space import Config

from .driving import best_config, bowl, drive
from .problems import crash, grid, problem, trial


def test_converges_with_its_first_simplex_near_the_bottom() -> None:
    searcher = AtuneRTSearcher(problem(grid()))
    n = 0
    while not searcher.is_converged:
        drive(searcher, 1, start=n)
        n += 1
    assert 8 < n < 40
    assert bowl(best_config(searcher)) < 0.05


def test_flat_surface_ends_soon() -> None:
    searcher = AtuneRTSearcher(problem(grid(), probes=3))
    n = 0
    while not searcher.is_converged:
        drive(searcher, 1, lambda config: 0.0, start=n)
        n += 1
    assert n <= 20


def test_asking_goes_on_after_convergence() -> None:
    searcher = AtuneRTSearcher(problem(grid()))
    asked = drive(searcher, 60)
    assert searcher.is_converged
    assert len(set(asked)) == 60


def test_account() -> None:
    searcher = AtuneRTSearcher(problem(grid()))
    searcher.tell(trial(Config({"a": 1, "b": 1}), 0, math.log(3.0)))
    searcher.tell(trial(Config({"a": 2, "b": 1}), 1, math.log(0.75)))
    searcher.tell(crash(Config({"a": 3, "b": 1}), 2))
    account = searcher.amortisation()
    assert account.n_trials == 3
    assert account.cost == pytest.approx(2.0 - 0.25 + 1.0)
    assert account.gain == pytest.approx(0.25)
    assert account.break_even == pytest.approx(11.0)


def test_account_ignores_what_was_no_run_of_the_config() -> None:
    searcher = AtuneRTSearcher(problem(grid()))
    config = Config({"a": 1, "b": 1})
    searcher.tell(trial(config, 0, None, status=Status.INFRASTRUCTURE))
    for _ in range(2):
        searcher.tell(trial(config, 1, 0.1))
    assert searcher.amortisation().n_trials == 1


def test_account_without_a_gain_never_breaks_even_and_one_without_cost_has() -> None:
    assert Amortisation(n_trials=4, cost=2.0, gain=0.0).break_even == math.inf
    assert Amortisation(n_trials=4, cost=-0.1, gain=0.3).break_even == 0.0
    assert AtuneRTSearcher(problem(grid())).amortisation() == Amortisation(0, 0.0, 0.0)


def test_a_loss_beyond_all_measure_does_not_overflow() -> None:
    searcher = AtuneRTSearcher(problem(grid(), runs=10))
    searcher.tell(trial(Config({"a": 1, "b": 1}), 0, 1e6))
    assert math.isfinite(searcher.amortisation().cost)
    assert searcher.amortisation().gain == 0.0


def _trials_until_converged(runs: int) -> int:
    searcher = AtuneRTSearcher(problem(grid(2, 1000), runs=runs, marginal=1e-6, spread=1e-9, size=1e-6, patience=200))
    n = 0
    while not searcher.is_converged:
        drive(searcher, 1, lambda c: ((float(c["a"]) - 620) ** 2 + (float(c["b"]) - 310) ** 2) / 250_000, start=n)
        n += 1
    return n


def test_few_runs_end_the_search_earlier_than_many() -> None:
    few, many, unlimited = map(_trials_until_converged, (15, 100_000, 0))
    assert few <= 15 < many <= unlimited
