"""An ensemble of searchers, of which a bandit lets those ask more often that found new best configs lately.

Sources: J. Ansel et al., "OpenTuner: An Extensible Framework for Program Autotuning", PACT 2014 (ensembles of techniques
that share their results; AUC credit assignment); A. Fialho, M. Schoenauer, M. Sebag, "Toward Comparison-based Adaptive
Operator Selection", GECCO 2010 (the area under the curve as reward of a bandit). With V the outcomes of a member's asks
in the window, oldest first, 1 for a new best and 0 else, its score is

    2 / (|V| (|V| + 1)) · Σ i·V_i  +  C · √(2 log2 |H| / |V|)

where |H| is how many asks of all members are in the window; a member without any is asked first.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from trimtab.errors import UsageError
from trimtab.records import Status, Trial
from trimtab.search.base import Options, SearcherBase
from trimtab.search.bestconfig import BestConfigSearcher
from trimtab.search.differential_evolution import DifferentialEvolutionSearcher
from trimtab.search.hill_climbing import HillClimbingSearcher
from trimtab.search.nelder_mead import NelderMeadSearcher
from trimtab.search.pattern_search import PatternSearcher
from trimtab.search.pro import ParallelRankOrderSearcher
from trimtab.search.random import RandomSearcher
from trimtab.search.searcher import SearchProblem
from trimtab.search.sobol import SobolSearcher
from trimtab.space import Config

__all__ = ["EnsembleSearcher", "credit"]

_MEMBERS: Mapping[str, type[SearcherBase]] = {
    member.NAME: member
    for member in (
        DifferentialEvolutionSearcher,
        PatternSearcher,
        HillClimbingSearcher,
        NelderMeadSearcher,
        ParallelRankOrderSearcher,
        BestConfigSearcher,
        RandomSearcher,
        SobolSearcher,
    )
}
"""Searchers that learn from nothing but the ledger, so that they can share one."""


def credit(outcomes: Sequence[bool]) -> float:
    """The area under the curve of new bests over a member's asks, oldest first, in [0, 1]; 0 when there are none."""
    n = len(outcomes)
    return 2.0 * sum(i for i, is_best in enumerate(outcomes, start=1) if is_best) / (n * (n + 1)) if n else 0.0


class EnsembleSearcher(SearcherBase):
    """The advice first, then whom of several searchers a bandit chooses; all of them learn from every trial.

    The members share the ensemble's ledger.
    """

    NAME: ClassVar[str] = "ensemble"
    OPTIONS: ClassVar[Options] = {
        "members": (
            "differential-evolution pattern-search hill-climbing nelder-mead random",
            "names of the searchers, separated by spaces; with their own defaults",
        ),
        "window": (500, "latest asks that count for the bandit"),
        "exploration": (0.05, "exploration constant C of the bandit"),
    }

    def __init__(self, problem: SearchProblem) -> None:
        super().__init__(problem)
        self._require("window", self.options["window"] >= 1, "1 or more")
        self._require("exploration", self.options["exploration"] >= 0, "0 or more")
        self.members = {name: self._member(name) for name in self.options["members"].split()}
        self._require("members", bool(self.members), "one searcher or more")
        self._askers: dict[Config, str] = {}
        self._outcomes: deque[tuple[str, bool]] = deque(maxlen=int(self.options["window"]))

    def _member(self, name: str) -> SearcherBase:
        if name not in _MEMBERS:
            raise UsageError(
                f"no member {name!r} of searcher {self.NAME!r}", hint=f"use some of: {', '.join(sorted(_MEMBERS))}"
            )
        own = SearchProblem(
            space=self.space,
            baseline=self.problem.baseline,
            advice=self.problem.advice,
            context=self.problem.context,
            # Members that draw the same design would find nothing new in it.
            seed=self.problem.seed + 1000 * (1 + sorted(_MEMBERS).index(name)),
            budget_trials=self.problem.budget_trials,
        )
        member = _MEMBERS[name](own)
        member.ledger = self.ledger
        return member

    def tell(self, trial: Trial) -> None:
        config, before = self.ledger.own(trial.config), self.ledger.best()
        loss_before = math.inf if before is None else before.loss
        super().tell(trial)
        asker = self._askers.pop(config, None) if config is not None else None
        if asker is not None and trial.status is not Status.INFRASTRUCTURE:
            best = self.ledger.best()
            is_best = best is not None and best.config == config and best.loss < loss_before
            self._outcomes.append((asker, is_best))

    def scores(self) -> dict[str, float]:
        """What the bandit gives each member, by name; infinite for one that was not asked within the window."""
        found = {}
        for name in self.members:
            own = [is_best for asker, is_best in self._outcomes if asker == name]
            waiting = sum(asker == name for asker in self._askers.values())
            n_uses, n_all = len(own) + waiting, len(self._outcomes) + len(self._askers)
            bonus = math.sqrt(2.0 * math.log2(n_all) / n_uses) if n_uses else math.inf
            found[name] = credit(own) + self.options["exploration"] * bonus if n_uses else math.inf
        return found

    def _propose(self, rng: np.random.Generator) -> Config:
        opener = self._opening()
        if opener is not None or self.is_exhausted:
            return opener if opener is not None else self._random_new(rng)
        scores = self.scores()
        names = sorted(scores, key=lambda name: (-scores[name], rng.random()))
        for name in names:
            member = self.members[name]
            config = member._propose(rng)
            member.n_asked += 1
            if self._is_new(config):
                self._askers[config] = name
                return config
        return self._random_new(rng)
