"""Surrogates: models of the loss, and of what works, learned from a ledger. One model may serve several members.

Sources: C. Rasmussen, C. Williams, "Gaussian Processes for Machine Learning", 2006; D. Ginsbourger et al., "Kriging is
well-suited to parallelize optimization", 2010 (the kriging believer); F. Hutter, H. Hoos, K. Leyton-Brown, "Sequential
Model-Based Optimization for General Algorithm Configuration", LION 2011 (the forest).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trimtab.model.fit import HyperPrior, fit_among, fit_feasibility
from trimtab.model.forest import Forest
from trimtab.model.gaussian_process import Hyper, Kernel, LossScale, Posterior, classifier
from trimtab.search.ledger import Evidence, Ledger, kept, measured

__all__ = ["FIT_CAP", "Feasibility", "ForestModel", "GaussianModel", "Model", "is_fit_due", "loss_data", "ranked"]

Array = NDArray[np.float64]

_REFIT_EVERY = 8
"""Hyper-parameters are fitted anew when 1/8 more configs are known than at the last fit."""

FIT_CAP = 200
"""Configs from which hyper-parameters are fitted: more hardly changes them and costs n³."""

_SETTLED, _STEPS_ON = 120, 10
"""Configs from which on a fit goes on from the one before, with its kernel, and the steps that it then takes: little changes any
more, and an ask that fits would take a second."""

_LABEL_CAP = 250
"""Most configs in the classifier of what works."""

_OWN_NOISE = 1e-3
"""Noise variance on the scale of the model that every trial has beside its own in a forest: no weight is infinite."""

_ROUGHER = 2.0
"""Logarithm by which the second prior expects the loss to bend more in every knob at once: cliffs and narrow optima."""

_NUGGET_SPREAD = 0.7
"""Of the prior on unexplained noise: each trial tells its own, so what is left over is seldom large."""


class Model(Protocol):
    """What is believed of the loss since everything told was last learned.

    Attributes:
        leaders: acceptable configs, those of least expected loss first (all measured ones when none is acceptable).
        incumbent: least expected loss among them, on the scale of the model.
        unit: what 1 on that scale is in units of the loss, near the incumbent.
        effects: (f,) how much each feature moves the loss.
    """

    leaders: list[Evidence]
    incumbent: float
    unit: float
    effects: Array

    def learn(self, ledger: Ledger, rng: np.random.Generator) -> None:
        """Learns everything told so far, at least two configs of it measured; pending configs count as told as expected."""
        ...

    def predict(self, features: Array) -> tuple[Array, Array]:
        """Mean and standard deviation at the rows of `features` (m, f), on the scale of the model: (m,) each."""
        ...


def loss_data(evidence: Sequence[Evidence], scale: LossScale) -> tuple[Array, Array, Array]:
    """What a model is fitted to: features (n, f), losses (n,) and known noise variances (n,) on `scale`, of measured evidence."""
    losses = np.array([e.loss for e in evidence])
    noise = scale.variance(losses, np.array([e.se or 0.0 for e in evidence]))
    return np.array([e.features for e in evidence]), scale.forward(losses), noise


def ranked(evidence: Sequence[Evidence], believed: Array) -> tuple[list[Evidence], float]:
    """The acceptable of `evidence` (else all) by the loss `believed` of each (n,), and the least of it."""
    rows = [i for i, e in enumerate(evidence) if e.is_acceptable] or list(range(len(evidence)))
    order = sorted(rows, key=lambda i: (believed[i], i))
    return [evidence[i] for i in order], float(believed[order[0]])


def is_fit_due(n_known: int, n_fitted: int) -> bool:
    """Whether hyper-parameters are fitted anew: at first (`n_fitted` is 0), and when an eighth more is known than then."""
    return not n_fitted or n_known >= n_fitted + max(1, n_fitted // _REFIT_EVERY)


class Feasibility:
    """How likely a config is to work and to meet the objective's constraints, learned for all members at once.

    Failed trials go here and nowhere else: they never enter a model of the loss (M. Gelbart, J. Snoek, R. Adams, "Bayesian
    Optimization with Unknown Constraints", UAI 2014).
    """

    def __init__(self, cap: int) -> None:
        self._cap, self._n_fitted = cap, 0
        self._hyper: tuple[Hyper, float] | None = None
        self._allowed = 0.0

    def learn(self, evidence: Sequence[Evidence], allowed: float = 0.0) -> Callable[[Array], Array] | None:
        """ln P at rows of features (m, f): (m,); None while everything worked. `allowed` is that of the ledger."""
        if not any(e.n_bad for e in evidence):
            return None
        if self._hyper is None or allowed != self._allowed or is_fit_due(len(evidence), self._n_fitted):
            self._hyper = fit_feasibility(*_labels(evidence, min(self._cap, FIT_CAP)))
            self._n_fitted, self._allowed = len(evidence), allowed
        return classifier(*_labels(evidence, min(self._cap, _LABEL_CAP)), *self._hyper)[0]


def _labels(evidence: Sequence[Evidence], cap: int) -> tuple[Array, Array, Array]:
    """Features (n, f) of at most `cap` configs, and how often each worked and did not (n,)."""
    some = kept(list(evidence), cap)
    good, bad = np.array([e.n_good for e in some], dtype=float), np.array([e.n_bad for e in some], dtype=float)
    return np.array([e.features for e in some]), good, bad


class GaussianModel:
    """A Gaussian process of the loss, with a kernel that is chosen among three by how well it predicts trials left out.

    Args:
        n_features: f.
        cap: most configs in the process: the best, the latest, and some of the others.
        uncompressed: losses up to it are told apart alike; a search has none, for it looks at the best.

    Attributes:
        scale: of the losses; it stays with the kernel that was fitted on it, so that old points keep their noise.
        base: the process without the pending configs.
        process: with them.
    """

    leaders: list[Evidence]
    incumbent: float
    unit: float
    effects: Array
    scale: LossScale
    base: Posterior
    process: Posterior

    def __init__(self, n_features: int, cap: int, uncompressed: float = -math.inf) -> None:
        smooth = replace(HyperPrior.of(n_features), nugget_spread=_NUGGET_SPREAD)
        rough = replace(smooth, relevance_at=smooth.relevance_at + _ROUGHER)
        self.priors: tuple[HyperPrior, ...] = (smooth, rough, HyperPrior.anisotropic(n_features))
        self._cap, self._n_fitted, self._uncompressed = cap, 0, uncompressed
        self._allowed = 0.0
        self._fitted: tuple[LossScale, Hyper] | None = None
        self._chosen: tuple[Hyper, HyperPrior] | None = None
        self._entered: list[tuple[Evidence, int]] = []
        self._is_whole = False

    def learn(self, ledger: Ledger, rng: np.random.Generator) -> None:
        """As `Model.learn`; nothing is drawn."""
        evidence = ledger.evidence
        is_seen_anew = ledger.allowed != self._allowed
        if self._fitted is None or is_seen_anew or is_fit_due(len(evidence), self._n_fitted):
            self._fitted = self._fit(kept(measured(evidence), min(self._cap, FIT_CAP)))
            self._n_fitted, self._allowed = len(evidence), ledger.allowed
        self.believe(evidence, ledger.pending_features, *self._fitted)

    def _fit(self, evidence: list[Evidence]) -> tuple[LossScale, Hyper]:
        scale = LossScale.of(np.array([e.loss for e in evidence]), self._uncompressed)
        data = loss_data(evidence, scale)
        if self._chosen is None or len(evidence) < _SETTLED:
            self._chosen = fit_among(*data, self.priors)
        else:
            start, prior = self._chosen
            self._chosen = fit_among(*data, (prior,), max_steps=_STEPS_ON, start=start)
        return scale, self._chosen[0]

    def believe(self, evidence: Sequence[Evidence], pending: Array, scale: LossScale, kernel: Kernel) -> None:
        """Makes the process for a given kernel; while only new configs came since, its Cholesky factor grows by their rows, and
        while nothing was measured since, it stays.

        Args:
            evidence: everything told, at least one config measured.
            pending: (p, f) features of configs asked and not yet told; they count as measured with the loss that is expected.
            scale, kernel: that belong together.
        """
        some, before = kept(measured(evidence), self._cap), self._entered
        self._entered = [(e, len(e.measured)) for e in some]
        n = len(before)
        is_known = n > 0 and self._entered[:n] == before and self.base.hyper is kernel
        x, y, v = loss_data(some, scale)
        if not (is_known and n == len(some) and self._is_whole and self.scale is scale):
            # One that has grown is made anew when nothing is new: the last digits differ, and what is asked must not.
            self._is_whole = not (is_known and n < len(some))
            self.base = Posterior(x, y, v, kernel, None if self._is_whole else self.base)
        self.leaders, self.incumbent = ranked(some, self.base.predict_mean(x))
        self.scale, self.unit, self.effects = scale, scale.scale * scale.spread, kernel.effects
        self.process = self.base
        if len(pending):
            y, v = np.r_[y, self.base.predict_mean(pending)], np.r_[v, np.zeros(len(pending))]
            self.process = Posterior(np.vstack([x, pending]), y, v, kernel, self.base)

    def predict(self, features: Array) -> tuple[Array, Array]:
        """As `Model.predict`."""
        return self.process.predict(features)

    def luck(self, evidence: Evidence) -> float:
        """By how many of its standard errors the loss of `evidence` lies below what is expected there; 0 if unknown."""
        if not evidence.se:
            return 0.0
        loss = np.array([evidence.loss])
        expected = float(self.base.predict_mean(evidence.features[None, :])[0])
        se = float(np.sqrt(self.scale.variance(loss, np.array([evidence.se]))[0]))
        return (expected - float(self.scale.forward(loss)[0])) / se


class ForestModel:
    """A forest of the loss, grown anew for each ask; pending configs count as measured with the loss that is expected."""

    leaders: list[Evidence]
    incumbent: float
    unit: float
    effects: Array
    forest: Forest

    def __init__(self, cap: int) -> None:
        self._cap = cap

    def learn(self, ledger: Ledger, rng: np.random.Generator) -> None:
        """As `Model.learn`."""
        seed = int(rng.integers(2**31))
        some = kept(measured(ledger.evidence), self._cap)
        scale = LossScale.of(np.array([e.loss for e in some]))
        x, y, v = loss_data(some, scale)
        weights = 1.0 / (v + _OWN_NOISE)
        self.forest = Forest(x, y, weights, np.random.default_rng(seed))
        self.leaders, self.incumbent = ranked(some, self.forest.predict_mean(x))
        self.unit = scale.scale * scale.spread
        self.effects = self.forest.importance + 1e-9
        pending = ledger.pending_features
        if len(pending):
            y = np.r_[y, self.forest.predict_mean(pending)]
            weights = np.r_[weights, np.full(len(pending), weights.max())]
            self.forest = Forest(np.vstack([x, pending]), y, weights, np.random.default_rng(seed))

    def predict(self, features: Array) -> tuple[Array, Array]:
        """As `Model.predict`."""
        return self.forest.predict(features)
