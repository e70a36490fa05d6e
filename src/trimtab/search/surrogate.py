"""Surrogate: a Gaussian process of the loss and a classifier of being acceptable, from the evidence told so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimtab.search.acceptability import AcceptabilityHyper, acceptability, fit_acceptability, kept
from trimtab.search.acquisition import LossScale, log_expected_improvement
from trimtab.search.gaussian_process import Hyper, Kernel, Posterior, Prior, fit_hyper
from trimtab.search.ledger import Evidence

__all__ = ["LossData", "Surrogate", "SurrogateHyper", "fit_surrogate", "loss_data", "measured"]

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SurrogateHyper:
    """What was fitted and holds until the next fit.

    Attributes:
        scale: of the losses; it stays while the kernel fitted on it stays, so that old points keep their noise.
        loss: kernel of the loss.
        effects: (f,) how much each feature moves the loss.
        acceptable: None while nothing was unacceptable.
    """

    scale: LossScale
    loss: Kernel
    effects: Array
    acceptable: AcceptabilityHyper | None = None


@dataclass(frozen=True, slots=True)
class LossData:
    """What a process is fitted to: features (n, f), scaled losses (n,), known noise variances (n,)."""

    x: Array
    y: Array
    v: Array


def measured(evidence: Sequence[Evidence]) -> list[Evidence]:
    """Those that have a loss."""
    return [e for e in evidence if e.measured]


def loss_data(evidence: Sequence[Evidence], scale: LossScale) -> LossData:
    """The data of measured evidence on `scale`."""
    losses = np.array([e.loss for e in evidence])
    noise = scale.variance(losses, np.array([e.se or 0.0 for e in evidence]))
    return LossData(np.array([e.features for e in evidence]), scale.forward(losses), noise)


def fit_surrogate(evidence: Sequence[Evidence], cap: int, priors: Sequence[Prior] = ()) -> SurrogateHyper:
    """Hyper-parameters for `evidence` (at least one measured), from at most `cap` configs; `priors` are of the loss."""
    some = kept(measured(evidence), cap)
    scale = LossScale.of(np.array([e.loss for e in some]))
    data = loss_data(some, scale)
    loss: Hyper = fit_hyper(data.x, data.y, data.v, priors=priors)
    return SurrogateHyper(scale, loss, loss.effects, fit_acceptability(evidence, cap))


class Surrogate:
    """What is believed of loss and acceptability, and what a trial at a point is worth.

    Args:
        evidence: everything told, at least one config measured.
        pending: (p, f) features of configs asked and not yet told; taken as measured with the loss that is expected
            (D. Ginsbourger et al., "Kriging is well-suited to parallelize optimization", 2010: the kriging believer).
        hyper: hyper-parameters.
        cap: most configs that enter a process.
        caution: exponent of the probability of being acceptable.
        previous: the surrogate of an earlier ask; while only new configs came since, its Cholesky factor grows by
            their rows instead of being computed anew.

    Attributes:
        leaders: acceptable configs, those of least expected loss first (all measured ones when none is acceptable).
        incumbent: least expected loss among them, on the scale.
        base: the process without the pending configs.
    """

    def __init__(
        self,
        evidence: Sequence[Evidence],
        pending: Array,
        hyper: SurrogateHyper,
        *,
        cap: int,
        caution: float,
        previous: Surrogate | None = None,
    ) -> None:
        some = kept(measured(evidence), cap)
        self.hyper, self.scale, self._caution = hyper, hyper.scale, caution
        self._keys = [(id(e), len(e.measured)) for e in some]
        data = loss_data(some, hyper.scale)
        self.base = Posterior(data.x, data.y, data.v, hyper.loss, self._reusable(previous))
        self.acceptable = acceptability(evidence, hyper.acceptable, cap)
        self.leaders, self.incumbent = self.rank(some, data.x)
        self.process = self.base
        if len(pending):
            y, v = np.r_[data.y, self.base.predict_mean(pending)], np.r_[data.v, np.zeros(len(pending))]
            self.process = Posterior(np.vstack([data.x, pending]), y, v, hyper.loss, self.base)

    def _reusable(self, previous: Surrogate | None) -> Posterior | None:
        if previous is None or previous.hyper is not self.hyper:
            return None
        n = len(previous._keys)
        return previous.base if n < len(self._keys) and previous._keys == self._keys[:n] else None

    def rank(self, evidence: Sequence[Evidence], features: Array) -> tuple[list[Evidence], float]:
        """The acceptable of `evidence` by the loss expected at their `features`, and the least of it on the scale."""
        rows = [i for i, e in enumerate(evidence) if e.is_acceptable] or list(range(len(evidence)))
        believed = self.base.predict_mean(features[rows])
        order = np.argsort(believed, kind="stable")
        return [evidence[rows[i]] for i in order], float(believed[order[0]])

    def left_out(self) -> Array:
        """What is expected at each measured config when it is left out itself, (n,); the order is that of the evidence."""
        return self.base.left_out()

    def risk(self, features: Array) -> Array:
        """What is added to the logarithm of a worth for the probability of being acceptable, (m,); at most 0."""
        if self.acceptable is None:
            return np.zeros(len(features))
        return self._caution * self.acceptable.log_probability(features)

    def worth(self, features: Array) -> Array:
        """Log expected improvement plus the log probability of being acceptable, at the rows of `features` (m, f)."""
        mean, sd = self.process.predict(features)
        return log_expected_improvement(mean, sd, self.incumbent) + self.risk(features)

    def luck(self, evidence: Evidence) -> float:
        """By how many of its standard errors the loss of `evidence` lies below what is expected there; 0 if unknown."""
        if not evidence.se:
            return 0.0
        loss = np.array([evidence.loss])
        expected = float(self.base.predict_mean(evidence.features[None, :])[0])
        se = float(np.sqrt(self.scale.variance(loss, np.array([evidence.se]))[0]))
        return (expected - float(self.scale.forward(loss)[0])) / se

    def expected_gain(self, features: Array) -> float:
        """Expected improvement of the loss at one row (1, f), in units of the loss near the incumbent."""
        mean, sd = self.process.predict(features)
        gain = float(np.exp(log_expected_improvement(mean, sd, self.incumbent))[0])
        return gain * self.scale.scale * self.scale.spread
