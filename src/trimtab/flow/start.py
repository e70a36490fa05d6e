"""The searcher of a study: as the task names it, from what was settled, over all knobs or over some of them at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from trimtab.flow.ask import Ask, Steps
from trimtab.flow.passes import PassesSearcher
from trimtab.flow.prune import PruningSearcher
from trimtab.flow.score import Scorer
from trimtab.flow.settled import Settled
from trimtab.flow.task import Task
from trimtab.flow.warm import WarmStart
from trimtab.records import Role, Trial
from trimtab.search import GuardedSearcher, SearchProblem
from trimtab.search.warm import WarmLog, warmed

__all__ = ["asked", "start_searcher"]


def start_searcher(
    task: Task,
    budget_trials: int | None,
    settled: Settled | None = None,
    log: WarmLog | None = None,
    *,
    n_before: int = 0,
    scorer: Scorer | None = None,
) -> GuardedSearcher | PruningSearcher | PassesSearcher:
    """The searcher that the task names: from what was settled, over few knobs first, or over one part of them after the other.

    `log` is told what becomes of past studies; `n_before` configs were measured by an earlier search; `scorer` knows what became
    of the plays.

    Raises:
        UsageError: unknown searcher or option, or passes over knobs of one kind.
        InternalError: the searcher is a plug-in and broken.
    """
    settled, log = settled or Settled(), log or WarmLog()
    warm = settled.warm or WarmStart()
    problem = SearchProblem(
        space=task.space,
        baseline=task.baseline,
        advice=() if task.advice == task.baseline else (task.advice,),
        starts=warm.starts,
        prior=settled.plays.prior(task, scorer),
        past=warm.past,
        context=task.context,
        seed=task.seed,
        budget_trials=budget_trials,
        n_before=n_before,
        restarts=task.restarts,
        options=task.search.options,
    )
    make, patience = partial(warmed, task.search.searcher, log=log), task.search.patience
    if settled.prune is not None:
        return PruningSearcher(problem, settled.prune, make, patience=patience, is_prudent=task.is_prudent)
    if settled.passes is not None:
        return PassesSearcher(problem, settled.passes, make, patience=patience)
    return make(problem)


def asked(task: Task, note: Callable[[Trial | None], None]) -> Callable[[Scorer], Steps[None]]:
    """The flow that only asks a searcher, as often as the budget of trials says: searchers are compared by it.

    Args:
        task: its budget is in trials.
        note: given the best trial, by the searcher's own account, after each.
    """

    def flow(scorer: Scorer) -> Steps[None]:
        searcher = start_searcher(task, task.budget.trials)
        searcher.tell((yield Ask(config=task.baseline, role=Role.BASELINE)))
        for _ in range(task.budget.trials or 0):
            if searcher.is_exhausted:
                return
            config = searcher.ask()[0]
            searcher.tell((yield Ask(config=config, role=Role.SEARCH, searcher=task.search.searcher)))
            note(searcher.best())

    return flow
