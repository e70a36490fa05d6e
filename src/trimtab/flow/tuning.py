"""Tuning: the off-line flow from the running config to a proven one, or to the plain word that there is none.

baseline × 3 → plays → search (baseline interleaved) → leaders again → needless knobs removed → proof in pairs, with the worth
of each line → verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from trimtab.flow.ask import Steps, Stopped
from trimtab.flow.baseline import measure_baseline
from trimtab.flow.explore import Ended, expected_trials, explore, may_search_on
from trimtab.flow.finish import finish
from trimtab.flow.losses import acceptable_means
from trimtab.flow.passes import PassesSearcher
from trimtab.flow.prune import PruningSearcher
from trimtab.flow.refine import Refined, refine
from trimtab.flow.score import Scorer
from trimtab.flow.settled import Settled
from trimtab.flow.start import start_searcher
from trimtab.flow.task import Task
from trimtab.flow.verdict import Outcome, make_verdict
from trimtab.flow.warm import WarmStart
from trimtab.records import Role, StopKind, Verdict
from trimtab.search import GuardedSearcher
from trimtab.search.warm import WarmLog
from trimtab.space import Config

__all__ = ["tuning"]


def tuning(
    task: Task,
    settle: Callable[[Scorer], Settled] = lambda scorer: Settled(),
    keep: Callable[[Verdict], None] = lambda verdict: None,
) -> Callable[[Scorer], Steps[Verdict]]:
    """The flow of a tuning study.

    Args:
        task: what is to be tuned.
        settle: gives, once, what the study goes on from; given the runs of the baseline.
        keep: given the verdict as it would be if the study were stopped now, whenever a proof is concluded, long before the end.
    """

    def flow(scorer: Scorer) -> Steps[Verdict]:
        outcome = Outcome()

        def concluded() -> None:
            keep(make_verdict(task, scorer, replace(outcome, is_interrupted=True)))

        try:
            yield from _phases(task, scorer, outcome, settle, concluded)
        except Stopped as stopped:
            outcome.is_interrupted = True
            outcome.stop_reason, outcome.stop_kind = stopped.message, stopped.kind
            outcome.candidate = outcome.candidate or _best_config(task, scorer)
        return make_verdict(task, scorer, outcome)

    return flow


def _phases(
    task: Task,
    scorer: Scorer,
    outcome: Outcome,
    settle: Callable[[Scorer], Settled],
    concluded: Callable[[], None],
) -> Steps[None]:
    scorer.say("measuring the baseline")
    yield from measure_baseline(task)
    settled = settle(scorer)
    # Of the budget with which the study began: with another share of plays a resume would go another way from there on.
    began = replace(task, budget=settled.budget or task.budget)
    outcome.plays = settled.plays
    yield from settled.plays.run(began, scorer)
    n_expected, winner = expected_trials(began, scorer), None
    while winner is None:
        n_before = len(scorer.trials)
        ended = yield from _searched(task, scorer, outcome, settled, n_expected)
        n_expected = expected_trials(task, scorer)
        if not task.is_proven:
            raise Stopped(f"{outcome.stop_reason}; no proof was asked for", StopKind.UNPROVEN)
        winner = yield from refine(task, scorer, settled.plays.plan)
        if winner is None and (len(scorer.trials) == n_before or not _goes_on(task, scorer, ended, settled)):
            break
    if winner is not None:
        yield from finish(
            task, scorer, outcome, winner, lambda: _searched_on(task, scorer, outcome, settled), concluded
        )


def _searched_on(task: Task, scorer: Scorer, outcome: Outcome, settled: Settled) -> Steps[Refined | None]:
    """Another config to prove, searched for in the time that a failed proof has left; None where there is none."""
    if not (_is_plain(settled) and may_search_on(task, scorer)):
        return None
    scorer.say("the proof of the winner has failed: the time that it left is searched in")
    yield from _searched(task, scorer, outcome, settled, expected_trials(task, scorer))
    return (yield from refine(task, scorer, settled.plays.plan))


def _is_plain(settled: Settled) -> bool:
    """Whether one search has all settings from its beginning to its end."""
    return settled.prune is None and settled.passes is None


def _goes_on(task: Task, scorer: Scorer, ended: Ended, settled: Settled) -> bool:
    """Whether the search goes on in the time that was kept for the proof of a config which did not stand up to a repeat."""
    is_early = _is_plain(settled) and ended.is_time_used and may_search_on(task, scorer)
    if is_early:
        scorer.say(
            "nothing was better than your config when it was measured again: the time kept for its proof is searched in"
        )
    return is_early


def _searched(task: Task, scorer: Scorer, outcome: Outcome, settled: Settled, n_expected: int | None) -> Steps[Ended]:
    """The search, from what was settled, of so many trials to be expected; why it ended."""
    log, warm = WarmLog(), settled.warm or WarmStart()

    def renewed() -> GuardedSearcher | PruningSearcher | PassesSearcher:
        return start_searcher(task, n_expected, settled, log, n_before=_n_searched(scorer), scorer=scorer)

    searcher = renewed()
    scorer.say("searching")
    for line in filter(None, (warm.describe(), searcher.describe())):
        scorer.say(line)
    try:
        ended = yield from explore(
            task, scorer, searcher, log, renewed if _is_plain(settled) else None, went_on=settled.went_on
        )
        outcome.stop_reason, outcome.stop_kind = ended.reason, StopKind.OVER
    finally:
        outcome.passes = searcher.summary() if isinstance(searcher, PassesSearcher) else None
        outcome.pruned = searcher.summary() if isinstance(searcher, PruningSearcher) else None
        outcome.warm_start = settled.warm.summary(log) if settled.warm is not None else None
    return ended


def _n_searched(scorer: Scorer) -> int:
    """Configs that searches of this study have measured so far: one that begins again needs no spread of first ones."""
    return len({trial.config for trial in scorer.trials if trial.role is Role.SEARCH})


def _best_config(task: Task, scorer: Scorer) -> Config | None:
    """The best config measured so far, unproven; None when none beats the baseline, or meets a constraint that it misses."""
    means = acceptable_means(task.objective, scorer.trials)
    best = min((c for c in means if c != task.baseline), key=lambda config: means[config], default=None)
    return best if best is not None and means[best] < scorer.par else None
