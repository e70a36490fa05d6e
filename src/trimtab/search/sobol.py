"""Sobol points: a scrambled low-discrepancy sequence, which covers the space more evenly than independent draws.

Sources: I. Sobol', "On the distribution of points in a cube and the approximate evaluation of integrals", USSR
Computational Mathematics and Mathematical Physics 7 (1967); A. Owen, "Scrambling Sobol' and Niederreiter-Xing points",
J. Complexity 14 (1998); scipy.stats.qmc.Sobol.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy.stats import qmc

from trimtab.search.base import SearcherBase
from trimtab.search.searcher import SearchProblem
from trimtab.space import Config

__all__ = ["SobolSearcher"]

_BLOCK = 64
"""Points drawn at a time; a power of two keeps the sequence balanced."""


class SobolSearcher(SearcherBase):
    """Goes through the sequence; infeasible points are moved by `Space.repair`, points that fell on known ones skipped."""

    NAME: ClassVar[str] = "sobol"

    def __init__(self, problem: SearchProblem) -> None:
        super().__init__(problem)
        n = self.space.n_dims
        self._engine = qmc.Sobol(n, scramble=True, seed=np.random.default_rng([problem.seed, 0, 5])) if n else None
        self._block: list[Config] = []

    def _propose(self, rng: np.random.Generator) -> Config:
        if self.is_exhausted or self._engine is None:
            return self._random_new(rng)
        for _ in range(_BLOCK):
            if not self._block:
                self._block = self.space.decode_many(self._engine.random(_BLOCK))[::-1]
            config = self._block.pop()
            config = config if self.space.is_feasible(config) else self.space.repair(config)
            if self._is_new(config):
                return config
        return self._random_new(rng)
