"""Latin hypercube sampling: in every batch of n configs each knob takes each of n equal slices of its range once.

Source: M. McKay, R. Beckman, W. Conover, "A comparison of three methods for selecting values of input variables",
Technometrics 21 (1979); used for knob ranking by Kanellis et al., "Too many knobs to tune?", HotStorage 2020.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from trimtab.search.base import Options, SearcherBase
from trimtab.search.searcher import SearchProblem
from trimtab.space import Config, Space

__all__ = ["LatinHypercubeSearcher", "latin_hypercube"]


def latin_hypercube(space: Space, n: int, rng: np.random.Generator) -> list[Config]:
    """`n` feasible configs, one in each slice of every knob's range; infeasible ones are moved by `Space.repair`."""
    if space.n_dims == 0:
        return [space.default()] * n
    points: NDArray[np.float64] = qmc.LatinHypercube(space.n_dims, seed=rng).random(n)
    configs = space.decode_many(points)
    return [config if space.is_feasible(config) else space.repair(config) for config in configs]


class LatinHypercubeSearcher(SearcherBase):
    """Goes through one Latin hypercube after another."""

    NAME: ClassVar[str] = "lhs"
    OPTIONS: ClassVar[Options] = {
        "batch": (0, "configs in one hypercube; 0: the budget in trials when it is known, else 32"),
    }

    def __init__(self, problem: SearchProblem) -> None:
        super().__init__(problem)
        self._require("batch", self.options["batch"] >= 0, "0 or more")
        self._size: int = self.options["batch"] or problem.budget_trials or 32
        self._batch: list[Config] = []

    def _propose(self, rng: np.random.Generator) -> Config:
        number, place = divmod(self.n_asked, self._size)
        if place == 0 or not self._batch:
            self._batch = latin_hypercube(self.space, self._size, np.random.default_rng([self.problem.seed, number, 1]))
        config = self._batch[place]
        return config if self._is_new(config) else self._random_new(rng)
