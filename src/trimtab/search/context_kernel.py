"""A kernel over config and workload together, so that what was learned under one workload helps under another.

    symbol   meaning                                                                    shape
    x, w     features of a config, and of the workload it was measured under            (n, f), (n, g)
    k        covariance of the loss over configs, as in gaussian_process                (n, n)
    k_w      Matérn 5/2 correlation over workloads with length scale l                  (n, n)
    a        share of the effect of a config that is the same under every workload      scalar
    s_w²     variance of what a workload adds to the loss of every config               scalar
    K        k ∘ (a + (1 - a) k_w) + s_w² k_w                                           (n, n)

a = 1 is the sum of both kernels, k(x, x') + k(w, w'): under every workload the same config is best, but what is known
of it and so where to look differs. The rest is the product term, with which the best config depends on the workload.

Sources: A. Krause, C. Ong, "Contextual Gaussian Process Bandit Optimization", NeurIPS 2011, §5.3 (sum and product of
kernels); S. Cereda et al., "CGPTuner", VLDB 2021 (the sum, workload fixed while the acquisition is optimised).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from trimtab.model.fit import Frame, HyperPrior, fit_hyper, objective
from trimtab.model.gaussian_process import Hyper, basis_of
from trimtab.records import Context

__all__ = ["ContextFeatures", "ContextHyper", "fit_context_hyper"]

Array = NDArray[np.float64]

_SHARED = {0.1: 2.0, 0.3: 1.0, 0.6: 0.0, 0.9: 0.5}
_LENGTHS = {0.25: 1.0, 0.7: 0.0, 2.0: 0.5}
_OFFSETS = {0.01: 0.0, 0.2: 1.0}
"""What a, l and s_w² may be, with the negative logarithm of the prior: workloads share much until the data say otherwise,
and as losses are relative to the workload's own baseline the offset is small."""

_STARTS = ((0.6, 0.7, 0.01), (0.1, 0.7, 0.01))

Choice = tuple[float, float, float]
"""a, l and s_w²."""


@dataclass(frozen=True, slots=True)
class ContextFeatures:
    """Workloads as numbers between 0 and 1, scaled by the range that was seen.

    Attributes:
        workloads: names, in the order of their indicator columns.
        names: further features.
        low, high: (2 + len(names),) range of log2 of the clients, the read share, and the further features.
    """

    workloads: tuple[str, ...]
    names: tuple[str, ...]
    low: Array
    high: Array

    @classmethod
    def of(cls, contexts: Sequence[Context]) -> ContextFeatures:
        """The scaling for `contexts`, at least one."""
        workloads = tuple(dict.fromkeys(context.workload for context in contexts))
        names = tuple(sorted({name for context in contexts for name in context.features}))
        rows = np.array([_numbers(context, names) for context in contexts])
        return cls(workloads, names, rows.min(axis=0), rows.max(axis=0))

    def row(self, context: Context) -> Array:
        """One workload, (g,): numbers that never differed are 0.5; names are indicators, √½ each: 1 apart."""
        span = self.high - self.low
        numbers = (_numbers(context, self.names) - self.low) / np.where(span > 0, span, 1.0)
        is_one = [math.sqrt(0.5) * (context.workload == name) for name in self.workloads]
        return np.asarray(np.r_[np.where(span > 0, numbers, 0.5), is_one])


def _numbers(context: Context, names: Sequence[str]) -> Array:
    further = [float(context.features.get(name, 0.0)) for name in names]
    return np.array([math.log2(max(1, context.clients)), context.read_share, *further])


@dataclass(frozen=True, slots=True)
class ContextHyper:
    """Hyper-parameters of K for features [x | w] of which the first `n_config` are of the config.

    Attributes:
        config: those of k.
        n_config: f.
        shared, length, offset: a, l and s_w².
    """

    config: Hyper
    n_config: int
    shared: float
    length: float
    offset: float

    @property
    def nugget(self) -> float:
        """τ² of k."""
        return self.config.nugget

    @property
    def effects(self) -> Array:
        """Those of k."""
        return self.config.effects

    def frame(self, a: Array, b: Array) -> Frame:
        """What the workloads w of `a` (n, g) and `b` (m, g) make of k: (n, m)."""
        k = correlation(a, b, self.length)
        return Frame(self.shared + (1.0 - self.shared) * k, self.offset * k)

    def covariance(self, a: Array, b: Array) -> Array:
        """K between the rows of `a` (n, f + g) and `b` (m, f + g): (n, m)."""
        f = self.n_config
        frame = self.frame(a[:, f:], b[:, f:])
        return np.asarray(frame.factor * self.config.covariance(a[:, :f], b[:, :f]) + frame.offset)

    def variance(self, x: Array) -> Array:
        """The diagonal of `covariance(x, x)`: (n,)."""
        return np.asarray(self.config.variance(x[:, : self.n_config]) + self.offset)


def correlation(a: Array, b: Array, length: float) -> Array:
    """k_w between the rows of `a` (n, g) and `b` (m, g): (n, m)."""
    r = np.sqrt(5.0 * ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2)) / length
    return np.asarray((1.0 + r + r * r / 3.0) * np.exp(-r))


def fit_context_hyper(x: Array, w: Array, y: Array, v: Array, *, has_product: bool) -> ContextHyper:
    """Hyper-parameters of K: k by gradient for two usual frames, then the frame of largest density, then k once more.

    Args:
        x, y, v: as for `gaussian_process.Posterior`.
        w: (n, g) features of the workloads.
        has_product: whether the effect of a config may depend on the workload; else a = 1.
    """
    f, prior, basis = x.shape[1], HyperPrior.of(x.shape[1]), basis_of(x)

    def framed(choice: Choice, config: Hyper) -> ContextHyper:
        return ContextHyper(config, f, choice[0] if has_product else 1.0, choice[1], choice[2])

    def cost(choice: Choice, config: Hyper) -> float:
        against = _SHARED.get(choice[0], 0.0) + _LENGTHS[choice[1]] + _OFFSETS[choice[2]]
        return objective(config.vector, x, y, v, prior, framed(choice, config).frame(w, w), basis)[0] + against

    def fitted(choice: Choice, max_steps: int) -> Hyper:
        centre = Hyper.from_vector(prior.centre(f))
        return fit_hyper(x, y, v, frame=framed(choice, centre).frame(w, w), max_steps=max_steps)

    # What is fitted for a frame is fitted to it, so frames are compared from two sides.
    rough = [fitted(start, 20) for start in (_STARTS if has_product else _STARTS[:1])]
    choices = list(product(_SHARED if has_product else (1.0,), _LENGTHS, _OFFSETS))
    _, chosen = min((cost(choice, config), choice) for config in rough for choice in choices)
    return framed(chosen, fitted(chosen, 30))
