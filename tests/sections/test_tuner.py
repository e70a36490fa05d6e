"""What the tuner of sections promises, on work that exists on paper: it finds what is faster, claims no more, and never loses."""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.sections.conftest import SANITIZED

pytestmark = [pytest.mark.needs("c-compiler"), pytest.mark.slow]

Row = dict[str, Any]
Simulate = Callable[..., list[Row]]


@pytest.fixture(scope="session")
def simulate(program: Callable[..., Path]) -> Simulate:
    simulator = program("simulate", *SANITIZED)

    def run(
        landscape: str, noise: float, n_runs: int, *, n_seeds: int = 60, n_params: int = 4, n_levels: int = 8
    ) -> list[Row]:
        argv = [str(simulator), landscape, *map(str, (noise, n_runs, n_seeds, n_params, n_levels))]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


def share(rows: list[Row], what: Callable[[Row], bool]) -> float:
    return sum(map(what, rows)) / len(rows)


@pytest.mark.parametrize("noise", [0.02, 0.2])
def test_nothing_is_claimed_where_there_is_nothing(simulate: Simulate, noise: float) -> None:
    rows = simulate("flat", noise, 300)
    assert share(rows, lambda row: row["gain"] > 1) <= 0.05
    assert all(row["ratio"] <= 1.0001 for row in rows)


def test_where_everything_else_is_far_slower_the_loss_stays_within_the_budget(simulate: Simulate) -> None:
    """The declared risks are far too small here: one probe may overdraw, and the others wait until it is paid."""
    for n_runs in (50, 300):
        rows = simulate("traps", 0.05, n_runs)
        assert all(row["truth"] == 1 for row in rows)
        assert statistics.median(row["ratio"] for row in rows) <= 1.02
        assert max(row["ratio"] for row in rows) <= 1.05
        assert max(row["overdrawn"] for row in rows) <= 2.0, "more than one probe was made that could not be paid"


@pytest.mark.parametrize(("noise", "n_runs", "ratio"), [(0.05, 300, 0.65), (0.2, 600, 0.8)])
def test_a_gain_is_found_and_pays(simulate: Simulate, noise: float, n_runs: int, ratio: float) -> None:
    rows = simulate("bowl", noise, n_runs)
    assert statistics.median(row["ratio"] for row in rows) <= ratio
    assert max(row["ratio"] for row in rows) <= 1.03
    assert all(row["truth"] <= 1 for row in rows), "what is used is not slower than the default"
    assert share(rows, lambda row: row["low"] <= 1 / row["truth"] <= row["high"]) >= 0.85


def test_twelve_parameters_and_one(simulate: Simulate) -> None:
    many = simulate("bowl", 0.05, 600, n_seeds=20, n_params=12, n_levels=6)
    assert statistics.median(row["ratio"] for row in many) <= 0.6
    one = simulate("bowl", 0.05, 100, n_params=1)
    assert max(row["ratio"] for row in one) <= 0.95


def test_what_turns_slow_is_left_and_searched_anew(simulate: Simulate) -> None:
    rows = simulate("turning", 0.05, 1500)
    assert all(row["restarts"] >= 1 for row in rows)
    assert share(rows, lambda row: row["truth"] <= 1) == 1.0
    assert max(row["ratio"] for row in rows) <= 0.95


@pytest.mark.parametrize("rule", ["noise", "slow", "slow-choices", "choices", "work"])
def test_rules_that_hold_at_every_run(program: Callable[..., Path], rule: str) -> None:
    """`noise`: nothing is tried before noise permits; `slow`: what was far too slow is not repeated, nor what contains it;
    `work`: a run of much work is a probe only where its loss is covered."""
    done = subprocess.run([str(program("rules", *SANITIZED)), rule], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stdout + done.stderr


def test_the_fastest_of_choices_is_found_where_no_order_leads_to_it(simulate: Simulate) -> None:
    choices = simulate("choices", 0.05, 1500, n_params=2, n_levels=12)
    assert share(choices, lambda row: row["is_fastest"]) >= 0.95
    assert max(row["ratio"] for row in choices) <= 0.8
    mistaken = simulate("mistaken", 0.05, 1500, n_params=2, n_levels=12)
    assert share(mistaken, lambda row: row["is_fastest"]) <= 0.6, "as if they had an order: the test is too easy"


def test_equal_seeds_decide_equally(simulate: Simulate) -> None:
    assert simulate("bowl", 0.1, 200, n_seeds=5) == simulate("bowl", 0.1, 200, n_seeds=5)
