"""Pattern search: one knob after another up or down by a step, a leap along what helped, and a smaller step when nothing does.

Sources: R. Hooke, T. Jeeves, "'Direct Search' Solution of Numerical and Statistical Problems", J. ACM 8 (1961),
(exploratory and pattern moves); OpenTuner's PatternSearch (J. Ansel et al., PACT 2014) has only the first kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from trimtab.search.base import Options
from trimtab.search.searcher import SearchProblem
from trimtab.search.stepwise import SteppedSearcher, Steps
from trimtab.space import Config

__all__ = ["PatternSearcher"]


class PatternSearcher(SteppedSearcher):
    """Starts from the best of the advice and what is known; knobs come in random order, the last good direction first."""

    NAME: ClassVar[str] = "pattern-search"
    FITS_MODEL: ClassVar[bool] = False
    OPTIONS: ClassVar[Options] = {
        "probes": (5, "random configs tried before the first start, in addition to the advice"),
        "step": (0.25, "first step as a share of a knob's range"),
        "shrink": (0.5, "factor of the step when no knob helps, between 0 and 1"),
        "smallest": (0.02, "step below which the search restarts, from the best with some knobs drawn at random"),
    }

    def __init__(self, problem: SearchProblem) -> None:
        super().__init__(problem)
        self._signs = self._rng.choice([-1.0, 1.0], self.space.n_dims)

    def _check_options(self) -> None:
        self._require("probes", self.options["probes"] >= 0, "0 or more")
        self._require("step", 0 < self.options["step"] <= 1, "more than 0 and at most 1")
        self._require("shrink", 0 < self.options["shrink"] < 1, "between 0 and 1")
        smallest = self.options["smallest"]
        self._require("smallest", 0 < smallest <= self.options["step"], "more than 0 and at most step")

    def _run(self) -> Steps:
        yield from self._start(int(self.options["probes"]))
        path = [self._best_config()]
        while True:
            yield from self._descend(path)
            other = self.space.sample(1, self._rng)[0]
            drawn = [name for name in self.space.knobs if self._rng.random() < 0.5]
            path = [self.space.repair(self._best_config().replace({name: other[name] for name in drawn}))]
            yield path

    def _descend(self, path: list[Config]) -> Steps:
        """Explores around the end of `path` with smaller and smaller steps; appends every place that was better."""
        step = float(self.options["step"])
        while step >= self.options["smallest"]:
            base = path[-1]
            yield from self._explore(path, step)
            if path[-1] == base:
                step *= self.options["shrink"]
            else:
                yield from self._leap(base, path)

    def _explore(self, path: list[Config], step: float) -> Steps:
        """An exploratory move: each knob by one step, kept when it helps."""
        for axis in self._rng.permutation(self.space.n_dims):
            for sign, move in self._moves(path[-1], int(axis), step):
                yield [move]
                if self._loss(move) < self._loss(path[-1]):
                    path.append(move)
                    self._signs[axis] = sign
                    break

    def _moves(self, here: Config, axis: int, step: float) -> Iterator[tuple[float, Config]]:
        """Directions, and `here` with one knob changed: first in the direction that helped last, then in the other; a knob
        with few values takes the next of them, however large a step that is."""
        origin = self.space.encode(here)
        for sign in (self._signs[axis], -self._signs[axis]):
            reach = step
            while reach < 2.0:
                point = origin.copy()
                point[axis] = np.clip(point[axis] + sign * reach, 0.0, 1.0)
                move = self.space.decode(point)
                if move != here:
                    if self.space.is_feasible(move):
                        yield sign, move
                    break
                reach *= 2.0

    def _leap(self, base: Config, path: list[Config]) -> Steps:
        """Pattern moves: as far again along the way from `base` to the end of `path`, while that helps."""
        while True:
            here = self.space.encode(path[-1])
            leap = self.space.decode(np.clip(2.0 * here - self.space.encode(base), 0.0, 1.0))
            if leap in (path[-1], base) or not self.space.is_feasible(leap):
                return
            yield [leap]
            if not self._loss(leap) < self._loss(path[-1]):
                return
            base = path[-1]
            path.append(leap)
