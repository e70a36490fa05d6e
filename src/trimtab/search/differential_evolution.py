"""Differential evolution: differences between good configs are the steps by which the members of a population move.

Sources: R. Storn, K. Price, "Differential Evolution - A Simple and Efficient Heuristic for Global Optimization over
Continuous Spaces", J. Global Optimization 11 (1997), eq. 2 to 6 (rand/1/bin, best/1/bin); S. Das, P. Suganthan,
"Differential Evolution: A Survey of the State-of-the-Art", IEEE TEVC 15 (2011), eq. 8 (current-to-best) and §IV.A (a factor
drawn anew for each vector). Each trial replaces its target as soon as it is told, so nothing waits for a generation.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from trimtab.search.base import Options, SearcherBase
from trimtab.search.lhs import latin_hypercube
from trimtab.search.searcher import SearchProblem
from trimtab.space import Config

__all__ = ["DifferentialEvolutionSearcher"]

Point = NDArray[np.float64]

_STRATEGIES = ("best", "current-to-best", "rand")
_TRIES = 12
"""Trial vectors made for one ask before a random config is given instead."""


class DifferentialEvolutionSearcher(SearcherBase):
    """The advice and a Latin hypercube are the first population; failed configs are replaced by whatever works."""

    NAME: ClassVar[str] = "differential-evolution"
    FITS_MODEL: ClassVar[bool] = False
    OPTIONS: ClassVar[Options] = {
        "population": (
            0,
            "members, 4 or more; 0: an eighth of the budget in trials, from 6 to 20, 8 when unknown",
        ),
        "strategy": ("best", "what is moved: 'best', 'current-to-best', or 'rand' (a random member)"),
        "factor": (0.7, "mean length of a step in differences; drawn between half and one and a half of it"),
        "crossover": (0.8, "share of the knobs that the moved vector gives to the trial"),
    }

    def __init__(self, problem: SearchProblem) -> None:
        super().__init__(problem)
        n = int(self.options["population"])
        self._require("population", n == 0 or n >= 4, "0, or 4 or more")
        self._require("strategy", self.options["strategy"] in _STRATEGIES, "'best', 'current-to-best' or 'rand'")
        self._require("factor", 0 < self.options["factor"] <= 2, "more than 0 and at most 2")
        self._require("crossover", 0 <= self.options["crossover"] <= 1, "between 0 and 1")
        self._n = n or min(20, max(6, (problem.budget_trials or 64) // 8))
        self._members: list[Config] = []
        self._targets: dict[Config, int] = {}
        self._turn = 0

    def _propose(self, rng: np.random.Generator) -> Config:
        if self.is_exhausted:
            return self._random_new(rng)
        if not self._members:
            self._members = self._first_population()
        self._select()
        unborn = self._first_new(self._members)
        if unborn is not None:
            return unborn
        for _ in range(_TRIES):
            target = self._turn % self._n
            self._turn += 1
            trial = self._trial(target, rng)
            if self._is_new(trial):
                self._targets[trial] = target
                return trial
        return self._random_new(rng)

    def _first_population(self) -> list[Config]:
        rng = np.random.default_rng([self.problem.seed, 0, 6])
        best = self.ledger.best()
        known = [] if best is None else [best.config]
        sampled = latin_hypercube(self.space, self._n, rng)
        return list(dict.fromkeys([*self._openers(), *known, *sampled]))[: self._n]

    def _select(self) -> None:
        """Lets trials that were told replace their targets, and what others found the worst member."""
        for trial, target in list(self._targets.items()):
            if trial not in self.pending:
                del self._targets[trial]
                place = target % len(self._members)
                if self._loss(trial) <= self._loss(self._members[place]) and math.isfinite(self._loss(trial)):
                    self._members[place] = trial
        best = self.ledger.best()
        if best is not None and all(best.loss < self._loss(member) for member in self._members):
            worst = max(range(len(self._members)), key=lambda place: self._loss(self._members[place]))
            self._members[worst] = best.config

    def _trial(self, target: int, rng: np.random.Generator) -> Config:
        """The trial vector for a member, repaired to a feasible config."""
        points = [self.space.encode(member) for member in self._members]
        place = target % len(points)
        own = points[place]
        moved = self._moved(place, points, rng)
        taken = rng.random(len(own)) < self.options["crossover"]
        if len(own):
            taken[rng.integers(len(own))] = True
        return self.space.repair(self.space.decode(_reflected(np.where(taken, moved, own))))

    def _moved(self, target: int, points: list[Point], rng: np.random.Generator) -> Point:
        """The moved vector for the member at `target`; the members that it is made of are others, each another one."""
        factor, own = self.options["factor"] * rng.uniform(0.5, 1.5), points[target]
        others = [place for place in range(len(points)) if place != target] or [target]
        first, second, third = (points[place] for place in rng.choice(others, 3, replace=len(others) < 3))
        best = points[min(range(len(points)), key=lambda place: self._loss(self._members[place]))]
        if self.options["strategy"] == "best":
            return np.asarray(best + factor * (first - second))
        if self.options["strategy"] == "rand":
            return np.asarray(third + factor * (first - second))
        return np.asarray(own + factor * (best - own) + factor * (first - second))


def _reflected(point: Point) -> Point:
    """What left the cube by less than its width is mirrored at the border, so that the ends do not attract everything."""
    return np.clip(np.where(point < 0.0, -point, np.where(point > 1.0, 2.0 - point, point)), 0.0, 1.0)
