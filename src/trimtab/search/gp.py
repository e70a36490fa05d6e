"""Bayesian optimisation with a Gaussian process over the space's features, as in iTuned, with what was learned since.

Sources: S. Duan, V. Thummala, S. Babu, "Tuning Database Configuration Parameters with iTuned", VLDB 2009 (Latin
hypercube, then Gaussian process with expected improvement, knobs ranked by their effect); J. Snoek, H. Larochelle,
R. Adams, "Practical Bayesian Optimization of Machine Learning Algorithms", NeurIPS 2012; R. Garnett, "Bayesian
Optimization", 2023, ch. 7; the sources of the parts are named in gaussian_process, acquisition, acceptability,
surrogate and candidates.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from trimtab.search.base import Options
from trimtab.search.ledger import Evidence
from trimtab.search.modelled import Model, ModelSearcher
from trimtab.search.searcher import SearchProblem
from trimtab.search.surrogate import Surrogate, SurrogateHyper, fit_surrogate
from trimtab.space import Config

__all__ = ["GaussianProcessSearcher"]

Array = NDArray[np.float64]

_FIT_CAP = 200
"""Configs from which hyper-parameters are fitted: more hardly changes them and costs n³."""

_REPEATED = 3
"""How many of the leaders are considered for a repeat."""


class GaussianProcessSearcher(ModelSearcher):
    """Advice and a small Latin hypercube first; then the largest expected improvement, now and then a repeat."""

    NAME: ClassVar[str] = "gp"
    OPTIONS: ClassVar[Options] = {
        **ModelSearcher.OPTIONS,
        "cap": (400, "most configs that enter the model: the best, the latest, and some of the others"),
        "repeats": (1, "most trials of one config; above 1 a leader is measured again where that is worth more"),
    }

    def __init__(self, problem: SearchProblem) -> None:
        super().__init__(problem)
        self._hyper: SurrogateHyper | None = None
        self._surrogate: Surrogate | None = None

    def _check_options(self) -> None:
        super()._check_options()
        self._require("cap", self.options["cap"] >= 10, "10 or more")
        self._require("repeats", self.options["repeats"] >= 1, "1 or more")

    def _effects(self) -> Array | None:
        return None if self._hyper is None else self._hyper.effects

    def _model(self, evidence: list[Evidence], rng: np.random.Generator) -> Model:
        self._surrogate = self._believed(evidence)
        return self._surrogate

    def _believed(self, evidence: list[Evidence]) -> Surrogate:
        """The surrogate, with hyper-parameters fitted anew when that is due."""
        if self._is_refit_due(len(evidence)) or self._hyper is None:
            self._hyper = fit_surrogate(evidence, _FIT_CAP)
        return Surrogate(
            evidence,
            self._pending_features(),
            self._hyper,
            cap=self.options["cap"],
            caution=self.options["caution"],
            previous=self._surrogate,
        )

    def _chosen(self, model: Model, rng: np.random.Generator) -> Config:
        config = self._most_promising(model, rng)
        again = self._repeatable(model.leaders)
        if not again or self._surrogate is None:
            return config
        worth = self._surrogate.augmented_worth(self.space.features([config, *(e.config for e in again)]))
        best = int(np.argmax(worth))
        return config if best == 0 else again[best - 1].config

    def _repeatable(self, leaders: list[Evidence]) -> list[Evidence]:
        """The leaders that may be measured once more."""
        few = [e for e in leaders[:_REPEATED] if len(e.measured) < self.options["repeats"]]
        return [e for e in few if e.is_acceptable and e.config not in self.pending]
