"""Surrogate: a Gaussian process of the loss and a classifier of being acceptable, from the evidence told so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimtab.search.acquisition import LossScale, log_expected_improvement
from trimtab.search.classifier import Classifier, sharpest
from trimtab.search.gaussian_process import Hyper, Posterior, fit_hyper
from trimtab.search.ledger import Evidence

__all__ = ["Surrogate", "SurrogateHyper", "fit_surrogate"]

Array = NDArray[np.float64]

_BEST_SHARE, _RECENT_SHARE = 0.5, 0.3
"""Of the points kept when there are too many: the best, the latest; the rest is spread evenly over the others."""


_LABEL_CAP = 250
"""Most configs in the classifier."""


@dataclass(frozen=True, slots=True)
class SurrogateHyper:
    """Hyper-parameters of both models; those of acceptability are None while nothing was unacceptable."""

    loss: Hyper
    acceptable: Hyper | None = None
    sharpness: float = 0.0


def _measured(evidence: Sequence[Evidence]) -> list[Evidence]:
    return [e for e in evidence if e.measured]


def _kept(evidence: list[Evidence], cap: int) -> list[Evidence]:
    """At most `cap` of `evidence` (in the order told), by the shares above; in the order told."""
    if len(evidence) <= cap:
        return evidence
    keys = np.array([e.loss if e.measured else np.inf for e in evidence])
    by_loss = np.argsort(keys, kind="stable")
    n_best, n_recent = int(cap * _BEST_SHARE), int(cap * _RECENT_SHARE)
    keep = set(by_loss[:n_best].tolist()) | set(range(len(evidence) - n_recent, len(evidence)))
    others = [int(i) for i in by_loss if int(i) not in keep]
    places = np.linspace(0, len(others) - 1, max(0, cap - len(keep))).astype(int)
    keep |= {others[place] for place in places}
    return [evidence[i] for i in sorted(keep)]


def _loss_data(evidence: list[Evidence]) -> tuple[LossScale, Array, Array, Array]:
    """Scale, features (n, f), scaled losses (n,), known noise variances (n,)."""
    losses = np.array([e.loss for e in evidence])
    scale = LossScale.of(losses)
    noise = scale.variance(losses, np.array([e.se or 0.0 for e in evidence]))
    return scale, np.array([e.features for e in evidence]), scale.forward(losses), noise


def _label_data(evidence: Sequence[Evidence], cap: int) -> tuple[Array, Array, Array]:
    """Features (n, f) of at most `cap` configs, and how often each was acceptable and was not (n,)."""
    kept = _kept(list(evidence), cap)
    good, bad = np.array([e.n_good for e in kept], dtype=float), np.array([e.n_bad for e in kept], dtype=float)
    return np.array([e.features for e in kept]), good, bad


def fit_surrogate(evidence: Sequence[Evidence], cap: int) -> SurrogateHyper:
    """Hyper-parameters for `evidence` (at least one measured), from at most `cap` configs."""
    _, x, y, v = _loss_data(_kept(_measured(evidence), cap))
    loss = fit_hyper(x, y, v)
    if not any(e.n_bad for e in evidence):
        return SurrogateHyper(loss)
    labelled, good, bad = _label_data(evidence, cap)
    shape = fit_hyper(labelled, good / (good + bad), np.zeros(len(good)))
    return SurrogateHyper(loss, shape, sharpest(labelled, good, bad, shape))


class Surrogate:
    """What is believed of loss and acceptability, and what a trial at a point is worth.

    Args:
        evidence: everything told, at least one config measured.
        pending: (p, f) features of configs asked and not yet told; taken as measured with the loss that is expected
            (D. Ginsbourger et al., "Kriging is well-suited to parallelize optimization", 2010: the kriging believer).
        hyper: hyper-parameters.
        cap: most configs that enter a process.
        caution: exponent of the probability of being acceptable.
    """

    def __init__(
        self, evidence: Sequence[Evidence], pending: Array, hyper: SurrogateHyper, *, cap: int, caution: float
    ) -> None:
        kept = _kept(_measured(evidence), cap)
        self.scale, x, y, v = _loss_data(kept)
        self._caution = caution
        self._loss = Posterior(x, y, v, hyper.loss)
        acceptable = [i for i, e in enumerate(kept) if e.is_acceptable] or list(range(len(kept)))
        believed = self._loss.predict_mean(x[acceptable])
        order = np.argsort(believed, kind="stable")
        self.incumbent = float(believed[order[0]])
        self.leaders = [kept[acceptable[i]] for i in order]
        self._acceptable: Classifier | None = None
        if hyper.acceptable is not None:
            labels = _label_data(evidence, min(cap, _LABEL_CAP))
            self._acceptable = Classifier(*labels, hyper.acceptable, hyper.sharpness)
        if len(pending):
            believed = self._loss.predict_mean(pending)
            v = np.r_[v, np.zeros(len(pending))]
            self._loss = Posterior(np.r_[x, pending], np.r_[y, believed], v, hyper.loss)

    def worth(self, features: Array) -> Array:
        """Log expected improvement plus the log probability of being acceptable, at the rows of `features` (m, f)."""
        mean, sd = self._loss.predict(features)
        worth = log_expected_improvement(mean, sd, self.incumbent)
        if self._acceptable is not None:
            worth = worth + self._caution * self._acceptable.log_probability(features)
        return worth

    def expected_gain(self, features: Array) -> float:
        """Expected improvement of the loss at one row (1, f), in units of the loss near the incumbent."""
        mean, sd = self._loss.predict(features)
        gain = float(np.exp(log_expected_improvement(mean, sd, self.incumbent))[0])
        return gain * self.scale.scale * self.scale.spread
