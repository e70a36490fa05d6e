"""Passes: a search over some of the knobs at a time, the others held at the best that was found so far.

Knobs that need a restart are searched apart from those that take effect at once: with few long trials, since each costs a
restart and a cold cache, and then the others with many short ones, from the best config of the pass before (Zhou, "Auto-tuning
of database systems", 2013, section 5.5). A pass ends when its share of the search is used, when its searcher has nothing more to
ask, or when it stalls.

    one              all knobs at once (no passes)
    restart-first    restart, then reload until the search ends
    alternate        restart, reload, restart, ... until a pass has brought nothing
    tiers            of a stack, one tier after the other from the bottom up, again and again until a round has brought nothing

All of it is a function of the plan and of the trials told, so a study resumes by replay. The plan is kept with the study, because
the budget may change in between.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from trimtab.errors import InternalError, UsageError
from trimtab.flow.ask import Effort
from trimtab.flow.prune import IMPROVEMENT
from trimtab.records import PassesPlan, PassesSummary, PassSummary, Role, Status, Trial
from trimtab.search import Ledger, Searcher, SearchProblem
from trimtab.search.narrowed import NarrowedSearcher
from trimtab.space import Config, RestartClass, Space
from trimtab.units import counted, format_figure

__all__ = ["Pass", "PassesSearcher", "passes_of"]

_LEAST_STALL = 8
"""Trials without a gain after which a pass ends; twice the number of its knobs when that is more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One pass.

    Attributes:
        name: "restart" or "reload", or that of a tier; what people are shown.
        knobs: that it searches.
        share: of what is left of the search, the most it may use while another pass comes after it.
        effort: how long its trials measure.
    """

    name: str
    knobs: tuple[str, ...]
    share: float
    effort: Effort


def passes_of(space: Space, kind: str) -> tuple[Pass, ...]:
    """The parts that the knobs of `space` are divided into by passes of that kind.

    Raises:
        UsageError: they are all of one part.
    """
    return _tiers(space) if kind == "tiers" else _classes(space)


def _share(index: int, n: int) -> float:
    """Of what is left of the search, the most that a pass may use: so the first round leaves as much as each of them has used."""
    return 1 / (n + 1 - index)


def _tiers(space: Space) -> tuple[Pass, ...]:
    """The knobs of each tier: in a stack they have its name before their own."""
    tiers: dict[str, list[str]] = {}
    for name in space.knobs:
        tier, dot, _ = name.partition(".")
        tiers.setdefault(tier if dot else "", []).append(name)
    if len(tiers) < 2:
        raise UsageError(
            f"search.passes='tiers' has nothing to divide: all n_knobs={len(space.knobs)} knobs of the study are of one target",
            hint="leave passes out, or tune several targets as one",
        )

    def is_late(name: str) -> bool:
        return space.knobs[name].restart is not RestartClass.RELOAD

    return tuple(
        Pass(
            name=tier,
            knobs=tuple(names),
            share=_share(index, len(tiers)),
            effort=Effort.LONG if all(map(is_late, names)) else Effort.QUICK,
        )
        for index, (tier, names) in enumerate(tiers.items())
    )


def _classes(space: Space) -> tuple[Pass, ...]:
    """The knobs that need a restart, and those that do not."""
    late = tuple(name for name, knob in space.knobs.items() if knob.restart is not RestartClass.RELOAD)
    soon = tuple(name for name in space.knobs if name not in late)
    if not late or not soon:
        only = "take effect without a restart" if soon else "need a restart"
        raise UsageError(
            f"search.passes has nothing to divide: all n_knobs={len(space.knobs)} knobs of the study {only}",
            hint="leave passes out, or name knobs of both kinds (`trimtab knobs` shows which need a restart)",
        )
    return (
        Pass(name="restart", knobs=late, share=_share(0, 2), effort=Effort.LONG),
        Pass(name="reload", knobs=soon, share=_share(1, 2), effort=Effort.QUICK),
    )


@dataclass(slots=True)
class _Running:
    """A pass under way: what was best when it began, and what it has used."""

    part: Pass
    searcher: NarrowedSearcher
    best_before: float
    limit: float
    n_trials: int = 0
    used: float = 0.0
    cost_s: float = 0.0
    since: int = 0


class PassesSearcher:
    """A `Searcher` over the whole space that runs the study's searcher over one part of the knobs after the other.

    Args:
        problem: of the whole space.
        plan: of the passes.
        make: the study's searcher for a problem over fewer knobs.
        patience: of the study: trials without an improvement after which the whole search ends.

    Raises:
        UsageError: all knobs of the space are of one part, or the study's searcher refuses one.
    """

    is_ranking = False

    def __init__(
        self, problem: SearchProblem, plan: PassesPlan, make: Callable[[SearchProblem], Searcher], *, patience: int
    ) -> None:
        self._problem, self._plan, self._make, self._patience = problem, plan, make, patience
        self._parts = passes_of(problem.space, plan.kind)
        self._start = problem.space.repair(problem.space.canonical(problem.baseline))
        self._ledger = Ledger(problem.space, self._start)
        self._first = deque(
            config for config in map(self._legal, problem.advice) if config != self._start
        )  # the advice is tried whole, for it is not the sum of its parts
        self._trials: list[Trial] = []
        self._done: list[PassSummary] = []
        self._running: _Running | None = None
        self._news: list[str] = []
        self._left = float(plan.room) if plan.room is not None else math.inf
        self._end = ""
        for part in self._parts:  # what is wrong with the searcher's options is said before anything is measured
            self._narrowed(part, self._start, None)

    def _legal(self, config: Config) -> Config:
        return self._problem.space.repair(self._problem.space.canonical(config))

    @property
    def effort(self) -> Effort:
        """How long the config that was asked for last should be measured."""
        return self._running.part.effort if self._running is not None else Effort.QUICK

    @property
    def end(self) -> str:
        """Why the passes have ended; "" while they go on."""
        return self._end

    @property
    def is_exhausted(self) -> bool:
        """Whether the passes have ended."""
        return bool(self._end)

    @property
    def is_converged(self) -> bool:
        """Never: the end of a pass begins another one, or ends the search."""
        return False

    def describe(self) -> str:
        """What will be done, in a line."""
        if self._plan.kind == "tiers":
            parts = ", ".join(f"{part.name} ({counted(len(part.knobs), 'knob')})" for part in self._parts)
            return f"searching in passes, one target after the other: {parts}; again until a round brings nothing"
        late, soon = (counted(len(part.knobs), "knob") for part in self._parts)
        again = ", again until a pass brings nothing" if self._plan.kind == "alternate" else ""
        return f"searching in passes: {late} that need a restart with few long trials, then {soon} that do not{again}"

    def news(self) -> list[str]:
        """What has been decided since this was last called, one line each."""
        lines, self._news = self._news, []
        return lines

    def ask(self, n: int = 1) -> list[Config]:
        """`n` configs of the whole space, of one pass."""
        if self._first:
            return [self._first.popleft() for _ in range(min(n, len(self._first)))]
        if self._running is None:
            self._open(self._parts[0])
        running = self._running
        if running is None or self._end:
            raise InternalError("a search in passes was asked after its end")
        return running.searcher.ask(n)

    def tell(self, trial: Trial) -> None:
        """Learns from `trial`; the searcher of the pass sees it through the knobs that it searches."""
        is_known = self._ledger.tell(trial) is not None
        if is_known:
            self._trials.append(trial)
        running = self._running
        if running is None:
            return
        if is_known or trial.status is Status.INFRASTRUCTURE:
            running.searcher.tell(trial)
        running.cost_s += sum(trial.cost_s.values())
        if trial.role is Role.BASELINE:
            return
        self._count(running, trial)
        if self._is_over(running):
            self._close(running)

    def _count(self, running: _Running, trial: Trial) -> None:
        used = sum(trial.cost_s.values()) / self._plan.unit_cost_s if self._plan.unit_cost_s else 1.0
        running.n_trials += 1
        running.used += used
        self._left -= used
        running.since += 1
        earlier = min((t.loss for t in self._trials[:-1] if t.is_feasible and t.loss is not None), default=math.inf)
        if trial.is_feasible and trial.loss is not None and trial.loss < earlier - IMPROVEMENT:
            running.since = 0

    def best(self) -> Trial | None:
        """The most precise trial of the config with the least mean loss; None before the first acceptable one."""
        evidence = self._ledger.best()
        return None if evidence is None else evidence.representative()

    def summary(self) -> PassesSummary:
        """For the verdict: the plan, and what each pass brought and cost; the one under way as well."""
        rows = [*self._done, *([self._row(self._running)] if self._running is not None else [])]
        return PassesSummary(plan=self._plan, passes=tuple(rows), end=self._end)

    def _open(self, part: Pass) -> None:
        held, best, _ = self._held()
        is_last = self._plan.kind == "restart-first" and part is self._parts[-1]
        limit = math.inf if is_last else part.share * self._left
        n_expected = None if math.isinf(self._left) else max(1, int(self._left if is_last else limit))
        searcher = self._narrowed(part, held, n_expected)
        for trial in self._trials:
            searcher.tell(trial)
        self._running = _Running(part, searcher, best, limit)
        long = " with long trials" if part.effort is Effort.LONG else ""
        self._news.append(f"pass {len(self._done) + 1}: {counted(len(part.knobs), 'knob')} ({part.name}){long}")

    def _narrowed(self, part: Pass, held: Config, n_expected: int | None) -> NarrowedSearcher:
        """The study's searcher over the knobs of one part."""
        return NarrowedSearcher(
            self._problem,
            part.knobs,
            held,
            self._make,
            budget_trials=n_expected,
            spread=None,
            same_as_held=self._problem.baseline if held == self._start else None,
        )

    def _held(self) -> tuple[Config, float, float]:
        """The best config so far, its loss and that one's standard error; the baseline's where nothing has beaten it. A baseline
        that missed a constraint of the objective in all its runs is beaten by what meets it: its own loss is infinite."""
        found = self._ledger.best()
        starts = [
            trial.excess > 0 for trial in self._trials if trial.config == self._start and trial.status is Status.OK
        ]
        par = math.inf if starts and all(starts) else 0.0
        if found is None or found.loss >= par:
            return self._start, par, 0.0
        return found.config, found.loss, found.se or 0.0

    def _is_over(self, running: _Running) -> bool:
        if running.searcher.is_exhausted or running.searcher.is_converged or running.used >= running.limit:
            return True
        if self._plan.kind == "restart-first" and running.part is self._parts[-1]:
            return False
        stall = min(max(_LEAST_STALL, 2 * len(running.part.knobs)), max(1, self._patience // 2))
        return running.since >= stall

    def _close(self, running: _Running) -> None:
        """Notes what the pass has brought, and begins the next one or ends."""
        row = self._row(running)
        self._done.append(row)
        self._running = None
        self._news.append(f"pass {len(self._done)} ({row.name}) has brought {_brought(row)}")
        index = self._parts.index(running.part)
        if self._plan.kind == "restart-first" and index == len(self._parts) - 1:
            self._end = "all passes are made"
        elif self._is_settled():
            self._end = (
                "the last pass has brought nothing"
                if len(self._parts) == 2
                else "a round of passes has brought nothing"
            )
        elif self._left < 1:
            self._end = "the passes' share of the search is used"
        else:
            self._open(self._parts[(index + 1) % len(self._parts)])

    def _is_settled(self) -> bool:
        """Whether every other part has seen the best config that there is, and found nothing to add to it."""
        n_parts = len(self._parts)
        return len(self._done) >= n_parts and not any(row.has_gained for row in self._done[1 - n_parts :])

    def _row(self, running: _Running) -> PassSummary:
        _, best, se = self._held()
        return PassSummary(
            name=running.part.name,
            knobs=running.part.knobs,
            trials=running.n_trials,
            cost_s=running.cost_s,
            gain=_times_better(running.best_before, best),
            has_gained=best < running.best_before - max(IMPROVEMENT, se),
        )


def _times_better(before: float, after: float) -> float:
    """By the losses; where nothing met the constraints before, at least 1: to meet them is no loss at any speed."""
    return math.exp(before - after) if math.isfinite(before) else math.exp(max(0.0, -after))


def _brought(row: PassSummary) -> str:
    if row.has_gained and row.gain <= 1:
        return "a config that meets the objective's constraints"
    return f"{format_figure(100 * (row.gain - 1), 3)} %" if row.has_gained else "nothing"
