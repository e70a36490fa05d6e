"""The search phase: ask, measure, tell, with the baseline interleaved, until the budget, the searcher or patience ends it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from trimtab.flow.ask import Ask, Effort, Steps, Stream
from trimtab.flow.harm import as_judged, best_harmless
from trimtab.flow.losses import fresh_mean
from trimtab.flow.passes import PassesSearcher
from trimtab.flow.prune import IMPROVEMENT, PruningSearcher
from trimtab.flow.reserve import after_search_s, finish_reserve_s, least_proof_s, repeat_s
from trimtab.flow.score import Scorer
from trimtab.flow.task import Task
from trimtab.measure import EarlyStop, Interval
from trimtab.records import BASELINE_ROLES, Role, Status, Trial
from trimtab.search import FallbackSearcher, Searcher
from trimtab.search.warm import WarmLog
from trimtab.space import Config
from trimtab.units import counted, format_duration, format_percent

__all__ = [
    "Ended",
    "budget_end",
    "early_stop",
    "expected_trials",
    "explore",
    "may_search_on",
    "regression_end",
    "tell_if_spoilt",
]

_STOP_MARGIN = 0.10
"""A trial is stopped early when it is surely at least this much worse than the best."""

_LATENCY_STOP_MARGIN = 0.5
"""The same where latency is the objective: in a closed loop half the throughput is twice the mean latency; a percentile could
still be a little better, but no config worth having does so little work."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a search phase.

    Attributes:
        reason: in words; "" while it goes on.
        is_time_used: its part of a wall-clock budget is used; what is left is kept for the proof.
    """

    reason: str = ""
    is_time_used: bool = False


@dataclass(slots=True)
class _Progress:
    """Why and when the search ends."""

    best: float = math.inf
    since: int = 0
    is_met: bool = False

    def take(self, trial: Trial, *, nears: bool = False) -> None:
        """`nears`: while no trial meets the constraints of the objective, one that misses them by less is progress, too."""
        self.since += 1
        if trial.loss is None or not (trial.is_feasible or (nears and not self.is_met)):
            return
        loss = trial.loss + trial.excess
        if loss < self.best - IMPROVEMENT or (trial.is_feasible and nears and not self.is_met):
            self.best, self.since, self.is_met = loss, 0, trial.is_feasible


def expected_trials(task: Task, scorer: Scorer) -> int | None:
    """How many search trials the budget will allow, judged by what the baseline cost; None when nothing is known."""
    budget, cost = task.budget, scorer.mean_cost_s
    if budget.trials is not None:
        return max(1, budget.trials - n_played(scorer))
    if budget.seconds is None or not cost:
        return None
    left = budget.seconds - scorer.spent_s - after_search_s(task, scorer)
    every = task.search.baseline_every
    return max(1, int(left / cost * every / (every + 1)))


def _kept_s(task: Task, scorer: Scorer) -> float:
    """Seconds that the search leaves: for the leaders, the proof and the ablation.

    While nothing is better than the baseline there are no leaders and no lines: only the proof's least is kept then, with a
    repeat where a proof has failed before.
    """
    if _has_leader(task, scorer):
        return after_search_s(task, scorer)
    return min(finish_reserve_s(task, scorer), least_proof_s(task, scorer)) + repeat_s(scorer)


def _has_leader(task: Task, scorer: Scorer) -> bool:
    """Whether a config is better than the baseline, by the runs that did not choose it where there are any."""
    others = {trial.config for trial in scorer.in_question if trial.loss is not None and trial.loss < scorer.par}
    return any(fresh_mean(scorer.trials, config) < scorer.par for config in others - {task.baseline})


def may_search_on(task: Task, scorer: Scorer) -> bool:
    """Whether a wall-clock budget has room for another trial, its repeat, and the least proof, though nothing found is better."""
    cost, budget_s = scorer.mean_cost_s, task.budget.seconds
    return (
        budget_s is not None
        and not scorer.enough
        and scorer.spent_s + 2 * cost + least_proof_s(task, scorer) <= budget_s
    )


def explore(
    task: Task,
    scorer: Scorer,
    searcher: Searcher,
    log: WarmLog | None = None,
    renewed: Callable[[], Searcher] | None = None,
    *,
    went_on: Mapping[int, Role] | None = None,
) -> Steps[Ended]:
    """Runs the search phase; returns why it ended. What `log` notes is said as well.

    Several trials may be under way: a searcher is asked for the next config before it is told of those. `renewed` makes another
    one like `searcher`, which is told what counts after earlier trials were changed; None: `searcher` goes on all the same. No
    budget ends it where it `went_on` by the record (see `Settled`).
    """
    search = _Search(task, scorer, searcher, log, renewed, went_on or {})
    yield Stream(search.lanes())
    return search.ended


class _Search:
    """The search phase under way; `ended` says why it is not any more."""

    def __init__(
        self,
        task: Task,
        scorer: Scorer,
        searcher: Searcher,
        log: WarmLog | None,
        renewed: Callable[[], Searcher] | None,
        went_on: Mapping[int, Role],
    ) -> None:
        self.ended = Ended()
        self._went_on = went_on
        self._task, self._scorer, self._log, self._renewed = task, scorer, log, renewed
        self._progress = _Progress()
        self._under_way: list[Config] = []
        self._begin(searcher)

    def _begin(self, searcher: Searcher) -> None:
        """With a searcher that has seen nothing yet."""
        task, scorer = self._task, self._scorer
        self._searcher, self._n_changed = searcher, scorer.n_changed
        self._steady = FallbackSearcher(
            searcher, space=task.space, baseline=task.baseline, seed=task.seed, say=scorer.say
        )
        for trial in scorer.trials:
            self._steady.tell(as_judged(task, scorer, trial))

    def _catch_up(self) -> None:
        """After a trial was taken back, or the machine was seen to have drifted."""
        if self._scorer.n_changed == self._n_changed:
            return
        self._progress = _Progress()
        for trial in self._scorer.trials:
            if trial.role in (Role.SEARCH, Role.ADVICE, Role.DESIGN):
                self._progress.take(as_judged(self._task, self._scorer, trial), nears=self._scorer.par == math.inf)
        if self._renewed is not None:
            self._begin(self._renewed())
        self._n_changed = self._scorer.n_changed

    def lanes(self) -> Iterator[Steps[None]]:
        """One trial each, until the search ends."""
        n_first = n_played(self._scorer)
        n_search = n_first
        while True:
            self._catch_up()
            self.ended = self._ended(n_search)
            if self.ended.reason:
                return
            if n_search > n_first and self._is_baseline_due(n_search):
                yield self._baseline()
            config = self._asked()
            for line in self._log.take() if self._log is not None else ():
                self._scorer.say(line)
            n_search += 1
            self._under_way.append(config)
            yield self._trial(config)

    def _asked(self) -> Config:
        """The next config; of a searcher that has begun anew, and does not know what is under way, none of that."""
        for _ in self._under_way:
            config = self._steady.ask(1)[0]
            if config not in self._under_way:
                return config
        return self._steady.ask(1)[0]

    def _ended(self, n_search: int) -> Ended:
        """Whether and why the search should end now, after `n_search` trials."""
        if self._scorer.enough:
            return Ended(self._scorer.enough)
        if reason := self._budget_end(n_search, n_runs=1):
            return Ended(reason, is_time_used=self._task.budget.seconds is not None)
        if isinstance(self._searcher, PassesSearcher) and self._searcher.end:
            return Ended(self._searcher.end)
        return Ended(_no_more(self._task, self._scorer, self._steady, self._progress))

    def _budget_end(self, n_search: int, n_runs: int) -> str:
        """As `budget_end`; "" where the search went on by the record."""
        if self._scorer.trials[-1].number in self._went_on:
            return ""
        return budget_end(self._task, self._scorer, n_search, partial(_kept_s, self._task, self._scorer), n_runs=n_runs)

    def _is_baseline_due(self, n_search: int) -> bool:
        """Whether a run of the baseline comes before the next config. Where a single run is left it does not: the proof has some
        of its own."""
        last = self._scorer.trials[-1].number
        if last in self._went_on:
            return self._went_on[last] is Role.BASELINE
        return n_search % self._task.search.baseline_every == 0 and not self._budget_end(n_search, n_runs=2)

    def _baseline(self) -> Steps[None]:
        self._steady.tell((yield Ask(config=self._task.baseline, role=Role.BASELINE)))

    def _trial(self, config: Config) -> Steps[None]:
        searcher = self._searcher
        role = _role(self._task, searcher, config)
        trial = yield Ask(
            config=config,
            role=role,
            effort=searcher.effort if isinstance(searcher, PassesSearcher) else Effort.QUICK,
            # A ranking needs to know how bad a bad config is, but not at the cost of users.
            early_stop=early_stop(self._task, self._scorer)
            if role is not Role.DESIGN or self._task.is_prudent
            else None,
            searcher=self._task.search.searcher,
        )
        self._under_way.remove(config)
        judged = as_judged(self._task, self._scorer, trial)
        self._steady.tell(judged)
        self._progress.take(judged, nears=self._scorer.par == math.inf)
        if isinstance(searcher, PruningSearcher | PassesSearcher):
            is_new = _said(searcher, self._scorer) or searcher.is_ranking
            self._progress.since = 0 if is_new else self._progress.since
        tell_if_spoilt(self._scorer, trial)


def tell_if_spoilt(scorer: Scorer, trial: Trial) -> None:
    """Says what a trial of the search counts for that could not be measured."""
    if trial.status is Status.INFRASTRUCTURE:
        what = trial.reason.partition("\n")[0]
        scorer.say(f"trial {trial.number}: {what}; it counts in the budget, and teaches the searcher nothing")


def budget_end(task: Task, scorer: Scorer, n_search: int, kept_s: Callable[[], float], *, n_runs: int = 1) -> str:
    """Why the budget, after `n_search` trials of the search, has no room for `n_runs` more; "" where it has.

    `kept_s`: seconds of a wall-clock budget that the search leaves; one trial is made whatever is kept.
    """
    budget = task.budget
    if budget.trials is not None and n_search >= budget.trials:
        return f"the budget of {budget} is used"
    if budget.seconds is not None and n_search:
        kept = kept_s()
        if scorer.spent_s + n_runs * scorer.mean_cost_s > budget.seconds - kept:
            return f"the budget of {budget} is used, except {format_duration(round(kept))} for the proof"
    return ""


def regression_end(scorer: Scorer) -> str:
    """That the regression budget is spent."""
    most, lost = (format_duration(seconds) for seconds in (scorer.task.regression_budget_s, scorer.lost_s))
    return f"the regression budget of {most} of user time is spent (lost {lost})"


def _said(searcher: PruningSearcher | PassesSearcher, scorer: Scorer) -> bool:
    """Passes on what has been decided on the way; whether anything has."""
    lines = searcher.news()
    for line in lines:
        scorer.say(line)
    return bool(lines)


def _role(task: Task, searcher: Searcher, config: Config) -> Role:
    if config == task.advice:
        return Role.ADVICE
    return Role.DESIGN if isinstance(searcher, PruningSearcher) and searcher.is_ranking else Role.SEARCH


def _no_more(task: Task, scorer: Scorer, searcher: Searcher, progress: _Progress) -> str:
    """Why the search should end within its budget; "" to go on."""
    if searcher.is_exhausted:
        return "the searcher has tried everything there is"
    if searcher.is_converged:
        return "the searcher has converged"
    if not scorer.may_try_new:
        return f"{regression_end(scorer)}: nothing new is tried any more"
    if progress.since >= task.search.patience:
        return f"no improvement of {format_percent(IMPROVEMENT)} in {counted(progress.since, 'trial')}"
    return ""


def early_stop(task: Task, scorer: Scorer, best_loss: float | None = None) -> EarlyStop | None:
    """Watches a trial's throughput against that of the best so far, second by second; None where that tells nothing.

    Args:
        task: of the study.
        scorer: of the trials so far.
        best_loss: what counts as the best where throughput is the objective; None, or another objective: the single run with
            the least loss, of a config that does not harm.
    """
    if not len(scorer.track):
        return None
    best = best_harmless(task, scorer)
    if scorer.par == math.inf and (best is None or best.config == task.baseline or scorer.refused):
        return None  # no speed is too low for a config that meets what the baseline misses
    if scorer.refused:
        # What the best runs showed was luck: the baseline is the best that is known.
        best, best_loss = next(t for t in reversed(scorer.trials) if t.role in BASELINE_ROLES and t.measurement), 0.0
    if task.objective.metric != "throughput":
        return _latency_stop(best)
    if best_loss is None:
        best_loss = (best.loss or 0.0) if best is not None else 0.0
    value = scorer.track.at(scorer.spent_s)[0] * math.exp(-best_loss)
    spread = 1.96 * scorer.noise_sd * value
    incumbent = Interval(value, value - spread, value + spread, se=spread / 1.96)
    return EarlyStop(incumbent, is_maximised=True, margin=_STOP_MARGIN)


def _latency_stop(best: Trial | None) -> EarlyStop | None:
    """In a closed loop throughput tells of the mean latency; in an open one it is what is offered, and tells nothing. So it is
    with the traffic of an application, of which nobody knows which of the two it is."""
    m = best.measurement if best is not None else None
    if m is None or m.is_open or m.is_observed or not m.throughput.estimate > 0:
        return None
    return EarlyStop(m.throughput, is_maximised=True, margin=_LATENCY_STOP_MARGIN)


def n_played(scorer: Scorer) -> int:
    """Trials of plays so far: they count in a budget of trials."""
    return sum(trial.role is Role.PLAY for trial in scorer.trials)
