"""Learners: how the trials told so far become a model of the loss. One learner may serve several members.

Sources: C. Rasmussen, C. Williams, "Gaussian Processes for Machine Learning", 2006; D. Ginsbourger et al., "Kriging is
well-suited to parallelize optimization", 2010 (the kriging believer); F. Hutter, H. Hoos, K. Leyton-Brown, "Sequential
Model-Based Optimization for General Algorithm Configuration", LION 2011 (the forest).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trimtab.model.fit import HyperPrior, fit_among, fit_feasibility
from trimtab.model.forest import Forest
from trimtab.model.gaussian_process import Classifier, Hyper, Kernel, LossScale, Posterior
from trimtab.search.ledger import Evidence, kept
from trimtab.space import Config, Space

__all__ = [
    "FIT_CAP", "Feasibility", "ForestLearner", "ForestModel", "GaussianLearner", "GaussianModel", "Learner", "Model", "Sight",
    "is_fit_due", "loss_data", "measured", "ranked",
]  # fmt: skip

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


@dataclass(frozen=True, slots=True)
class Sight:
    """What is known when a config is asked for.

    Attributes:
        space: what may change.
        evidence: everything told, in the order in which each config was first told.
        pending: configs asked and not yet told.
        taken: places, as bytes, that are not to be asked (again).
        home, here: the baseline, and the config that the target has now.
    """

    space: Space
    evidence: list[Evidence]
    pending: tuple[Config, ...]
    taken: frozenset[bytes]
    home: Config
    here: Config

    @property
    def pending_features(self) -> Array:
        """(p, f) features of the pending configs."""
        return self.space.features(self.pending) if self.pending else np.empty((0, 0))


class Model(Protocol):
    """What is believed of the loss.

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

    def predict(self, features: Array) -> tuple[Array, Array]:
        """Mean and standard deviation at the rows of `features` (m, f), on the scale of the model: (m,) each."""
        ...


class Learner(Protocol):
    """Makes a model of everything told so far, at least two configs of it measured."""

    def learn(self, sight: Sight, rng: np.random.Generator) -> Model: ...


def loss_data(evidence: Sequence[Evidence], scale: LossScale) -> tuple[Array, Array, Array]:
    """What a model is fitted to: features (n, f), losses (n,) and known noise variances (n,) on `scale`, of measured evidence."""
    losses = np.array([e.loss for e in evidence])
    noise = scale.variance(losses, np.array([e.se or 0.0 for e in evidence]))
    return np.array([e.features for e in evidence]), scale.forward(losses), noise


def measured(evidence: Sequence[Evidence]) -> list[Evidence]:
    """Those that have a loss."""
    return [e for e in evidence if e.measured]


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

    def learn(self, sight: Sight) -> Classifier | None:
        """The classifier; None while everything worked."""
        if not any(e.n_bad for e in sight.evidence):
            return None
        if self._hyper is None or is_fit_due(len(sight.evidence), self._n_fitted):
            self._hyper = fit_feasibility(*_labels(sight.evidence, min(self._cap, FIT_CAP)))
            self._n_fitted = len(sight.evidence)
        return Classifier(*_labels(sight.evidence, min(self._cap, _LABEL_CAP)), *self._hyper)


def _labels(evidence: Sequence[Evidence], cap: int) -> tuple[Array, Array, Array]:
    """Features (n, f) of at most `cap` configs, and how often each worked and did not (n,)."""
    some = kept(list(evidence), cap)
    good, bad = np.array([e.n_good for e in some], dtype=float), np.array([e.n_bad for e in some], dtype=float)
    return np.array([e.features for e in some]), good, bad


class GaussianModel:
    """A Gaussian process of the loss.

    Args:
        evidence: everything told, at least one config measured.
        pending: (p, f) features of configs asked and not yet told; they count as measured with the loss that is expected.
        scale: of the losses; it stays with the kernel that was fitted on it, so that old points keep their noise.
        kernel: with its hyper-parameters.
        cap: most configs in the process.
        previous: the model of an earlier ask; while only new configs came since, its Cholesky factor grows by their rows.

    Attributes:
        base: the process without the pending configs.
        process: with them.
    """

    def __init__(
        self, evidence: list[Evidence], pending: Array, scale: LossScale, kernel: Kernel, cap: int,
        previous: GaussianModel | None = None,
    ) -> None:  # fmt: skip
        some = kept(measured(evidence), cap)
        self._kernel, self.scale = kernel, scale
        self._keys = [(id(e), len(e.measured)) for e in some]
        x, y, v = loss_data(some, scale)
        self.base = Posterior(x, y, v, kernel, self._reusable(previous))
        self.leaders, self.incumbent = ranked(some, self.base.predict_mean(x))
        self.unit = scale.scale * scale.spread
        self.effects = kernel.effects
        self.process = self.base
        if len(pending):
            y, v = np.r_[y, self.base.predict_mean(pending)], np.r_[v, np.zeros(len(pending))]
            self.process = Posterior(np.vstack([x, pending]), y, v, kernel, self.base)

    def _reusable(self, previous: GaussianModel | None) -> Posterior | None:
        """The process of `previous`, when only new configs came since: its Cholesky factor grows by their rows."""
        if previous is None or previous._kernel is not self._kernel:
            return None
        n = len(previous._keys)
        return previous.base if n < len(self._keys) and previous._keys == self._keys[:n] else None

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


class GaussianLearner:
    """A Gaussian process whose kernel is chosen among three by how well it predicts trials that were left out.

    Args:
        n_features: f.
        cap: most configs in the process: the best, the latest, and some of the others.
        uncompressed: losses up to it are told apart alike; a search has none, for it looks at the best.
    """

    def __init__(self, n_features: int, cap: int, uncompressed: float = -math.inf) -> None:
        smooth = replace(HyperPrior.of(n_features), nugget_spread=_NUGGET_SPREAD)
        rough = replace(smooth, relevance_at=smooth.relevance_at + _ROUGHER)
        self.priors: tuple[HyperPrior, ...] = (smooth, rough, HyperPrior.anisotropic(n_features))
        self._cap, self._n_fitted, self._uncompressed = cap, 0, uncompressed
        self._fitted: tuple[LossScale, Hyper] | None = None
        self._chosen: tuple[Hyper, HyperPrior] | None = None
        self._model: GaussianModel | None = None

    def learn(self, sight: Sight, rng: np.random.Generator) -> GaussianModel:
        """As `Learner.learn`; nothing is drawn."""
        if self._fitted is None or is_fit_due(len(sight.evidence), self._n_fitted):
            self._fitted = self._fit(kept(measured(sight.evidence), min(self._cap, FIT_CAP)))
            self._n_fitted = len(sight.evidence)
        self._model = GaussianModel(sight.evidence, sight.pending_features, *self._fitted, self._cap, self._model)
        return self._model

    def _fit(self, evidence: list[Evidence]) -> tuple[LossScale, Hyper]:
        scale = LossScale.of(np.array([e.loss for e in evidence]), self._uncompressed)
        data = loss_data(evidence, scale)
        if self._chosen is None or len(evidence) < _SETTLED:
            self._chosen = fit_among(*data, self.priors)
        else:
            start, prior = self._chosen
            self._chosen = fit_among(*data, (prior,), max_steps=_STEPS_ON, start=start)
        return scale, self._chosen[0]


class ForestModel:
    """A forest of the loss; pending configs count as measured with the loss that is expected."""

    def __init__(self, sight: Sight, cap: int, seed: int) -> None:
        some = kept(measured(sight.evidence), cap)
        scale = LossScale.of(np.array([e.loss for e in some]))
        x, y, v = loss_data(some, scale)
        weights = 1.0 / (v + _OWN_NOISE)
        self.forest = Forest(x, y, weights, np.random.default_rng(seed))
        self.leaders, self.incumbent = ranked(some, self.forest.predict_mean(x))
        self.unit = scale.scale * scale.spread
        self.effects = self.forest.importance + 1e-9
        pending = sight.pending_features
        if len(pending):
            y = np.r_[y, self.forest.predict_mean(pending)]
            weights = np.r_[weights, np.full(len(pending), weights.max())]
            self.forest = Forest(np.vstack([x, pending]), y, weights, np.random.default_rng(seed))

    def predict(self, features: Array) -> tuple[Array, Array]:
        """As `Model.predict`."""
        return self.forest.predict(features)


class ForestLearner:
    """A forest, grown anew for each ask."""

    def __init__(self, cap: int) -> None:
        self._cap = cap

    def learn(self, sight: Sight, rng: np.random.Generator) -> ForestModel:
        """As `Learner.learn`."""
        return ForestModel(sight, self._cap, int(rng.integers(2**31)))
