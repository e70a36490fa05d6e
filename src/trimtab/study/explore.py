"""The search phase: ask, measure, tell, with the baseline interleaved, until the budget, the searcher or patience ends it.

Of a wall-clock budget at least 60 % goes to finding a config (the plays, the search, the leaders measured again: see `refine`);
the rest is kept for its proof.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from trimtab.measure import EarlyStop, Interval
from trimtab.records import Prior, PrunePlan, Role, Status, Trial
from trimtab.search import FallbackSearcher, GuardedSearcher, Searcher, SearchProblem
from trimtab.search.warm import WarmLog, warmed
from trimtab.space import Config
from trimtab.study.ablate import ablation_allowance
from trimtab.study.begin import N_BASELINE_FIRST
from trimtab.study.evaluate import Evaluator
from trimtab.study.file import Budget
from trimtab.study.prune import IMPROVEMENT, PruningSearcher
from trimtab.study.stage import Stage
from trimtab.study.warm_start import WarmStart
from trimtab.units import format_percent

__all__ = [
    "REFINE_RUNS",
    "early_stop",
    "expected_trials",
    "explore",
    "finish_reserve_s",
    "mean_loss",
    "start_searcher",
]

_STOP_MARGIN = 0.10
"""A trial is stopped early when it is surely at least this much worse than the best."""

_LATENCY_STOP_MARGIN = 0.5
"""The same where latency is the objective: in a closed loop half the throughput is twice the mean latency; a percentile could
still be a little better, but no config worth having does so little work."""

_FINISH_SHARE = 0.4
"""Share of a wall-clock budget that the first baselines and everything after the search may take, at most."""

_SHORT_SHARE = 0.6
"""The same of a budget that is too short for both: the proof's least number of pairs needs so much."""

_MOST_WORTH_RUNS = 24
"""Runs kept for the ablation and the worth of the lines, at most: a config of few lines does not need more."""

REFINE_RUNS = 6
_REFINE_SHARE = 0.15
"""Runs after the search in which its leaders are measured again and thinned, and their share of the search's time, at most."""


@dataclass(slots=True)
class _Progress:
    """Why and when the search ends."""

    best: float = math.inf
    since: int = 0

    def take(self, trial: Trial) -> None:
        self.since += 1
        if trial.is_feasible and trial.loss is not None and trial.loss < self.best - IMPROVEMENT:
            self.best, self.since = trial.loss, 0


def expected_trials(stage: Stage, evaluator: Evaluator) -> int | None:
    """How many search trials the budget will allow, judged by what the baseline cost; None when nothing is known."""
    budget, cost = stage.file.budget, evaluator.mean_cost_s
    if budget.trials is not None or budget.seconds is None or not cost:
        return budget.trials if budget.trials is None else max(1, budget.trials - n_played(evaluator))
    kept = finish_reserve_s(stage, budget.seconds, cost) + refine_reserve_s(stage, budget.seconds, cost)
    left = budget.seconds - evaluator.spent_s - kept
    every = stage.file.search.baseline_every
    return max(1, int(left / cost * every / (every + 1)))


def start_searcher(
    stage: Stage,
    budget_trials: int | None,
    plan: PrunePlan | None = None,
    warm: WarmStart | None = None,
    log: WarmLog | None = None,
    prior: Prior | None = None,
) -> GuardedSearcher | PruningSearcher:
    """The searcher that the study file names; over few knobs first when `plan` says so, from the past that `warm` holds.

    `log` is told what becomes of that past; `prior` is what the plays lead to expect.

    Raises:
        UsageError: unknown searcher or option.
        InternalError: the searcher is a plug-in and broken.
    """
    warm = warm or WarmStart()
    problem = SearchProblem(
        space=stage.space,
        baseline=stage.baseline,
        advice=() if stage.advice == stage.baseline else (stage.advice,),
        starts=warm.starts,
        prior=prior or Prior(),
        past=warm.past,
        context=stage.workload.context,
        seed=stage.file.study.seed,
        budget_trials=budget_trials,
        options=stage.file.searcher_options,
    )
    table, log = stage.file.search, log or WarmLog()
    if plan is None:
        return warmed(table.searcher, problem, log)
    return PruningSearcher(problem, plan, partial(warmed, table.searcher, log=log), patience=table.patience)


def finish_reserve_s(stage: Stage, budget_s: float, mean_cost_s: float) -> float:
    """Seconds to keep back for what comes after the search."""
    arms = 3 if stage.file.proof.advice is True else 2
    ablation_s = min(ablation_allowance(stage)[0], _MOST_WORTH_RUNS * mean_cost_s)
    proof_s = arms * stage.file.proof.min_pairs * mean_cost_s
    share_s = _FINISH_SHARE * budget_s - N_BASELINE_FIRST * mean_cost_s
    # Without its proof a winner is nothing: of a short budget that comes first.
    return max(min(proof_s + ablation_s, share_s), min(proof_s, _SHORT_SHARE * budget_s))


def refine_reserve_s(stage: Stage, budget_s: float, mean_cost_s: float) -> float:
    """Seconds of the search's share to keep back for its leaders."""
    rest_s = budget_s - finish_reserve_s(stage, budget_s, mean_cost_s)
    return min(REFINE_RUNS * mean_cost_s, _REFINE_SHARE * rest_s)


def explore(
    stage: Stage, evaluator: Evaluator, searcher: Searcher, *, say: Callable[[str], None], log: WarmLog | None = None
) -> str:
    """Runs the search phase; returns why it ended, in words. `say` is told what `log` notes as well."""
    budget, table = stage.file.budget, stage.file.search
    steady = FallbackSearcher(searcher, space=stage.space, baseline=stage.baseline, seed=stage.file.study.seed, say=say)
    for trial in evaluator.trials:
        steady.tell(trial)
    progress, n_search = _Progress(), n_played(evaluator)
    n_first = n_search
    while True:
        reason = _end_reason(stage, evaluator, steady, budget, progress, n_search)
        if reason:
            return reason
        if n_search > n_first and n_search % table.baseline_every == 0:
            steady.tell(evaluator.measure(stage.baseline, Role.BASELINE))
        started = time.monotonic()
        config = steady.ask(1)[0]
        for line in log.take() if log is not None else ():
            say(line)
        role = _role(stage, searcher, config)
        trial = evaluator.measure(
            config,
            role,
            # A ranking needs to know how bad a bad config is.
            early_stop=None if role is Role.DESIGN else early_stop(stage, evaluator),
            searcher=table.searcher,
            ask_s=time.monotonic() - started,
        )
        steady.tell(trial)
        progress.take(trial)
        if isinstance(searcher, PruningSearcher):
            progress.since = 0 if _said(searcher, say) or searcher.is_ranking else progress.since
        n_search += 1
        if trial.status is Status.INFRASTRUCTURE:
            what = trial.reason.partition("\n")[0]
            say(f"trial {trial.number}: {what}; it counts in the budget, and teaches the searcher nothing")


def _said(searcher: PruningSearcher, say: Callable[[str], None]) -> bool:
    """Passes on what the pruning has decided; whether it has decided anything."""
    lines = searcher.news()
    for line in lines:
        say(line)
    return bool(lines)


def _role(stage: Stage, searcher: Searcher, config: Config) -> Role:
    if config == stage.advice:
        return Role.ADVICE
    return Role.DESIGN if isinstance(searcher, PruningSearcher) and searcher.is_ranking else Role.SEARCH


def _end_reason(
    stage: Stage, evaluator: Evaluator, searcher: Searcher, budget: Budget, progress: _Progress, n_search: int
) -> str:
    """Why the search should end now; "" to go on."""
    cost = evaluator.mean_cost_s
    if budget.trials is not None:
        if n_search >= budget.trials:
            return f"the budget of {budget.trials} trials is used"
    elif budget.seconds is not None:
        reserve = finish_reserve_s(stage, budget.seconds, cost)
        until = budget.seconds - reserve - refine_reserve_s(stage, budget.seconds, cost)
        if n_search and evaluator.spent_s + cost > until:
            return f"the budget of {budget.seconds:g} s is used, except {budget.seconds - until:.0f} s for the proof"
    if searcher.is_exhausted:
        return "the searcher has tried everything there is"
    if searcher.is_converged:
        return "the searcher has converged"
    most = stage.file.guard.regression_budget_s
    if most and evaluator.regression.lost_s >= most:
        return (
            f"the regression budget of {most:g} s of user time is spent (lost {evaluator.regression.lost_s:.4g} s): "
            "nothing new is tried any more"
        )
    if progress.since >= stage.file.search.patience:
        return f"no improvement of {format_percent(IMPROVEMENT)} in {progress.since} trials"
    return ""


def early_stop(stage: Stage, evaluator: Evaluator) -> EarlyStop | None:
    """Watches a trial's throughput against that of the best so far, second by second; None where that tells nothing."""
    if not len(evaluator.track):
        return None
    done = [t for t in evaluator.trials if t.is_feasible and t.status is Status.OK and t.loss is not None]
    best = min(done, key=lambda t: t.loss or 0.0, default=None)
    if stage.objective.metric != "throughput":
        return _latency_stop(best)
    value = evaluator.track.at(evaluator.spent_s)[0] * math.exp(-(best.loss or 0.0) if best is not None else 0.0)
    spread = 1.96 * evaluator.noise_sd * value
    incumbent = Interval(value, value - spread, value + spread, se=spread / 1.96)
    return EarlyStop(incumbent, is_maximised=True, margin=_STOP_MARGIN)


def _latency_stop(best: Trial | None) -> EarlyStop | None:
    """In a closed loop throughput tells of the mean latency; in an open one it is what is offered, and tells nothing."""
    m = best.measurement if best is not None else None
    if m is None or m.is_open or not m.throughput.estimate > 0:
        return None
    return EarlyStop(m.throughput, is_maximised=True, margin=_LATENCY_STOP_MARGIN)


def n_played(evaluator: Evaluator) -> int:
    """Trials of plays so far: they count in a budget of trials."""
    return sum(trial.role is Role.PLAY for trial in evaluator.trials)


def mean_loss(trials: list[Trial], config: Config) -> float:
    """Mean loss over all full measurements of `config`; inf when there is none."""
    losses = [
        t.loss for t in trials if t.config == config and t.status is Status.OK and t.is_feasible and t.loss is not None
    ]
    return sum(losses) / len(losses) if losses else math.inf
