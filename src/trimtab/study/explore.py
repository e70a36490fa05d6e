"""The search phase: ask, measure, tell, with the baseline interleaved, until the budget, the searcher or patience ends it;
then the finalists once more, because the best of many noisy values flatters itself (winner's curse, safety.md B5).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from trimtab.measure import EarlyStop, Interval
from trimtab.records import Role, Status, Trial
from trimtab.search import GuardedSearcher, Searcher, SearchProblem, SteadfastSearcher
from trimtab.search.warm import WarmLog, warmed
from trimtab.space import Config
from trimtab.study.ablate import ablation_allowance
from trimtab.study.evaluate import Evaluator
from trimtab.study.file import Budget
from trimtab.study.prune import IMPROVEMENT, PruningSearcher
from trimtab.study.prune_plan import PrunePlan
from trimtab.study.stage import Stage
from trimtab.study.warm_start import WarmStart
from trimtab.units import format_percent

__all__ = ["explore", "finalists", "mean_loss", "start_searcher"]

_N_FINALISTS = 3
_STOP_MARGIN = 0.10
"""A trial is stopped early when it is surely at least this much worse than the best."""

_FINISH_SHARE = 0.6
"""Share of a wall-clock budget kept for the finalists, the removal of needless knobs and the proof, at most."""


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
        return budget.trials
    left = budget.seconds - evaluator.spent_s - finish_reserve_s(stage, budget.seconds, cost)
    every = stage.file.search.baseline_every
    return max(1, int(left / cost * every / (every + 1)))


def start_searcher(
    stage: Stage,
    budget_trials: int | None,
    plan: PrunePlan | None = None,
    warm: WarmStart | None = None,
    log: WarmLog | None = None,
) -> GuardedSearcher | PruningSearcher:
    """The searcher that the study file names; over few knobs first when `plan` says so, from the past that `warm` holds.

    `log` is told what becomes of that past.

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
        past=warm.past,
        context=stage.workload.context,
        seed=stage.file.study.seed,
        budget_trials=budget_trials,
        options=stage.file.search.options,
    )
    table, log = stage.file.search, log or WarmLog()
    if plan is None:
        return warmed(table.searcher, problem, log)
    return PruningSearcher(problem, plan, partial(warmed, table.searcher, log=log), patience=table.patience)


def finish_reserve_s(stage: Stage, budget_s: float, mean_cost_s: float) -> float:
    """Seconds to keep back for what comes after the search."""
    arms = 3 if stage.file.proof.advice else 2
    needed = (_N_FINALISTS + arms * stage.file.proof.min_pairs) * mean_cost_s
    return min(needed + ablation_allowance(stage)[0], _FINISH_SHARE * budget_s)


def explore(
    stage: Stage, evaluator: Evaluator, searcher: Searcher, *, say: Callable[[str], None], log: WarmLog | None = None
) -> str:
    """Runs the search phase; returns why it ended, in words. `say` is told what `log` notes as well."""
    budget, table = stage.file.budget, stage.file.search
    steady = SteadfastSearcher(
        searcher, space=stage.space, baseline=stage.baseline, seed=stage.file.study.seed, say=say
    )
    for trial in evaluator.trials:
        steady.tell(trial)
    progress, n_search = _Progress(), 0
    while True:
        reason = _end_reason(stage, evaluator, steady, budget, progress, n_search)
        if reason:
            return reason
        if n_search and n_search % table.baseline_every == 0:
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
            early_stop=None if role is Role.DESIGN else _early_stop(stage, evaluator),
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
        if n_search and evaluator.spent_s + cost > budget.seconds - reserve:
            return f"the budget of {budget.seconds:g} s is used, but for the {reserve:.0f} s that the proof needs"
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


def _early_stop(stage: Stage, evaluator: Evaluator) -> EarlyStop | None:
    """Watches a trial against the best so far; only throughput can be judged second by second."""
    if stage.objective.metric != "throughput" or not len(evaluator.track):
        return None
    losses = [t.loss for t in evaluator.trials if t.is_feasible and t.status is Status.OK and t.loss is not None]
    best = min(losses, default=0.0)
    value = evaluator.track.at(evaluator.spent_s)[0] * math.exp(-best)
    spread = 1.96 * evaluator.noise_sd * value
    incumbent = Interval(value, value - spread, value + spread, se=spread / 1.96)
    return EarlyStop(incumbent, is_maximised=True, margin=_STOP_MARGIN)


def mean_loss(trials: list[Trial], config: Config) -> float:
    """Mean loss over all full measurements of `config`; inf when there is none."""
    losses = [
        t.loss for t in trials if t.config == config and t.status is Status.OK and t.is_feasible and t.loss is not None
    ]
    return sum(losses) / len(losses) if losses else math.inf


def finalists(stage: Stage, evaluator: Evaluator) -> Config | None:
    """Measures the best few once more and returns the one with the best mean; None when nothing beats the baseline."""
    tried = {t.config for t in evaluator.trials if t.status is Status.OK and t.is_feasible} - {stage.baseline}
    ranked = sorted(tried, key=lambda config: (mean_loss(evaluator.trials, config), repr(config)))
    # No repeat for what cannot win: its lucky value is already worse than the baseline.
    chosen = [config for config in ranked[:_N_FINALISTS] if mean_loss(evaluator.trials, config) < 0]
    for config in chosen:
        evaluator.measure(config, Role.REPEAT)
    best = min(chosen, key=lambda config: mean_loss(evaluator.trials, config), default=None)
    return best if best is not None and mean_loss(evaluator.trials, best) < 0 else None
