"""Random search: feasible configs drawn independently.

Source: J. Bergstra, Y. Bengio, "Random search for hyper-parameter optimization", JMLR 13 (2012); Active Harmony's
random method (Zhou 2013, §3.4.1). It is the yardstick that every other searcher has to beat.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from trimtab.search.base import SearcherBase
from trimtab.space import Config

__all__ = ["RandomSearcher"]


class RandomSearcher(SearcherBase):
    """Draws feasible configs, none twice while the space has others."""

    NAME: ClassVar[str] = "random"
    FITS_MODEL: ClassVar[bool] = False

    def _propose(self, rng: np.random.Generator) -> Config:
        return self._random_new(rng)
