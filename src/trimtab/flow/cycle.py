"""Cycling: the flow of a study whose contexts follow each other and repeat, such as the hours of a day.

baselines of every context → rounds of visits (the searcher asked for the present context, the baseline interleaved) → the best of
each context again → the best for the whole cycle → proofs in pairs under every context → verdict.

Losses are relative to the context's own baseline, so a searcher that knows no contexts looks for what is good under all of
them, and one that does (`ContextSearcher`) shares what it learns between them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Protocol, runtime_checkable

from trimtab.errors import InternalError, LoadError
from trimtab.flow.ask import Ask, Steps, Stopped
from trimtab.flow.baseline import measure_baseline
from trimtab.flow.budget import Budget
from trimtab.flow.context_score import ContextScorer, task_under, under
from trimtab.flow.cycle_proof import CycleProof, prove_cycle
from trimtab.flow.cycle_verdict import CycleRun, cycle_verdict
from trimtab.flow.explore import budget_end, early_stop, regression_end, tell_if_spoilt
from trimtab.flow.prune import IMPROVEMENT
from trimtab.flow.refine import refine
from trimtab.flow.score import Scorer
from trimtab.flow.start import start_searcher
from trimtab.flow.task import Task
from trimtab.records import Context, Cycle, Role, StopKind, Verdict, Visit
from trimtab.search import FallbackSearcher
from trimtab.units import counted, format_percent

__all__ = ["ContextSearcher", "cycling", "searcher_of"]

_PROOF_SHARE = 0.4
"""Share of a wall-clock budget that is kept for what comes after the search, at most."""

_RUNS_AFTER = 3
"""Runs of each context that choose among its best, before its proof, about."""


@runtime_checkable
class ContextSearcher(Protocol):
    """A searcher that can be asked for one context or another.

    Attributes:
        context: that asks are for; may be set at any time between them.
    """

    context: Context


def searcher_of(task: Task) -> Task:
    """The task with the searcher that a cycle uses: the default one is the contextual Gaussian process there."""
    if task.search.searcher != "auto":
        return task
    options = {name: value for name, value in task.search.options.items() if name != "temper"}
    return replace(task, search=replace(task.search, searcher="contextual-gp", options=options))


def cycling(
    task: Task,
    began: Budget | None = None,
    went_on: Collection[int] = (),
    keep: Callable[[Verdict], None] = lambda verdict: None,
) -> Callable[[Scorer], Steps[Verdict]]:
    """The flow of a study over the task's cycle.

    Args:
        task: what is to be tuned.
        began: the budget with which the study began; a resume may have another one. None: the task's.
        went_on: number of each trial on record after which the search went on: no budget ends it there.
        keep: given the verdict as it would be if the study were stopped now, whenever a proof is concluded, before the end.

    Raises:
        InternalError: from the flow, when the task has none.
    """
    cycle, task = task.cycle, searcher_of(task)

    def flow(scorer: Scorer) -> Steps[Verdict]:
        if cycle is None or not isinstance(scorer, ContextScorer):
            raise InternalError("a study without a cycle was to go round it")
        run = CycleRun()

        def concluded(proof: CycleProof) -> None:
            run.proof = proof
            keep(cycle_verdict(task, cycle, scorer, replace(run, is_interrupted=True)))

        try:
            yield from _phases(task, began or task.budget, went_on, cycle, scorer, run, concluded)
        except Stopped as stopped:
            run.is_interrupted, run.reason, run.kind = True, stopped.message, stopped.kind
        return cycle_verdict(task, cycle, scorer, run)

    return flow


def _phases(
    task: Task,
    began: Budget,
    went_on: Collection[int],
    cycle: Cycle,
    scorer: ContextScorer,
    run: CycleRun,
    concluded: Callable[[CycleProof], None],
) -> Steps[None]:
    for context, name in zip(cycle.contexts, cycle.names, strict=True):
        scorer.say(f"measuring the baseline of context {name}")
        try:
            yield from under(context, measure_baseline(task_under(task, context)))
        except LoadError as error:
            raise LoadError(f"context={name!r} of the cycle: {error.message}", hint=error.hint) from error
    run.reason = yield from _Rounds(task, began, went_on, cycle, scorer, run.rounds).search()
    run.kind = StopKind.OVER
    if not task.is_proven:
        raise Stopped(f"{run.reason}; no proof was asked for", StopKind.UNPROVEN)
    for context, name in zip(cycle.contexts, cycle.names, strict=True):
        scorer.say(f"context {name}: the best again")
        own = _task_before_proofs(task, cycle, scorer, context)
        refined = yield from under(context, refine(own, scorer.part(context)))
        run.best.append(refined.config if refined is not None else None)
    yield from prove_cycle(task, cycle, scorer, run.best, concluded)


class _Rounds:
    """The rounds of visits; `numbers` is filled in."""

    def __init__(
        self, task: Task, began: Budget, went_on: Collection[int], cycle: Cycle, scorer: ContextScorer,
        numbers: list[list[int]],
    ) -> None:  # fmt: skip
        self._task, self._cycle, self._scorer, self._numbers = task, cycle, scorer, numbers
        self._went_on = went_on
        # Of the budget with which the study began: the searcher would ask for other configs than those on record.
        searcher = start_searcher(task, _expected(replace(task, budget=began), cycle, scorer))
        self._contextual = getattr(searcher, "inner", None)
        self._searcher = FallbackSearcher(
            searcher, space=task.space, baseline=task.baseline, seed=task.seed, say=scorer.say
        )
        for trial in scorer.trials:
            self._searcher.tell(trial)
        self._n_search, self._since = 0, 0
        self._best = [math.inf for _ in cycle.contexts]
        self._since_baseline = [0 for _ in cycle.contexts]

    def search(self) -> Steps[str]:
        """Goes round until the search has to end; why it did."""
        for number in count():
            if self._cycle.most and number >= self._cycle.most:
                return f"all {counted(number, 'cycle')} are made"
            if reason := self._end():
                return reason
            self._numbers.append([])
            for visit in self._cycle.visits:
                if reason := self._end():
                    return reason
                self._scorer.say(f"cycle {number + 1}: {visit.name} ({visit.context.workload})")
                if reason := (yield from self._visit(visit)):
                    return reason
        raise InternalError("the rounds of a cycle have ended without a reason")

    def _visit(self, visit: Visit) -> Steps[str]:
        """The trials of one visit; why the search has to end with it, "" when it goes on."""
        place = self._cycle.contexts.index(visit.context)
        self._searcher.changes_workload()
        if isinstance(self._contextual, ContextSearcher):
            self._contextual.context = visit.context
        began_s, n_made = self._scorer.spent_s, 0
        while not _is_over(visit, n_made, self._scorer.spent_s - began_s):
            if n_made and (reason := self._end()):
                return reason
            if self._since_baseline[place] >= self._task.search.baseline_every:
                self._since_baseline[place] = 0
                self._searcher.tell((yield Ask(config=self._task.baseline, role=Role.BASELINE, context=visit.context)))
            yield from self._trial(visit, place)
            n_made += 1
        return ""

    def _trial(self, visit: Visit, place: int) -> Steps[None]:
        config = self._searcher.ask(1)[0]
        own, part = task_under(self._task, visit.context), self._scorer.part(visit.context)
        trial = yield Ask(
            config=config,
            role=Role.SEARCH,
            early_stop=early_stop(own, part),
            searcher=self._task.search.searcher,
            context=visit.context,
        )
        self._searcher.tell(trial)
        self._numbers[-1].append(trial.number)
        self._n_search += 1
        self._since_baseline[place] += 1
        self._since += 1
        if trial.is_feasible and trial.loss is not None and trial.loss < self._best[place] - IMPROVEMENT:
            self._best[place], self._since = trial.loss, 0
        tell_if_spoilt(self._scorer, trial)

    def _end(self) -> str:
        """Why the search should end now; "" to go on."""
        task, scorer = self._task, self._scorer
        if scorer.enough:
            return scorer.enough
        kept_s = partial(_reserve_s, task, self._cycle, scorer)
        has_gone_on = scorer.trials[-1].number in self._went_on
        if not has_gone_on and (reason := budget_end(task, scorer, self._n_search, kept_s)):
            return reason
        if self._searcher.is_exhausted and not isinstance(self._contextual, ContextSearcher):
            return "the searcher has tried everything there is"
        if not scorer.may_try_new:
            return regression_end(scorer)
        if not self._cycle.most and self._since >= task.search.patience * len(self._cycle.contexts):
            return f"no improvement of {format_percent(IMPROVEMENT)} in {counted(self._since, 'trial')}"
        return ""


def _is_over(visit: Visit, n_made: int, seconds: float) -> bool:
    return n_made >= visit.iterations if visit.iterations else n_made > 0 and seconds >= visit.duration_s


def _reserve_s(task: Task, cycle: Cycle, scorer: Scorer) -> float:
    """Seconds to keep for what comes after the search."""
    runs_s = len(cycle.contexts) * _RUNS_AFTER * scorer.mean_cost_s
    proofs_s = _runs_of_proofs(task, cycle) * scorer.pair_run_cost_s
    return min(runs_s + proofs_s, _PROOF_SHARE * (task.budget.seconds or 0.0))


def _task_before_proofs(task: Task, cycle: Cycle, scorer: Scorer, context: Context) -> Task:
    """The task of one context whose best configs are measured again: the later contexts' runs, and the proofs of all but one, are
    not in its budget."""
    own = task_under(task, context)
    if task.budget.seconds is None:
        return own
    n_later = len(cycle.contexts) - 1 - cycle.contexts.index(context)
    n_of_proofs = _runs_of_proofs(task, cycle) - 2 * task.proof.min_pairs
    kept_s = n_later * _RUNS_AFTER * scorer.mean_cost_s + n_of_proofs * scorer.pair_run_cost_s
    left_s = max(1.0, task.budget.seconds - kept_s)
    return replace(own, budget=replace(task.budget, seconds=left_s))


def _runs_of_proofs(task: Task, cycle: Cycle) -> int:
    """Of one config for all contexts, and of each context's own best."""
    return len(cycle.contexts) * 4 * task.proof.min_pairs


def _expected(task: Task, cycle: Cycle, scorer: Scorer) -> int | None:
    """Search trials that the budget will allow, about."""
    rounds = cycle.most * sum(visit.iterations for visit in cycle.visits) or math.inf
    budget, cost = task.budget, scorer.mean_cost_s
    if budget.trials is not None:
        return int(min(budget.trials, rounds))
    if budget.seconds is None or not cost:
        return None
    left_s = budget.seconds - scorer.spent_s - _reserve_s(task, cycle, scorer)
    return max(1, int(min(left_s / cost, rounds)))
