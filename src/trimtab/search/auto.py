"""The default searcher: what is known first, then outwards from it, by a Gaussian process that minds risks and restarts.

The advice is tried first. A few configs around the best of baseline and advice follow, each with some knobs changed, none
far; then `gp` with prudence (see `trimtab.search.prudence`): it prefers configs that are likely to be bearable, that leave
the tried ranges little, and that need no restart. Its constants were chosen by measurement on recorded trials and on
synthetic surfaces (benchmarks/search, docs/explanation/search.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from trimtab.records import Trial
from trimtab.search.base import Options
from trimtab.search.gaussian_process import Prior
from trimtab.search.gp import GaussianProcessSearcher
from trimtab.search.ledger import Evidence
from trimtab.search.modelled import Model
from trimtab.search.prudence import Blame, Envelope, Prudence, PrudentModel
from trimtab.search.searcher import SearchProblem
from trimtab.space import Config

__all__ = ["AutoSearcher"]

Array = NDArray[np.float64]

_SMALL_BUDGET = 12
"""Below this many trials nothing is spent on exploring: advice, then moves around the best."""


_LABEL_WEIGHT = 0.1
"""Share of a range that a choice or special value never tried counts for: it cannot be approached in steps."""


_ROUGHER = 2.0
"""Logarithm by which the second prior expects the loss to bend more in every knob at once: cliffs and narrow optima."""

_NUGGET_SPREAD = 0.7
"""Of the prior on unexplained noise: each trial tells its own, so what is left over is seldom large."""


class AutoSearcher(GaussianProcessSearcher):
    """Advice, a few configs around it, then `gp` with prudence; only near the best when trials are few."""

    NAME: ClassVar[str] = "auto"
    OPTIONS: ClassVar[Options] = {
        **GaussianProcessSearcher.OPTIONS,
        "restart_share": (0.35, "share of local candidates in which knobs that need a restart may change"),
        "restart_cost": (0.3, "what a restart costs, in trials: expected improvement is divided by one plus it"),
        "wariness": (1.0, "how much the risk of being 10 % worse than the baseline counts: exponent of its absence"),
        "reach": (1.0, "share of a knob's range by which leaving the tried range costs a factor of e"),
        "grudge": (2.0, "how much repeating what is blamed for a failure counts: exponent of the chance that it works"),
        "spread": (1.0, "how far the first configs lie from baseline or advice, as a share of each knob's range"),
        "touched": (0.4, "share of the knobs that each of the first configs changes"),
    }

    def __init__(self, problem: SearchProblem) -> None:
        super().__init__(problem)
        self._here = self.filler
        n_features = self.space.features([self.filler]).shape[1]
        self._costly_features = np.zeros(n_features, dtype=bool)
        self._weight = np.full(n_features, _LABEL_WEIGHT)
        for columns, is_costly, knob in zip(self._slices, self._costly, self.space.knobs.values(), strict=True):
            self._costly_features[columns] = is_costly
            if knob.is_numeric:
                self._weight[columns.start] = 1.0

    def _check_options(self) -> None:
        super()._check_options()
        for name in ("restart_cost", "wariness", "grudge"):
            self._require(name, self.options[name] >= 0, "0 or more")
        for name in ("reach", "spread", "touched"):
            self._require(name, self.options[name] > 0, "above 0")

    def tell(self, trial: Trial) -> None:
        """Learns from `trial`, and takes its config for the one that the target has now."""
        super().tell(trial)
        self._here = self.ledger.own(trial.config) or self._here

    def _make_design(self, rng: np.random.Generator) -> list[Config]:
        openers = self._openers()
        if self._is_local:
            return openers[:3]
        n = int(self.options["initial"]) or self._n_initial()
        return [*openers, *self._around(openers[0] if openers else self.space.repair(self.filler), n, rng)]

    @property
    def _is_local(self) -> bool:
        return (self.problem.budget_trials or _SMALL_BUDGET) < _SMALL_BUDGET

    def _around(self, centre: Config, n: int, rng: np.random.Generator) -> list[Config]:
        """`n` configs with some knobs of `centre` changed, towards the points of a Latin hypercube."""
        d = self.space.n_dims
        if d == 0:
            return []
        origin = self.space.encode(centre)
        targets = qmc.LatinHypercube(d, seed=rng).random(n)
        changed = rng.random((n, d)) < self.options["touched"]
        points = np.where(changed, origin + self.options["spread"] * (targets - origin), origin)
        return [self.space.repair(config) for config in self.space.decode_many(points)]

    def _priors(self) -> Sequence[Prior]:
        """A smooth prior and a rougher one, both reluctant to call structure noise."""
        smooth = replace(Prior.of(len(self._weight)), nugget_spread=_NUGGET_SPREAD)
        return smooth, replace(smooth, relevance_at=smooth.relevance_at + _ROUGHER)

    def _model(self, evidence: list[Evidence], rng: np.random.Generator) -> Model:
        surrogate = self._believed(evidence)
        self._surrogate = surrogate
        own, here = self.space.features([self.filler, self._here])
        prudence = Prudence(
            wariness=self.options["wariness"], reach=self.options["reach"], envelope=Envelope.of(evidence, own, self._weight),
            costly=self._costly_features, here=here, restart_cost=self.options["restart_cost"],
            grudge=self.options["grudge"], blame=Blame(evidence, own),
        )  # fmt: skip
        return PrudentModel(surrogate, prudence)
