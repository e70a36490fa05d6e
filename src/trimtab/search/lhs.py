"""Latin hypercube sampling: in every batch of n configs each knob takes each of n equal slices of its range once.

Source: M. McKay, R. Beckman, W. Conover, "A comparison of three methods for selecting values of input variables",
Technometrics 21 (1979); used for knob ranking by Kanellis et al., "Too many knobs to tune?", HotStorage 2020.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import scipy  # its stats, most of a second to load, come on first use
from numpy.typing import NDArray

from trimtab.search.base import Options, SearcherBase
from trimtab.search.searcher import SearchProblem
from trimtab.space import Config, Space

__all__ = ["LatinHypercubeSearcher", "latin_hypercube"]


def latin_hypercube(space: Space, n: int, rng: np.random.Generator) -> list[Config]:
    """`n` feasible configs, one in each slice of every knob's range; infeasible ones are moved by `Space.repair`."""
    return [space.default()] * n if space.n_dims == 0 else space.feasible_configs(_points(space, n, rng))


def _points(space: Space, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    return np.asarray(scipy.stats.qmc.LatinHypercube(space.n_dims, seed=rng).random(n))


class LatinHypercubeSearcher(SearcherBase):
    """Goes through one Latin hypercube after another; what was lost of one is asked again before the next comes."""

    NAME: ClassVar[str] = "lhs"
    FITS_MODEL: ClassVar[bool] = False
    OPTIONS: ClassVar[Options] = {
        "batch": (0, "configs in one hypercube; 0: the budget in trials when it is known, else 32"),
    }

    def __init__(self, problem: SearchProblem) -> None:
        super().__init__(problem)
        self._require("batch", self.options["batch"] >= 0, "0 or more")
        self._size: int = self.options["batch"] or problem.budget_trials or 32
        self._batch: NDArray[np.float64] = np.empty((0, self.space.n_dims))
        self._given: list[Config] = []
        self._n_given = 0

    def _propose(self, rng: np.random.Generator) -> Config:
        if not self.space.n_dims:
            return self._random_new(rng)
        lost = self._first_new(self._given)
        if lost is not None:
            return lost
        number, place = divmod(self._n_given, self._size)
        if place == 0:
            self._batch = _points(self.space, self._size, np.random.default_rng([self.problem.seed, number, 1]))
            self._given.clear()
        config = self.space.feasible_configs(self._batch[place : place + 1])[0]  # a repair takes milliseconds
        self._given.append(config if self._is_new(config) else self._random_new(rng))
        self._n_given += 1
        return self._given[-1]
