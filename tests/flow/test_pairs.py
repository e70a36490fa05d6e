"""Pairs and blocks: their runs follow each other at once, whatever stops the study in between."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from trimtab.flow import Ask, Budget
from trimtab.flow.pairs import Purse, in_one_go
from trimtab.records import Context, Role, Status, Trial
from trimtab.space import Config

FOUND, FAST = Config({"cache": 128}), Config({"cache": 512})
RUNS = [(FOUND, Role.PROOF_BASELINE), (FAST, Role.PROOF_CANDIDATE)]


def block(
    started_at: list[float], statuses: list[Status] | None = None, *, cost_s: float = 20.0, is_session: bool = False
) -> tuple[Any, list[Ask]]:
    """What a block comes to whose runs begin at these times, and what it asked for."""
    task: Any = SimpleNamespace(windows_s=None if is_session else (5.0, 5.0))
    steps = in_one_go(task, RUNS, lambda trial: trial.status is Status.CRASHED)
    asks = [next(steps)]
    try:
        for number, at in enumerate(started_at):
            status = Status.OK if statuses is None else statuses[number]
            trial = Trial(
                number=number, role=asks[-1].role, config=asks[-1].config, context=Context("w", 1), status=status,
                started_at=at, cost_s={"measure": cost_s},
            )  # fmt: skip
            asks.append(steps.send(trial))
    except StopIteration as end:
        return [trial.number for trial in end.value], asks
    pytest.fail("it goes on")


def test_runs_that_follow_each_other_are_a_block() -> None:
    used, asks = block([100.0, 121.0])
    assert used == [0, 1]
    assert [(ask.config, ask.role) for ask in asks] == RUNS


def test_a_block_that_the_study_was_stopped_in_is_made_again() -> None:
    """The first run is of yesterday."""
    used, asks = block([100.0, 90_000.0, 90_030.0, 90_052.0])
    assert used == [2, 3]
    assert [(ask.config, ask.role) for ask in asks] == RUNS * 2


def test_it_is_made_again_once_and_not_for_ever() -> None:
    used, _ = block([0.0, 1000.0, 2000.0, 3000.0])
    assert used == [2, 3]


@pytest.mark.parametrize(("gap_s", "cost_s", "n_runs"), [(50.0, 20.0, 2), (100.0, 20.0, 4), (100.0, 300.0, 2)])
def test_what_counts_as_a_break(gap_s: float, cost_s: float, n_runs: int) -> None:
    """A minute, or as long as the run itself."""
    times = [0.0, cost_s + gap_s, 2 * cost_s + gap_s, 3 * cost_s + gap_s]
    used, _ = block(times[:n_runs], cost_s=cost_s)
    assert len(used) == 2
    assert used[-1] == n_runs - 1


def test_a_failure_ends_it() -> None:
    """Of the candidate; the baseline is measured again first."""
    used, _ = block([0.0, 100_000.0], [Status.OK, Status.CRASHED])
    assert used == [0, 1]
    used, _ = block([0.0, 21.0, 42.0], [Status.CRASHED] * 3)
    assert used == [2]


def test_a_run_that_was_made_again_is_no_break() -> None:
    """The machine has spoilt the second one, which took two minutes."""
    used, _ = block([0.0, 120.0, 240.0], [Status.OK, Status.INFRASTRUCTURE, Status.OK], cost_s=119.0)
    assert used == [0, 2]


def test_the_client_of_a_session_may_take_its_time() -> None:
    used, _ = block([0.0, 90_000.0], is_session=True)
    assert used == [0, 1]


def test_a_purse_keeps_no_more_than_what_is_still_to_come() -> None:
    """Of twenty affordable runs six are a proof's: those that it has made need not be kept once more."""
    task: Any = SimpleNamespace(budget=Budget(seconds=200.0))
    scorer: Any = SimpleNamespace(spent_s=0.0, pair_run_cost_s=10.0, trials=[], may_try_new=True)
    to_come = 6
    purse = Purse(task, scorer, seconds=math.inf, runs=0, keep_runs=lambda: to_come)
    assert purse.n_runs == 14
    to_come, scorer.spent_s = 4, 20.0
    assert purse.n_runs == 14
    assert Purse(task, scorer, seconds=math.inf, runs=0, keep_runs=6).n_runs == 12
