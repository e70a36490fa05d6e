"""The ranking-weighted ensemble: models of past studies and of this one, weighted by how well they rank this one's trials.

Source: M. Feurer, B. Letham, E. Bakshy, "Scalable Meta-Learning for Bayesian Optimization using Ranking-Weighted Gaussian
Process Ensembles", AutoML workshop at ICML 2018: eq. 2 (misranked pairs), §3.2 (this study's own model is judged by
leave-one-out), eq. 3 (mean and variance). Changed: the past is seen through forests, which take hundreds of trials in
milliseconds; the trials are drawn again instead of the models' predictions; pairs whose difference is noise do not count;
and a model that ranks no better than chance is dropped for good.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trimtab.model.forest import Forest
from trimtab.model.gaussian_process import LossScale
from trimtab.search.acquisition import Score, Term
from trimtab.search.ledger import Evidence, Ledger, measured
from trimtab.search.past import PastStudy
from trimtab.search.surrogate import Model, ranked
from trimtab.space import Space

__all__ = ["PastModel", "RankingEnsemble", "misranked", "shares_won"]

Array = NDArray[np.float64]

_N_DRAWS = 200
_SURE = 0.05
"""No chance of working that the past tells is below this: it was another machine or workload."""


class PastModel:
    """One past study as a model over the features of this problem's space.

    Args:
        study: at least two configs.
        space: of this problem.
        seed: of the forests.
    """

    def __init__(self, study: PastStudy, space: Space, seed: int) -> None:
        self.study = study
        features = space.features(list(study.configs))
        losses = np.array(study.losses)
        self._loss = Forest(
            features, LossScale.of(losses).forward(losses), np.ones(len(losses)), np.random.default_rng(seed)
        )
        self._works: Forest | None = None
        if study.failed:
            both = np.vstack([features, space.features(list(study.failed))])
            works = np.r_[np.ones(len(features)), np.zeros(len(study.failed))]
            self._works = Forest(both, works, np.ones(len(both)), np.random.default_rng(seed))
        self.importance = self._loss.importance

    def predict(self, features: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of the loss on a scale of this study's own, at the rows of `features`: (m,) each."""
        return self._loss.predict(features)

    def risk(self, features: Array) -> Array:
        """Logarithm of the chance that a config works, (m,); at most 0."""
        if self._works is None:
            return np.zeros(len(features))
        return np.asarray(np.log(np.clip(self._works.predict_mean(features), _SURE, 1.0)))


def misranked(predicted: Array, losses: Array, se: Array, rng_seed: Sequence[int]) -> Array:
    """Share of the pairs of trials that `predicted` puts in the wrong order, in each of 200 draws of the trials: (200,).

    Ties of the prediction count half; a pair of losses closer than its standard error is left out. NaN in draws that have no
    pair: they say nothing. With the same `losses`, `se` and `rng_seed` the draws are the same for every `predicted`.
    """
    n = len(losses)
    gap = losses[:, None] - losses[None, :]
    clear = np.triu(np.abs(gap) > np.hypot(se[:, None], se[None, :]), 1)
    agreement = np.sign(gap) * np.sign(predicted[:, None] - predicted[None, :])
    wrong = np.where(clear, (1.0 - agreement) / 2.0, 0.0)
    rng = np.random.default_rng(list(rng_seed))
    times = rng.multinomial(n, np.full(n, 1.0 / n), size=_N_DRAWS).astype(float)
    pairs = np.einsum("si,ij,sj->s", times, clear.astype(float), times)
    found = np.einsum("si,ij,sj->s", times, wrong, times)
    return np.where(pairs > 0, found / np.maximum(pairs, 1.0), np.nan)


def shares_won(losses: Array, prior: Array) -> Array:
    """How often each model (row of `losses`, (k, draws)) misranks least: (k,).

    Draws with several winners are shared; those that say nothing (NaN for every model) go by `prior` (k,), which adds up to 1.
    """
    known = losses[:, np.isfinite(losses[0])]
    winners = known == known.min(axis=0)
    won = (winners / winners.sum(axis=0)).sum(axis=1)
    n_draws = losses.shape[1]
    return np.asarray((won + (n_draws - known.shape[1]) * prior) / n_draws)


class RankingEnsemble:
    """A `Model`: the weighted sum of what past studies and this one's own model expect; on no scale in particular."""

    leaders: list[Evidence]
    incumbent: float
    unit: float
    effects: Array

    def __init__(self) -> None:
        self._past: Sequence[tuple[PastModel, float]] = ()
        self._own: Model | None = None
        self._own_weight = 0.0

    def weigh(self, past: Sequence[tuple[PastModel, float]], own: Model | None, own_weight: float) -> None:
        """Says who has how much to say.

        Args:
            past: models with their weights, at least one.
            own: this study's model, which has learned; None while it has too few trials.
            own_weight: its weight; all weights add up to 1.
        """
        self._past, self._own, self._own_weight = past, own, own_weight

    def learn(self, ledger: Ledger, rng: np.random.Generator) -> None:
        """As `Model.learn`, of this study; nothing is drawn."""
        some = measured(ledger.evidence)
        believed = self.predict(np.array([e.features for e in some]))[0]
        self.leaders, self.incumbent = ranked(some, believed)
        scale = LossScale.of(np.array([e.loss for e in some]))
        self.unit = scale.scale * scale.spread
        self.effects = np.mean([model.importance for model, _ in self._past], axis=0) + 1e-9

    def predict(self, features: Array) -> tuple[Array, Array]:
        """As `Model.predict`."""
        mean, variance = np.zeros(len(features)), np.zeros(len(features))
        parts = [(model.predict(features), weight) for model, weight in self._past]
        if self._own is not None:
            parts.append((self._own.predict(features), self._own_weight))
        for (part, sd), weight in parts:
            mean += weight * part
            variance += (weight * sd) ** 2
        return mean, np.sqrt(variance)

    def works(self, caution: float) -> Term:
        """A term: caution times the log chance of working that past studies see, by their weights."""

        def term(ledger: Ledger) -> Score:
            past, total = list(self._past), sum(weight for _, weight in self._past) or 1.0

            def score(features: Array) -> Array:
                risk = np.zeros(len(features))
                for model, weight in past:
                    risk = risk + caution * weight / total * model.risk(features)
                return risk

            return score

        return term
