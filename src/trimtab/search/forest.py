"""Random-forest search: expected improvement on a forest of trees, local search from the best, and random configs between.

Source: F. Hutter, H. Hoos, K. Leyton-Brown, "Sequential Model-Based Optimization for General Algorithm Configuration"
(SMAC), LION 2011, §4; M. Lindauer et al., "SMAC3", JMLR 23 (2022). Numbers enter on their own scale (logarithmic where
the knob says so), special values and choices as indicators, inactive knobs at their defaults. Changed: failed trials go
to a second forest whose probability is multiplied in, instead of entering the first one with an invented loss.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from trimtab.search.acceptability import kept
from trimtab.search.acquisition import LossScale, log_expected_improvement
from trimtab.search.base import Options
from trimtab.search.ledger import Evidence
from trimtab.search.modelled import Model, ModelSearcher
from trimtab.search.searcher import SearchProblem
from trimtab.search.surrogate import loss_data, measured
from trimtab.search.trees import Forest
from trimtab.space import Config

__all__ = ["ForestModel", "ForestSearcher"]

Array = NDArray[np.float64]

_OWN_NOISE = 1e-3
"""Noise variance on the scale of the model that every trial has beside its own: no weight is infinite."""

_SURE = 0.02
"""No probability of success is below this or above one less this."""


class ForestModel:
    """Two forests: of the loss, and of being acceptable once something was not.

    Args:
        evidence: everything told, at least two configs measured.
        pending: (p, f) features of configs asked and not yet told; taken as measured with the loss that is expected.
        cap: most configs in a forest.
        caution: exponent of the probability of being acceptable.
        seed: of both forests.
    """

    def __init__(self, evidence: list[Evidence], pending: Array, *, cap: int, caution: float, seed: int) -> None:
        some = kept(measured(evidence), cap)
        self.scale = LossScale.of(np.array([e.loss for e in some]))
        data = loss_data(some, self.scale)
        weights = 1.0 / (data.v + _OWN_NOISE)
        self._caution = caution
        self.loss = Forest(data.x, data.y, weights, seed)
        acceptable = [i for i, e in enumerate(some) if e.is_acceptable] or list(range(len(some)))
        believed = self.loss.predict_mean(data.x[acceptable])
        order = np.argsort(believed, kind="stable")
        self.leaders = [some[acceptable[i]] for i in order]
        self.incumbent = float(believed[order[0]])
        self._success = self._success_of(kept(evidence, cap), seed)
        if len(pending):
            y = np.r_[data.y, self.loss.predict_mean(pending)]
            weights = np.r_[weights, np.full(len(pending), weights.max())]
            self.loss = Forest(np.vstack([data.x, pending]), y, weights, seed)

    @staticmethod
    def _success_of(evidence: list[Evidence], seed: int) -> Forest | None:
        if not any(e.n_bad for e in evidence):
            return None
        tries = np.array([e.n_good + e.n_bad for e in evidence], dtype=float)
        share = np.array([e.share_good for e in evidence])
        return Forest(np.array([e.features for e in evidence]), share, tries, seed)

    def probability(self, features: Array) -> Array:
        """Probability of being acceptable at the rows of `features` (m, f): (m,)."""
        if self._success is None:
            return np.ones(len(features))
        return np.clip(self._success.predict_mean(features), _SURE, 1.0 - _SURE)

    def worth(self, features: Array) -> Array:
        """Log expected improvement plus the log probability of being acceptable, at the rows of `features` (m, f)."""
        mean, sd = self.loss.predict(features)
        risk = self._caution * np.log(self.probability(features))
        return log_expected_improvement(mean, sd, self.incumbent) + risk

    def expected_gain(self, features: Array) -> float:
        """Expected improvement of the loss at one row (1, f), in units of the loss near the incumbent."""
        mean, sd = self.loss.predict(features)
        gain = float(np.exp(log_expected_improvement(mean, sd, self.incumbent))[0])
        return gain * self.scale.scale * self.scale.spread


class ForestSearcher(ModelSearcher):
    """Advice and a small Latin hypercube first; then the largest expected improvement by a forest; random ones between."""

    NAME: ClassVar[str] = "forest"
    OPTIONS: ClassVar[Options] = {
        **ModelSearcher.OPTIONS,
        "cap": (400, "most configs that enter the forest: the best, the latest, and some of the others"),
        "random_share": (0.05, "share of asks that are random configs: they keep a wrong model from going in circles"),
    }

    def __init__(self, problem: SearchProblem) -> None:
        super().__init__(problem)
        self._importance: Array | None = None

    def _check_options(self) -> None:
        super()._check_options()
        self._require("cap", self.options["cap"] >= 10, "10 or more")
        self._require("random_share", 0 <= self.options["random_share"] < 1, "0 or more and less than 1")

    def _effects(self) -> Array | None:
        return self._importance

    def _model(self, evidence: list[Evidence], rng: np.random.Generator) -> Model:
        options = self.options
        seed = int(rng.integers(2**31))
        model = ForestModel(
            evidence, self._pending_features(), cap=options["cap"], caution=options["caution"], seed=seed
        )
        self._importance = model.loss.importance + 1e-9
        return model

    def _chosen(self, model: Model, rng: np.random.Generator) -> Config:
        if rng.random() < self.options["random_share"]:
            return self._random_new(rng)
        return self._most_promising(model, rng)
