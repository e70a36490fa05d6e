"""Sobol points: a scrambled low-discrepancy sequence, which covers the space more evenly than independent draws.

Sources: I. Sobol', "On the distribution of points in a cube and the approximate evaluation of integrals", USSR
Computational Mathematics and Mathematical Physics 7 (1967); A. Owen, "Scrambling Sobol' and Niederreiter-Xing points",
J. Complexity 14 (1998); scipy.stats.qmc.Sobol.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import scipy  # its stats, most of a second to load, come on first use

from trimtab.search.base import SearcherBase
from trimtab.search.searcher import SearchProblem
from trimtab.space import Config

__all__ = ["SobolSearcher"]

_BLOCK = 64
"""Points drawn at a time; a power of two keeps the sequence balanced."""


class SobolSearcher(SearcherBase):
    """Goes through a Sobol sequence; points that break a constraint are moved to the nearest that meet all.

    Points that fell on known ones are skipped.
    """

    NAME: ClassVar[str] = "sobol"
    FITS_MODEL: ClassVar[bool] = False

    def __init__(self, problem: SearchProblem) -> None:
        super().__init__(problem)
        n = self.space.n_dims
        self._engine = (
            scipy.stats.qmc.Sobol(n, scramble=True, seed=np.random.default_rng([problem.seed, 0, 5])) if n else None
        )
        self._block = np.empty((0, n))

    def _propose(self, rng: np.random.Generator) -> Config:
        if self.is_exhausted or self._engine is None:
            return self._random_new(rng)
        for _ in range(_BLOCK):
            if not len(self._block):
                self._block = self._engine.random(_BLOCK)
            point, self._block = self._block[:1], self._block[1:]
            config = self.space.feasible_configs(point)[0]  # one at a time: a repair takes milliseconds
            if self._is_new(config):
                return config
        return self._random_new(rng)
