"""Bayesian optimisation with a Gaussian process over the space's features, as in iTuned, with what was learned since.

Sources: S. Duan, V. Thummala, S. Babu, "Tuning Database Configuration Parameters with iTuned", VLDB 2009 (Latin
hypercube, then Gaussian process with expected improvement, knobs ranked by their effect); J. Snoek, H. Larochelle,
R. Adams, "Practical Bayesian Optimization of Machine Learning Algorithms", NeurIPS 2012; R. Garnett, "Bayesian
Optimization", 2023, ch. 7; the sources of the parts are named in surrogate, acquisition and optimise, and in the room model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from trimtab.search.acquisition import feasible
from trimtab.search.base import Options
from trimtab.search.design import Design, ListedDesign
from trimtab.search.engine import BayesianSearcher, Member
from trimtab.search.lhs import latin_hypercube
from trimtab.search.optimise import Everywhere, Optimise, Region, optimiser
from trimtab.search.surrogate import Feasibility, GaussianModel, Model

__all__ = ["MODEL_OPTIONS", "GaussianProcessSearcher", "ModelSearcher"]

MODEL_OPTIONS: Options = {
    "initial": (0, "space-filling configs before the model is used; 0: chosen from knobs and budget"),
    "candidates": (1200, "points scored for one ask, before the best are improved"),
    "caution": (4.0, "how much the risk of failing counts: exponent of the probability of success"),
    "changes": (3.0, "mean number of knobs changed at once near a good config"),
    "restart_share": (1.0, "share of local candidates in which knobs that need a restart may change"),
    "marginal": (0.002, "converged when the expected gain (log-ratio) of ten asks in a row is below this"),
    "cap": (400, "most configs that enter the model: the best, the latest, and some of the others"),
}


class ModelSearcher(BayesianSearcher):
    """Advice and a small Latin hypercube first; then one member over and over. A strategy brings the model or region."""

    OPTIONS: ClassVar[Options] = MODEL_OPTIONS

    def _made(self) -> tuple[Design, Sequence[Member]]:
        configs = latin_hypercube(self.space, self._n_initial(), np.random.default_rng([self.problem.seed, 0, 3]))
        return ListedDesign(self.space, configs), [self._member()]

    def _n_initial(self) -> int:
        """A quarter of the budget at most, and about a third of the knobs: the model learns more from its own asks."""
        most = (self.problem.budget_trials or 60) // 4
        return self.options["initial"] or int(np.clip(self.space.n_dims // 3, 2, max(2, min(most, 10))))

    def _member(self) -> Member:
        works = feasible(Feasibility(self.options["cap"]), self.options["caution"])
        return Member(self._model(), self._region(), [works], self._optimise())

    def _model(self) -> Model:
        return GaussianModel(self.n_features, self.options["cap"])

    def _region(self) -> Region:
        return Everywhere()

    def _optimise(self, n_candidates: int | None = None, rounds: int = 3) -> Optimise:
        return optimiser(
            self.space, (self.filler, *self._openers()), self.belief,
            n_candidates=n_candidates or self.options["candidates"], rounds=rounds, changes=self.options["changes"],
            restart_share=self.options["restart_share"],
        )  # fmt: skip


class GaussianProcessSearcher(ModelSearcher):
    """Advice and a small Latin hypercube first; then the largest expected improvement.

    With `repeats` above 1 a repeat is spent only on a config that would be called best and that the model does not believe in.
    """

    NAME: ClassVar[str] = "gp"
    OPTIONS: ClassVar[Options] = {
        **MODEL_OPTIONS,
        "repeats": (1, "most trials of one config: the best so far is measured again when its loss looks like luck"),
    }
