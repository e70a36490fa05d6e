"""Pruning in two levels: rank the knobs with a share of the budget, then tune only the first of them, and more while it pays.

The first level measures the advice and a Latin hypercube over all knobs (Kanellis et al., "Too many knobs to tune?", HotStorage
2020), or checks ranks that another study found; a prudent one stays near what works. The second runs the study's searcher over
the first k knobs, all others held at the baseline; where the gain stalls, knobs are added, k, 2k, 4k, ... (Van Aken et al.,
OtterTune, SIGMOD 2017, section 5.2), until an addition has brought nothing.

All of it is a function of the plan and of the trials told, so a study resumes by replay as without pruning. The plan is kept
with the study, because the budget and the other study may change in between.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from trimtab.errors import InternalError, UsageError
from trimtab.importance import Consensus, RankProblem, check_ranks, make_design, rank_knobs
from trimtab.records import PruneLevel, PrunePlan, PruneSummary, Role, Status, Trial
from trimtab.search import Ledger, Searcher, SearchProblem
from trimtab.search.auto import TEMPERS
from trimtab.search.design import Design, InteriorDesign, ListedDesign
from trimtab.search.narrowed import NarrowedSearcher
from trimtab.space import Config
from trimtab.units import counted

__all__ = ["IMPROVEMENT", "PruningSearcher", "first_level_runs", "tuning_order"]

IMPROVEMENT = 0.01
"""A new best counts as a gain only when it is at least this much better (relative)."""

_LEAST_CHECK = 10
"""Runs after which carried ranks are checked."""

_LEAST_STALL = 8
"""Trials without a gain after which knobs are added; twice the number of knobs when that is more."""

_NAMES_SHOWN = 8

_SHARE = 1 / 3
"""Of the search's trials that the first level may use."""

_RUNS_PER_KNOB = 3
_LEAST_RUNS = 12
_LEAST_FORCED = 8
"""Runs of the first level: three a knob if the share allows; below 12, and below one a knob, ranks would be chance. Where the
user has said how many knobs to tune, or carried ranks are only checked, 8 must do."""


class PruningSearcher:
    """A `Searcher` over the whole space that asks for the first level's runs, and then what `make` makes over some knobs.

    Args:
        problem: of the whole space.
        plan: of the pruning.
        make: the study's searcher for a problem over fewer knobs.
        patience: of the study: trials without an improvement after which the whole search ends.
        is_prudent: whether the first level changes few knobs at once, and in small steps, as a prudent search does.

    Attributes:
        tuned: knobs that the second level searches now; empty before it has begun.
        order: all knobs, most important first; empty while that is not known.
        is_ranking: whether the config asked for last is one of the first level.
    """

    def __init__(
        self, problem: SearchProblem, plan: PrunePlan, make: Callable[[SearchProblem], Searcher], *, patience: int,
        is_prudent: bool = False,
    ) -> None:  # fmt: skip
        self._problem, self._plan, self._make, self._patience = problem, plan, make, patience
        self._carried = plan.carried
        self._held = problem.space.repair(problem.space.canonical(problem.baseline))
        # What is wrong with the searcher's options is said before anything is measured.
        self._narrowed(tuple(problem.space.knobs)[: max(1, plan.want)], None, None)
        self._ledger = Ledger(problem.space, self._held)
        self._first, self._n_first = self._first_level(is_prudent)
        self._n_first_asked = 0
        self._trials: list[Trial] = []
        self._inner: NarrowedSearcher | None = None
        self._news: list[str] = []
        self._levels: list[PruneLevel] = []
        self._note = ""
        self._unexplained = 1.0
        self._n_asked = self._since = 0
        self._best = self._best_before = math.inf
        self._is_widening = True
        self.tuned: tuple[str, ...] = ()
        self.order: tuple[str, ...] = ()
        self.is_ranking = False

    def _first_level(self, is_prudent: bool) -> tuple[Design, int]:
        """The design by which the knobs are ranked, and its runs."""
        problem, n = self._problem, self._plan.runs
        space = problem.space
        if not n or space.size() <= n:
            return ListedDesign(space, ()), 0
        if is_prudent:
            temper = TEMPERS["prudent"]
            return InteriorDesign(space, n, problem.seed, self._held, None, step=temper.step, share=temper.share), n
        advice = [space.repair(space.canonical(config)) for config in problem.advice]
        design = make_design("lhs", space, problem.baseline, n, problem.seed).configs
        configs = list(dict.fromkeys([*advice, *design]))[:n]
        return ListedDesign(space, configs), len(configs)

    def _next_of_first_level(self) -> Config | None:
        """None when the first level is done."""
        if self._inner is not None or self._n_first_asked >= self._n_first:
            return None
        config = self._first.next(self._ledger)
        self._n_first_asked = self._n_first if config is None else self._n_first_asked + 1
        if config is not None:
            self._ledger.pending[config] += 1
        return config

    @property
    def _is_check_due(self) -> bool:
        n_least = min(self._n_first, max(_LEAST_CHECK, self._plan.runs // 2))
        return bool(self._carried) and self._inner is None and self._n_first_asked >= n_least

    @property
    def is_exhausted(self) -> bool:
        """The searcher has asked for everything, and no knob is left to add."""
        return self._inner is not None and self._inner.is_exhausted and not self._may_widen

    @property
    def is_converged(self) -> bool:
        """The searcher thinks that going on is not worth it, and no knob is left to add."""
        return self._inner is not None and self._inner.is_converged and not self._may_widen

    @property
    def _may_widen(self) -> bool:
        return self._is_widening and len(self.tuned) < len(self._problem.space.knobs)

    def describe(self) -> str:
        """What will be done, in a line."""
        n = len(self._problem.space.knobs)
        if not self._plan.runs:
            return f"the budget has no room to rank n_knobs={n} first: all are tuned"
        carried = f"checking the ranks of {self._plan.source} by" if self._plan.carried else f"ranking {n} knobs by"
        return f"{carried} up to {counted(self._plan.runs, 'run')} first"

    def news(self) -> list[str]:
        """What has been decided since this was last called, one line each."""
        lines, self._news = self._news, []
        return lines

    def ask(self, n: int = 1) -> list[Config]:
        """`n` configs of the whole space."""
        return [self._next() for _ in range(n)]

    def _next(self) -> Config:
        self._n_asked += 1
        if self._is_check_due:
            self._check_carried()
        first = self._next_of_first_level()
        if first is None and self._inner is None and self._carried:
            self._check_carried()
        self.is_ranking = first is not None
        if first is not None:
            return first
        if self._inner is None:
            self._begin(*self._ranked())
        elif self._may_widen and self._is_stalled():
            self._widen()
        inner = self._inner
        if inner is None:
            raise InternalError("the second level of a pruned search has no searcher")
        return inner.ask(1)[0]

    def tell(self, trial: Trial) -> None:
        """Learns from `trial`; the searcher of the second level sees it through the knobs that it tunes."""
        if self._ledger.tell(trial) is not None:
            self._learn(trial)
        elif trial.status is Status.INFRASTRUCTURE:
            if self._inner is not None:
                self._inner.tell(trial)
            elif (config := self._ledger.own(trial.config)) is not None:
                self._ledger.pending[config] += 1  # a run that is lost is not made again: others rank as well

    def _learn(self, trial: Trial) -> None:
        self._trials.append(trial)
        if trial.role is not Role.BASELINE:
            self._since += 1
        if trial.is_feasible and trial.loss is not None and trial.loss < self._best - IMPROVEMENT:
            self._best, self._since = trial.loss, 0
        if self._inner is not None:
            self._inner.tell(trial)

    def best(self) -> Trial | None:
        """The most precise trial of the config with the least mean loss; None before the first acceptable one."""
        evidence = self._ledger.best()
        return None if evidence is None else evidence.representative()

    def summary(self) -> PruneSummary:
        """For the verdict: the plan, the ranks, the levels, what was tuned and what was left out."""
        return PruneSummary(
            plan=self._plan,
            order=self.order,
            levels=tuple(self._levels),
            tuned=self.tuned,
            left_out=tuple(name for name in self.order if name not in self.tuned),
            note=self._note,
        )

    def _check_carried(self) -> None:
        """Takes the carried ranks when this study's own trials agree with them, else goes on to rank its own."""
        names = tuple(name for name in self._carried if name in self._problem.space.knobs)
        try:
            check = check_ranks(self._rank_problem(), names)
        except UsageError as error:
            self._drop_carried(error.message)
            return
        if not check.is_confirmed:
            self._drop_carried(check.verdict)
            return
        self._say(f"the ranks of {self._plan.source} hold here: {check.verdict}")
        self._begin(names, self._plan.want or self._plan.carried_knee)

    def _drop_carried(self, reason: str) -> None:
        self._say(f"the ranks of {self._plan.source} are dropped: {reason}")
        self._carried = ()

    def _rank_problem(self) -> RankProblem:
        problem = self._problem
        return RankProblem(space=problem.space, baseline=problem.baseline, trials=self._trials, seed=problem.seed)

    def _ranked(self) -> tuple[tuple[str, ...], int]:
        """The knobs in the order of their ranks, and how many to begin with."""
        every = tuple(self._problem.space.knobs)
        if not self._plan.runs:
            self._note = self.describe()
            return every, len(every)
        try:
            consensus = rank_knobs(self._rank_problem())
        except UsageError as error:
            self._say(f"the knobs cannot be ranked, so all are tuned: {error.message}")
            return every, len(every)
        order, n_worth = tuning_order(consensus)
        has_told = not consensus.verdict and consensus.knee > 0
        n = self._plan.want or (n_worth if has_told else len(every))
        if consensus.verdict:
            self._say(consensus.verdict + ("" if self._plan.want else ": all knobs are tuned"))
        self._unexplained = sum(entry.score for entry in consensus.knobs if entry.knob not in order[:n]) or 1.0
        return order, n

    def _begin(self, order: tuple[str, ...], n: int) -> None:
        self.order = order
        self._open_level(max(1, n))
        if self._may_widen:
            self._news.append(f"tuning {len(self.tuned)} of {len(order)} knobs: {_listed(self.tuned)}")

    def _is_stalled(self) -> bool:
        inner = self._inner
        limit = min(max(_LEAST_STALL, 2 * len(self.tuned)), max(1, self._patience // 2))
        return inner is not None and (inner.is_exhausted or inner.is_converged or self._since >= limit)

    def _widen(self) -> None:
        """Adds as many knobs as are tuned already, unless the last addition has brought nothing."""
        if len(self._levels) > 1 and not self._best < self._best_before:
            self._is_widening = False
            self._say(f"adding knobs has brought nothing: {len(self.order) - len(self.tuned)} are left out")
            return
        n = len(self.tuned)
        self._open_level(2 * n)
        self._news.append(f"the gain has stalled with {n} knobs: added {_listed(self.tuned[n:])}")

    def _open_level(self, n: int) -> None:
        problem = self._problem
        self.tuned = self.order[:n]
        self._levels.append(PruneLevel(n_knobs=len(self.tuned), n_trials_before=len(self._trials)))
        self._since, self._best_before = 0, self._best
        budget = problem.budget_trials
        left = None if budget is None else max(1, budget - self._n_asked + 1)
        self._inner = self._narrowed(self.tuned, left, self._spread_outside())
        for trial in self._trials:
            self._inner.tell(trial)

    def _narrowed(self, knobs: tuple[str, ...], budget: int | None, spread: float | None) -> NarrowedSearcher:
        """The study's searcher over these knobs alone."""
        problem = self._problem
        return NarrowedSearcher(
            problem, knobs, self._held, self._make, budget_trials=budget, spread=spread, same_as_held=problem.baseline
        )

    def _spread_outside(self) -> float:
        """Standard deviation of the loss that knobs outside the first ones may explain."""
        losses = [trial.loss for trial in self._trials if trial.is_feasible and trial.loss is not None]
        return math.sqrt(self._unexplained) * float(np.std(losses)) if losses else 0.0

    def _say(self, line: str) -> None:
        self._news.append(line)
        self._note = line


def _listed(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(names[:_NAMES_SHOWN]) + more


def tuning_order(consensus: Consensus) -> tuple[tuple[str, ...], int]:
    """The knobs in the order in which they should be tuned, and how many of them are worth it, at least one.

    Knobs that matter but are best left at their default (Kanellis et al.) come after those that pay.
    """
    worth = [name for name in consensus.names if name not in consensus.not_worth]
    n_worth = sum(name not in consensus.not_worth for name in consensus.names[: consensus.knee])
    return (*worth, *(name for name in consensus.names if name in consensus.not_worth)), max(1, n_worth)


def first_level_runs(n_knobs: int, budget_trials: int | None, *, is_forced: bool) -> int:
    """Runs of the first level; 0 when the budget has no room for a ranking."""
    asked = max(_LEAST_RUNS, _RUNS_PER_KNOB * n_knobs)
    runs = asked if budget_trials is None else min(asked, int(_SHARE * budget_trials))
    return runs if runs >= (_LEAST_FORCED if is_forced else max(_LEAST_RUNS, n_knobs)) else 0
