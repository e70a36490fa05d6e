"""What of a wall-clock budget is kept for what comes later: for the leaders measured again, the ablation, and the proof.

At least 60 % goes to finding a config (the plays, the search, the leaders measured again: see `refine`). Of the rest the proof
comes first: as many pairs as it will need, by the gain that the best config so far seems to have and by the noise. When a proof
was given up, what it has left is shared in the same way, and none is kept to take settings away.
"""

from __future__ import annotations

import math

from trimtab.flow.baseline import N_BASELINE_FIRST
from trimtab.flow.harm import best_harmless
from trimtab.flow.losses import fresh_losses
from trimtab.flow.pairs import proof_pool
from trimtab.flow.score import Scorer
from trimtab.flow.task import Task
from trimtab.measure import FIRST_LOOK, Looks, NoisePool, observations_needed
from trimtab.records import Status, Trial
from trimtab.space import Config

__all__ = [
    "ablation_allowance",
    "after_search_s",
    "finish_reserve_s",
    "has_room_for_ablation",
    "is_as_sure",
    "is_clear",
    "least_proof_s",
    "pairs_at_most",
    "pairs_needed",
    "proof_reserve_s",
    "proof_runs",
    "refine_reserve_s",
    "refine_runs",
    "repeat_s",
    "runs_before_proof",
]

_FINISH_SHARE = 0.4
"""Share of a wall-clock budget that the first baselines and everything after the search may take, at most; the ablation's share
where a study file gives it more."""

_SHORT_SHARE = 0.6
"""The same of a budget that is too short for both: the proof's least number of pairs needs so much."""

_MOST_WORTH_RUNS = 24
"""Runs kept for the ablation and the worth of the lines, at most: a config of few lines does not need more."""

_FEW_LINES = 3
"""Settings that a config of few settings has, about."""

_UNLUCKY = 1.75
"""Times their expected standard deviation that three pairs scatter, at most, in 19 of 20 cases."""

_LONG_RUNS = 100
"""Runs of a budget from which on the proof is kept a pair for that case; a shorter one needs them to take settings away."""

_CLEAR_PAIRS = 1
"""Pairs above the least number within which the proof of a clear gain ends."""

_GIVEN_UP = 0.1
"""Of a gain that is not clear, less one standard error, what fewer settings may cost: its proof takes a quarter more pairs."""

_NO_POOL = NoisePool()
_LARGE = 1.0
"""A gain (log-ratio) of which the least number of pairs is proof."""

_RUNS_PER_LINE = 4
"""Runs that the ablation needs for a line, about."""

_MIN_ABLATION_RUNS = 16
"""Runs that the ablation may make where the budget counts trials and is small."""

_REFINE_RUNS, _MOST_REFINE_RUNS = 6, 24
_REFINE_SHARE = 0.15
"""Runs after the search in which its leaders are measured again and thinned: where noise is small beside the gain, at most, and
their share of the search's time or trials."""


def finish_reserve_s(task: Task, scorer: Scorer) -> float:
    """Seconds to keep back for what comes after the search; 0 where the budget is in trials."""
    budget_s, cost = task.budget.seconds or 0.0, scorer.pair_run_cost_s
    if scorer.refused:
        left_s = budget_s - scorer.refused_at_s
        return max(
            min(_proof_s(task, scorer), _FINISH_SHARE * left_s), min(least_proof_s(task, scorer), _SHORT_SHARE * left_s)
        )
    ablation_s = min(ablation_allowance(task)[0], _MOST_WORTH_RUNS * cost)
    share_s = max(_FINISH_SHARE, task.proof.ablation_share) * budget_s - N_BASELINE_FIRST * scorer.mean_cost_s
    # Without its proof a winner is nothing: of a short budget that comes first.
    least_s = min(least_proof_s(task, scorer), _SHORT_SHARE * budget_s)
    return max(min(_proof_s(task, scorer) + ablation_s, share_s), least_s)


def proof_reserve_s(task: Task, scorer: Scorer, n_lines: int = 0) -> float:
    """Seconds to keep back for the proof of a config of `n_lines`, and of a small one for a run of each line.

    A larger one has no use for so few: what they could tell of its lines is less than taking one away.
    """
    for_lines_s = _FEW_LINES * scorer.pair_run_cost_s if n_lines <= _FEW_LINES else 0.0
    return min(_proof_s(task, scorer) + for_lines_s, finish_reserve_s(task, scorer))


def refine_reserve_s(task: Task, scorer: Scorer) -> float:
    """Seconds of the search's share to keep back for its leaders; after a failed proof those of one run at least."""
    rest_s = (task.budget.seconds or 0.0) - scorer.refused_at_s - finish_reserve_s(task, scorer)
    share_s = min(_wanted_refine_runs(task, scorer) * scorer.mean_cost_s, _REFINE_SHARE * rest_s)
    return max(share_s, repeat_s(scorer))


def after_search_s(task: Task, scorer: Scorer) -> float:
    """Seconds that plays and search leave where there is a leader: for it, and for what comes after that."""
    return finish_reserve_s(task, scorer) + refine_reserve_s(task, scorer)


def repeat_s(scorer: Scorer) -> float:
    """Seconds that the search after a failed proof keeps for a repeat of its leader: the last one that only one run spoke for
    may have been lucky. 0 before."""
    return scorer.mean_cost_s if scorer.refused else 0.0


def refine_runs(task: Task, scorer: Scorer) -> int:
    """Runs for the leaders of the search, at most: the more, the more noise hides which of them is the best."""
    trials = task.budget.trials
    most = _MOST_REFINE_RUNS if trials is None else min(_MOST_REFINE_RUNS, round(_REFINE_SHARE * trials))
    return min(_wanted_refine_runs(task, scorer), max(_REFINE_RUNS, most))


def _wanted_refine_runs(task: Task, scorer: Scorer) -> int:
    return max(_REFINE_RUNS, min(_MOST_REFINE_RUNS, 2 * _n_pairs(task, scorer)))


def least_proof_s(task: Task, scorer: Scorer) -> float:
    """Seconds of the shortest proof."""
    n_pairs = max(task.proof.min_pairs, _enough(task, _LARGE, 0.0, scorer.level))
    return proof_runs(task, n_pairs) * scorer.pair_run_cost_s


def _proof_s(task: Task, scorer: Scorer) -> float:
    return proof_runs(task, _n_pairs(task, scorer)) * scorer.pair_run_cost_s


def _n_pairs(task: Task, scorer: Scorer) -> int:
    """That the proof of the best config so far will need."""
    best = best_harmless(task, scorer)
    if scorer.refused or (best is not None and best.config == task.baseline):
        best = _best_left(task, scorer)
    if best is None or (best.loss or 0.0) >= 0:
        return task.proof.min_pairs
    return pairs_needed(task, scorer, best.config, scorer.level)


def _best_left(task: Task, scorer: Scorer) -> Trial | None:
    """As `Scorer.best_run`, of other configs than the baseline and since the last failed proof."""
    left = [t for t in scorer.in_question if t.status is Status.OK and t.is_feasible and t.config != task.baseline]
    return min(left, key=lambda trial: trial.loss or 0.0, default=None)


def proof_runs(task: Task, n_pairs: int) -> int:
    """Runs of a proof of so many pairs."""
    return n_pairs * (3 if task.proof.advice is True else 2)


def ablation_allowance(task: Task) -> tuple[float, int]:
    """(seconds, runs) that the ablation may use: its share of all the time, or of all the trials."""
    table, budget = task.proof, task.budget
    if not table.ablate:
        return 0.0, 0
    runs = math.ceil((budget.trials or 0) * table.ablation_share / (1 - table.ablation_share))
    return (budget.seconds or 0.0) * table.ablation_share, max(_MIN_ABLATION_RUNS, runs) if table.ablation_share else 0


def has_room_for_ablation(task: Task, scorer: Scorer, config: Config) -> bool:
    """Whether the ablation can try every line of `config` in pairs."""
    n_lines = len(config.difference(task.baseline))
    seconds, runs = ablation_allowance(task)
    if task.budget.seconds is not None:
        # The proof comes first: the ablation gets what it leaves.
        runs = int(min(seconds / max(scorer.pair_run_cost_s, 1e-9), runs_before_proof(task, scorer, config)))
    return n_lines <= 1 or runs >= _RUNS_PER_LINE * n_lines


def runs_before_proof(task: Task, scorer: Scorer, config: Config) -> float:
    """Runs that a wall-clock budget has, beside those of the proof of `config`; a budget of trials has any number."""
    if task.budget.seconds is None:
        return math.inf
    left = (task.budget.seconds - scorer.spent_s) / max(scorer.pair_run_cost_s, 1e-9)
    return left - proof_runs(task, pairs_needed(task, scorer, config))


def pairs_needed(task: Task, scorer: Scorer, config: Config, level: float = 0.95) -> int:
    """Pairs after which the proof of `config` at `level` will have decided, if its gain is what it seems to be less one standard
    error; within the study's least and largest number."""
    gain = _sure_gain(scorer, config)
    if math.isinf(gain) or scorer.noise_sd == 0:
        return task.proof.min_pairs
    effect = gain - math.log1p(task.proof.min_gain)
    if effect <= 0 and scorer.par == math.inf:
        return task.proof.min_pairs  # to meet a constraint that the baseline misses needs no gain
    sd, least = math.sqrt(2) * scorer.noise_sd, task.proof.min_pairs
    pool = proof_pool(scorer)
    n = _enough(task, effect, sd, level, pool)
    if (task.budget.seconds or 0.0) >= _LONG_RUNS * scorer.mean_cost_s:
        # The least number may by chance scatter more than that, and then one pair more decides.
        n = max(n, min(_enough(task, effect, _UNLUCKY * sd, level, pool), least + 1))
    return max(least, n)


def _enough(task: Task, effect: float, sd: float, level: float, pool: NoisePool = _NO_POOL) -> int:
    """Pairs of such a mean and standard deviation that are expected to show it, at most those that a proof may have."""
    most = task.proof.max_pairs
    return observations_needed(effect, sd, most, level, pool, Looks(most))


def pairs_at_most(task: Task, scorer: Scorer, n_arms: int) -> int:
    """Pairs of `n_arms` runs that a proof may come to, which must be known before the first: the study's largest number, or what
    a wall-clock budget has room for, with one for runs that turn out shorter, and one that may follow the budget's end."""
    left_s, pair_s = scorer.time_left_s, n_arms * scorer.pair_run_cost_s
    if task.budget.seconds is None or left_s >= task.proof.max_pairs * pair_s:
        return task.proof.max_pairs
    return min(task.proof.max_pairs, max(task.proof.min_pairs, FIRST_LOOK, math.floor(left_s / pair_s) + 2))


def is_clear(task: Task, scorer: Scorer, config: Config) -> bool:
    """Whether the gain of `config` stands out of the noise, so that about the least number of pairs is its proof. Where it does
    not, a few runs cannot tell what a setting of it is worth."""
    if scorer.par == math.inf:
        return True  # to meet a constraint that the baseline misses needs no gain
    is_short = pairs_needed(task, scorer, config) <= task.proof.min_pairs + _CLEAR_PAIRS
    return is_short and _sure_gain(scorer, config) > math.log1p(task.proof.min_gain)


def is_as_sure(task: Task, scorer: Scorer, config: Config, other: Config) -> bool:
    """Whether `config` may be taken in place of `other` without giving up its proof: its gain is clear, or about as sure as that
    of the other, which may have none."""
    if config == other or is_clear(task, scorer, config):
        return True
    # By as many runs of each: the one that was measured more often is no better for it.
    n_runs = min(len(fresh_losses(scorer.trials, each)) for each in (config, other))
    sure, others = (_sure_gain(scorer, each, n_runs) for each in (config, other))
    return others <= 0 or sure >= (1 - _GIVEN_UP) * others


def _sure_gain(scorer: Scorer, config: Config, n_runs: int = 0) -> float:
    """What `config` gains (log-ratio), by the runs that did not choose it, less one standard error of the mean of all of them or
    of `n_runs`; -inf without any."""
    losses = fresh_losses(scorer.trials, config)
    if not losses:
        return -math.inf
    return -sum(losses) / len(losses) - scorer.noise_sd / math.sqrt(n_runs or len(losses))
