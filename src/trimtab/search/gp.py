"""Bayesian optimisation with a Gaussian process over the space's features, as in iTuned, with what was learned since.

Sources: S. Duan, V. Thummala, S. Babu, "Tuning Database Configuration Parameters with iTuned", VLDB 2009 (Latin
hypercube, then Gaussian process with expected improvement, knobs ranked by their effect); J. Snoek, H. Larochelle,
R. Adams, "Practical Bayesian Optimization of Machine Learning Algorithms", NeurIPS 2012; R. Garnett, "Bayesian
Optimization", 2023, ch. 7; the sources of the parts are named in gaussian_process, acquisition, acceptability,
surrogate and candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from trimtab.search.base import Options
from trimtab.search.gaussian_process import Prior
from trimtab.search.ledger import Evidence
from trimtab.search.modelled import Model, ModelSearcher
from trimtab.search.searcher import SearchProblem
from trimtab.search.surrogate import Surrogate, SurrogateHyper, fit_surrogate
from trimtab.space import Config

__all__ = ["GaussianProcessSearcher"]

Array = NDArray[np.float64]

_FIT_CAP = 200
"""Configs from which hyper-parameters are fitted: more hardly changes them and costs n³."""

_LUCKY = 0.7
"""Standard errors by which a winner lies below what is expected of it when it is measured again."""


class GaussianProcessSearcher(ModelSearcher):
    """Advice and a small Latin hypercube first; then the largest expected improvement.

    A repeat is spent only on a config that would be called best and that the model does not believe in.
    """

    NAME: ClassVar[str] = "gp"
    OPTIONS: ClassVar[Options] = {
        **ModelSearcher.OPTIONS,
        "cap": (400, "most configs that enter the model: the best, the latest, and some of the others"),
        "repeats": (3, "most trials of one config: the best so far is measured again when its loss looks like luck"),
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

    def _priors(self) -> Sequence[Prior]:
        """Priors of the loss's hyper-parameters to choose from; none: the usual one."""
        return ()

    def _model(self, evidence: list[Evidence], rng: np.random.Generator) -> Model:
        self._surrogate = self._believed(evidence)
        return self._surrogate

    def _believed(self, evidence: list[Evidence]) -> Surrogate:
        """The surrogate, with hyper-parameters fitted anew when that is due."""
        if self._is_refit_due(len(evidence)) or self._hyper is None:
            self._hyper = fit_surrogate(evidence, _FIT_CAP, self._priors())
        return Surrogate(
            evidence,
            self._pending_features(),
            self._hyper,
            cap=self.options["cap"],
            caution=self.options["caution"],
            previous=self._surrogate,
        )

    def _chosen(self, model: Model, rng: np.random.Generator) -> Config:
        again = self._doubtful(model)
        return self._most_promising(model, rng) if again is None else again

    def _doubtful(self, model: Model) -> Config | None:
        """The config that looks best so far, when the model holds its loss for luck and another for the leader."""
        best = self.ledger.best()
        if best is None or best is model.leaders[0] or best.config in self.pending or self._surrogate is None:
            return None
        few = len(best.measured) < self.options["repeats"]
        return best.config if few and self._surrogate.luck(best) > _LUCKY else None
