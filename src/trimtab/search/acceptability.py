"""Acceptability: the probability that a config works and meets the objective's constraints, from the evidence so far.

Failed trials go here and nowhere else: they never enter a model of the loss (M. Gelbart, J. Snoek, R. Adams, "Bayesian
Optimization with Unknown Constraints", UAI 2014).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimtab.search.classifier import Classifier, sharpest
from trimtab.search.gaussian_process import Hyper, fit_hyper
from trimtab.search.ledger import Evidence

__all__ = ["AcceptabilityHyper", "acceptability", "fit_acceptability", "kept"]

Array = NDArray[np.float64]

_BEST_SHARE, _RECENT_SHARE = 0.5, 0.3
"""Of the points kept when there are too many: the best, the latest; the rest is spread evenly over the others."""

_LABEL_CAP = 250
"""Most configs in the classifier."""


def kept(evidence: list[Evidence], cap: int) -> list[Evidence]:
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


@dataclass(frozen=True, slots=True)
class AcceptabilityHyper:
    """Hyper-parameters of the classifier: the shape of its kernel and how sharp the border is."""

    shape: Hyper
    sharpness: float


def _labels(evidence: Sequence[Evidence], cap: int) -> tuple[Array, Array, Array]:
    """Features (n, f) of at most `cap` configs, and how often each was acceptable and was not (n,)."""
    some = kept(list(evidence), cap)
    good, bad = np.array([e.n_good for e in some], dtype=float), np.array([e.n_bad for e in some], dtype=float)
    return np.array([e.features for e in some]), good, bad


def fit_acceptability(evidence: Sequence[Evidence], cap: int) -> AcceptabilityHyper | None:
    """Hyper-parameters from at most `cap` configs; None while nothing was unacceptable."""
    if not any(e.n_bad for e in evidence):
        return None
    x, good, bad = _labels(evidence, cap)
    shape = fit_hyper(x, good / (good + bad), np.zeros(len(good)))
    return AcceptabilityHyper(shape, sharpest(x, good, bad, shape))


def acceptability(evidence: Sequence[Evidence], hyper: AcceptabilityHyper | None, cap: int) -> Classifier | None:
    """The classifier for `evidence`; None while everything is thought to be acceptable."""
    if hyper is None:
        return None
    return Classifier(*_labels(evidence, min(cap, _LABEL_CAP)), hyper.shape, hyper.sharpness)
