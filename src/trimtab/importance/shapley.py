"""Ranks by how much of the gain of good configs over the baseline each knob explains.

Source: S. Lundberg, S.-I. Lee, "A Unified Approach to Interpreting Model Predictions", NeurIPS 2017, with the baseline as
the only background (baseline Shapley: M. Sundararajan, A. Najmi, ICML 2020); importance relative to the default: X. Zhang
et al., "Facilitating Database Tuning with Hyper-Parameter Optimization: A Comprehensive Experimental Evaluation", VLDB
2022, §4.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from trimtab.importance.ranking import Ranking, RankProblem
from trimtab.importance.resample import resampled
from trimtab.importance.samples import Samples, samples_of
from trimtab.importance.surrogate import Surrogate

__all__ = ["ShapleyRanker", "shapley_values"]

Array = NDArray[np.float64]

_GOOD_SHARE = 0.1
_MOST_GOOD = 5
_LEAST_GOOD = 3
_LEAST_GAIN = 0.005
"""Smaller mean values are no gain."""
_EXACT_KNOBS = 7
"""Up to so many changed knobs all orders are taken together, 128 predictions a config; above that orders are drawn."""
_ORDERS = 20
"""Orders drawn, each also backwards."""


class ShapleyRanker:
    """Shapley values of the surrogate's loss between the baseline and the best configs measured.

    A knob that only makes things worse explains no gain and scores 0; `effects` are the mean signed values (negative:
    the loss falls).
    """

    name: ClassVar[str] = "shapley"

    def rank(self, problem: RankProblem) -> Ranking:
        """See `Ranker`.

        Raises:
            UsageError: as `samples_of`.
            SpaceError: the baseline is no config of the space.
        """
        samples = samples_of(problem)
        start = problem.space.features([problem.baseline])[0]

        def score(samples: Samples, weights: Array, rng: np.random.Generator) -> Array:
            return np.maximum(-_mean_values(samples, weights, rng, start), 0.0)

        ranking = resampled(problem, samples, self.name, score)
        values = _mean_values(samples, samples.weights, np.random.default_rng([problem.seed, 22]), start)
        effects = {name: float(value) for name, value in zip(samples.names, values, strict=True)}
        if values.sum() > -_LEAST_GAIN:
            verdict = "not enough data to tell: no config measured is expected to be better than the baseline"
            return replace(ranking, verdict=verdict, effects=effects)
        return replace(ranking, effects=effects)


def _mean_values(samples: Samples, weights: Array, rng: np.random.Generator, start: Array) -> Array:
    """(d,) mean Shapley values over the best configs, in units of the loss."""
    surrogate = Surrogate(samples, weights, rng)
    rows = np.flatnonzero(weights > 0)
    n_good = int(np.clip(_GOOD_SHARE * len(rows), _LEAST_GOOD, _MOST_GOOD))
    # By what is expected of them: the best of many measured are partly lucky.
    good = rows[np.argsort(surrogate.predict(samples.x[rows]), kind="stable")[:n_good]]
    relevant = np.array(surrogate.knobs, dtype=np.int64)
    total = np.zeros(len(samples.names))
    for row in good:
        end = samples.x[row]
        changed = [int(k) for k in relevant if np.any(start[samples.owner == k] != end[samples.owner == k])]
        total[changed] += shapley_values(surrogate.predict, start, end, [samples.owner == k for k in changed], rng)
    return total / len(good)


def shapley_values(
    predict: Callable[[Array], Array],
    start: Array,
    end: Array,
    parts: list[NDArray[np.bool_]],
    rng: np.random.Generator,
) -> Array:
    """(k,) what each of k parts of the features adds to `predict(end) - predict(start)`; they sum to it.

    Args:
        predict: (m, f) -> (m,).
        start, end: (f,).
        parts: k masks (f,) of features that change together.
        rng: draws orders where there are more than 7 parts.
    """
    if not parts:
        return np.zeros(0)
    return (_exact if len(parts) <= _EXACT_KNOBS else _sampled)(predict, start, end, parts, rng)


def _rows(start: Array, end: Array, parts: list[NDArray[np.bool_]], members: NDArray[np.bool_]) -> Array:
    """Features (m, f) that are `end` in the parts that are members (m, k), `start` in all others."""
    masks = (members.astype(np.int64) @ np.array(parts, dtype=np.int64)) > 0
    return np.where(masks, end, start)


def _exact(
    predict: Callable[[Array], Array],
    start: Array,
    end: Array,
    parts: list[NDArray[np.bool_]],
    rng: np.random.Generator,
) -> Array:
    k = len(parts)
    codes = np.arange(2**k)
    members = (codes[:, None] >> np.arange(k)) & 1 == 1
    values = predict(_rows(start, end, parts, members))
    sizes = members.sum(axis=1)
    found = np.zeros(k)
    for i in range(k):
        without = codes[~members[:, i]]
        weight = np.array([1.0 / (k * math.comb(k - 1, int(size))) for size in sizes[without]])
        found[i] = float(weight @ (values[without | (1 << i)] - values[without]))
    return found


def _sampled(
    predict: Callable[[Array], Array],
    start: Array,
    end: Array,
    parts: list[NDArray[np.bool_]],
    rng: np.random.Generator,
) -> Array:
    k = len(parts)
    orders = [rng.permutation(k) for _ in range(_ORDERS)]
    orders += [order[::-1] for order in orders]
    members = np.zeros((len(orders), k + 1, k), dtype=np.bool_)
    for number, order in enumerate(orders):
        for place, knob in enumerate(order):
            members[number, place + 1 :, knob] = True
    values = predict(_rows(start, end, parts, members.reshape(-1, k))).reshape(len(orders), k + 1)
    found = np.zeros(k)
    for number, order in enumerate(orders):
        found[order] += np.diff(values[number])
    return found / len(orders)
