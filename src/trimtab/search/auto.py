"""The default searcher: what is known first, then what it can be improved by, then a Gaussian process near the best.

The advice is tried first, then a few Latin hypercube points, and then `gp` with local moves that rarely touch knobs which
need a restart. With `screen` the baseline with one group of the advised changes at a time comes after the advice and
shows which part of it is worth its while (the idea of SARD, B. Debnath et al., ICDE 2008, with the advice as high level).
It is off by default: on the synthetic surfaces it made the first ten trials worse and later ones no better.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from trimtab.search.base import Options
from trimtab.search.gp import GaussianProcessSearcher
from trimtab.search.lhs import latin_hypercube
from trimtab.space import Config

__all__ = ["AutoSearcher"]

_SMALL_BUDGET = 12
"""Below this many trials nothing is spent on exploring: advice, then moves around the best."""


class AutoSearcher(GaussianProcessSearcher):
    """Advice, a few space-filling configs, then `gp` with restart-aware local moves; only near the best when trials are few."""

    NAME: ClassVar[str] = "auto"
    OPTIONS: ClassVar[Options] = {
        **GaussianProcessSearcher.OPTIONS,
        "restart_share": (0.35, "share of local candidates in which knobs that need a restart may change"),
        "screen": (0, "configs that take one group of the advised changes each; 0: none"),
    }

    def _check_options(self) -> None:
        super()._check_options()
        self._require("screen", self.options["screen"] >= 0, "0 or more")

    def _make_design(self, rng: np.random.Generator) -> list[Config]:
        openers = self._openers()
        screening = self._screening(openers[0], rng) if openers else []
        if self._is_local:
            return [*openers[:3], *screening[:2]]
        n = int(self.options["initial"]) or self._n_initial()
        return [*openers, *screening, *latin_hypercube(self.space, n, rng)]

    @property
    def _is_local(self) -> bool:
        return (self.problem.budget_trials or _SMALL_BUDGET) < _SMALL_BUDGET

    def _screening(self, advised: Config, rng: np.random.Generator) -> list[Config]:
        """The baseline with one group of the advised changes each; every change is in one group."""
        baseline = self.space.repair(self.filler)
        changed = list(rng.permutation(np.array(advised.difference(baseline), dtype=object)))
        n_groups = min(int(self.options["screen"]), len(changed))
        groups = [changed[start::n_groups] for start in range(n_groups)] if n_groups > 1 else []
        mixed = [baseline.replace({name: advised[name] for name in group}) for group in groups]
        return [config for config in map(self.space.canonical, mixed) if self.space.is_feasible(config)]
