"""What of a budget is kept for the proof: as many pairs as the gain and the noise ask for, within the finish's share."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from trimtab.flow import Budget, ProofOptions
from trimtab.flow.explore import _has_leader, _kept_s
from trimtab.flow.reserve import (
    finish_reserve_s,
    least_proof_s,
    pairs_at_most,
    pairs_needed,
    proof_reserve_s,
    refine_reserve_s,
    refine_runs,
    runs_before_proof,
)
from trimtab.flow.score import Scorer
from trimtab.records import Role, Status
from trimtab.space import Config

FOUND, BEST = Config({"cache": 128}), Config({"cache": 512})
COST_S = 12.0


def found(gain: float, noise_sd: float, n_runs: int = 1) -> Any:
    """A scorer whose best config was measured so often, each time with this gain (log-ratio)."""
    runs = [
        SimpleNamespace(config=BEST, status=Status.OK, is_feasible=True, loss=-gain, measurement=None)
        for _ in range(n_runs)
    ]
    return SimpleNamespace(
        trials=runs,
        in_question=runs,
        best_run=runs[0],
        noise_sd=noise_sd,
        track=(),
        mean_cost_s=COST_S,
        pair_run_cost_s=COST_S,
        refused=[],
        refused_at_s=0.0,
        level=0.95,
        par=0.0,
        harms={},
        runs_of=lambda config: [],
    )


def task(budget: Budget, **proof: Any) -> Any:
    return SimpleNamespace(budget=budget, proof=ProofOptions(**proof), baseline=FOUND)


HALF_AN_HOUR = task(Budget(seconds=1800))


@pytest.mark.parametrize(
    ("gain", "noise_sd", "n_runs", "least", "most"),
    [
        (1.0, 0.04, 1, 3, 3),
        (0.2, 0.0, 1, 3, 3),
        (0.2, 0.05, 1, 5, 8),
        (0.2, 0.05, 9, 4, 6),
        (0.1, 0.05, 9, 10, 24),
        (0.05, 0.06, 1, 24, 24),
        (-0.1, 0.06, 1, 24, 24),
    ],
)
def test_a_smaller_gain_and_more_noise_need_more_pairs(
    gain: float, noise_sd: float, n_runs: int, least: int, most: int
) -> None:
    assert least <= pairs_needed(HALF_AN_HOUR, found(gain, noise_sd, n_runs), BEST) <= most


def test_a_long_budget_keeps_a_pair_for_three_that_scatter_by_chance() -> None:
    """With a gain of 1.0 and 7 % noise one study in twenty had time for three pairs only, which did not show it."""
    noisy = found(1.0, 0.07)
    assert pairs_needed(HALF_AN_HOUR, noisy, BEST) == 4
    assert pairs_needed(task(Budget(seconds=99 * COST_S)), noisy, BEST) == 3
    assert pairs_needed(task(Budget(seconds=1800), max_pairs=3), noisy, BEST) == 3
    assert pairs_needed(HALF_AN_HOUR, found(1.0, 0.02), BEST) == 3


def test_a_config_without_a_run_needs_the_least() -> None:
    assert pairs_needed(HALF_AN_HOUR, found(1.0, 0.05), Config({"cache": 1})) == 3


def test_the_proof_of_a_small_gain_is_kept_its_time() -> None:
    large, small = found(1.0, 0.04), found(0.05, 0.06)
    assert finish_reserve_s(HALF_AN_HOUR, large) == 6 * COST_S + 24 * COST_S
    # 40 % of the budget at most, the first three baselines included.
    assert finish_reserve_s(HALF_AN_HOUR, small) == 0.4 * 1800 - 3 * COST_S
    assert proof_reserve_s(HALF_AN_HOUR, large) == 9 * COST_S
    assert proof_reserve_s(HALF_AN_HOUR, small) == 48 * COST_S + 3 * COST_S
    assert least_proof_s(HALF_AN_HOUR, small) == 6 * COST_S


def test_only_a_small_config_is_kept_runs_for_its_lines() -> None:
    large = found(1.0, 0.04)
    assert proof_reserve_s(HALF_AN_HOUR, large, 3) == 9 * COST_S
    assert proof_reserve_s(HALF_AN_HOUR, large, 4) == 6 * COST_S


def test_a_short_budget_keeps_the_least_proof_before_all_else() -> None:
    short = task(Budget(seconds=120))
    assert finish_reserve_s(short, found(0.05, 0.06)) == 0.6 * 120


def test_leaders_that_noise_hides_get_more_runs_but_not_more_than_their_share() -> None:
    assert refine_runs(HALF_AN_HOUR, found(1.0, 0.04)) == 6
    assert refine_runs(HALF_AN_HOUR, found(0.05, 0.06)) == 24
    assert refine_reserve_s(HALF_AN_HOUR, found(1.0, 0.04)) == 6 * COST_S
    assert refine_reserve_s(HALF_AN_HOUR, found(0.05, 0.06)) == pytest.approx(0.15 * (1800 - 684))
    assert refine_runs(task(Budget(trials=25)), found(0.05, 0.06)) == 6
    assert refine_runs(task(Budget(trials=100)), found(0.05, 0.06)) == 15
    assert refine_runs(task(Budget(trials=1000)), found(0.05, 0.06)) == 24


def test_after_a_failed_proof_a_run_is_kept_for_a_repeat_of_the_next_leader() -> None:
    """Of the little time that is left, the leaders' share is less than that."""
    leads, none_leads = found(1.0, 0.04), found(-0.05, 0.04)
    for scorer in (leads, none_leads):
        scorer.refused, scorer.refused_at_s = [Config({"cache": 1})], 1700.0
    assert finish_reserve_s(HALF_AN_HOUR, leads) == pytest.approx(0.6 * 100)
    assert refine_reserve_s(HALF_AN_HOUR, leads) == COST_S
    assert [_kept_s(HALF_AN_HOUR, scorer) for scorer in (leads, none_leads)] == pytest.approx([60 + COST_S] * 2)


def test_while_nothing_is_better_than_the_baseline_no_pairs_are_counted_for_it() -> None:
    scorer = found(0.0, 0.06)
    scorer.best_run.config = FOUND
    assert proof_reserve_s(HALF_AN_HOUR, scorer) == 9 * COST_S
    assert proof_reserve_s(HALF_AN_HOUR, found(-0.05, 0.06)) == 9 * COST_S


def test_a_later_proof_with_less_error_needs_more_pairs() -> None:
    first, third = (pairs_needed(HALF_AN_HOUR, found(0.3, 0.05, 4), BEST, level) for level in (0.95, 0.9875))
    assert third > first
    assert pairs_needed(HALF_AN_HOUR, found(5.0, 0.01), BEST, 0.9875) == 3, "a gain that large needs no more"


def test_the_runs_before_the_proof_are_what_the_budget_has_beside_it() -> None:
    scorer = found(1.0, 0.04)
    scorer.spent_s = 600.0
    assert runs_before_proof(HALF_AN_HOUR, scorer, BEST) == 100 - 6
    assert runs_before_proof(task(Budget(trials=10)), scorer, BEST) == math.inf


def measured(role: Role, window_s: float, n: int = 1) -> list[Any]:
    """Trials that cost 5 s beside their windows."""
    return [
        SimpleNamespace(
            role=role, config=FOUND, status=Status.OK, is_feasible=False, loss=None, cost_s={"all": window_s + 5.0},
            measurement=SimpleNamespace(window_s=(3.0, 3.0 + window_s)),
        )
        for _ in range(n)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("windows_s", "trials", "cost_s"),
    [
        ((10.0, 20.0), measured(Role.BASELINE, 12.0, 3), 25.0),  # by the plan
        ((10.0, 10.0), measured(Role.BASELINE, 10.0, 3), 15.0),
        ((10.0, 20.0), [*measured(Role.SEARCH, 12.0, 9), *measured(Role.ABLATION, 18.0)], 23.0),  # by what was measured
        ((10.0, 20.0), measured(Role.BASELINE, 2.0, 3), 7.0),  # a program that takes 2 s, whatever the plan says
        (None, measured(Role.BASELINE, 12.0, 3), 17.0),
        ((10.0, 20.0), [], 0.0),
    ],
)
def test_the_runs_of_a_proof_cost_what_their_longer_windows_take(
    windows_s: tuple[float, float] | None, trials: list[Any], cost_s: float
) -> None:
    of_study: Any = SimpleNamespace(windows_s=windows_s, budget=Budget(seconds=1800))
    scorer = Scorer(of_study)
    scorer.trials += trials
    assert scorer.pair_run_cost_s == pytest.approx(cost_s)


def test_a_lucky_run_of_the_baseline_hides_no_leader() -> None:
    scorer = found(0.06, 0.06)
    lucky = SimpleNamespace(config=FOUND, status=Status.OK, is_feasible=True, loss=-0.08, measurement=None)
    scorer.trials.append(lucky)
    scorer.best_run = lucky
    assert _has_leader(HALF_AN_HOUR, scorer)
    assert proof_reserve_s(HALF_AN_HOUR, scorer) == proof_reserve_s(HALF_AN_HOUR, found(0.06, 0.06))
    scorer.trials.remove(scorer.trials[0])
    assert not _has_leader(HALF_AN_HOUR, scorer)


@pytest.mark.parametrize(
    ("budget", "left_s", "n_arms", "most"),
    [
        (Budget(seconds=1800), 900.0, 2, 24),
        (Budget(seconds=1800), 24 * 24.0, 2, 24),
        (Budget(seconds=600), 250.0, 2, 12),
        (Budget(seconds=600), 250.0, 3, 8),
        (Budget(seconds=600), 10.0, 2, 3),
        (Budget(trials=40), 0.0, 2, 24),
    ],
)
def test_the_pairs_of_a_proof_are_bounded_by_the_time_that_is_left(
    budget: Budget, left_s: float, n_arms: int, most: int
) -> None:
    scorer = found(0.2, 0.05)
    scorer.time_left_s = left_s
    assert pairs_at_most(task(budget), scorer, n_arms) == most


def test_no_proof_has_more_pairs_than_the_study_allows() -> None:
    scorer = found(0.2, 0.05)
    scorer.time_left_s = 100.0
    assert pairs_at_most(task(Budget(seconds=600), max_pairs=4), scorer, 2) == 4
    assert pairs_at_most(task(Budget(seconds=600), min_pairs=7), scorer, 2) == 7
    scorer.time_left_s = 0.0
    assert pairs_at_most(task(Budget(seconds=600), min_pairs=2), scorer, 2) == 3, "two are no proof"
