"""Interactions: pairs of knobs whose effect together is not the sum of their effects."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from trimtab.importance.ranking import RankProblem
from trimtab.importance.resample import HIGH, LOW
from trimtab.importance.slices import Dependence
from trimtab.space import Value

__all__ = ["Pair", "top_pairs"]

Array = NDArray[np.float64]

_GRID = 5
_LEAST_SHARE = 0.01
"""A smaller share of the variance is worth no picture, however sure it is."""
_LEAST_AGREEMENT = 0.9
"""In so many of the resamples the pair must interact: what is noise in one resample is another pair in the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two knobs that interact.

    Attributes:
        first, second: their names.
        share, share_low, share_high: of the predicted loss's variance that is the pair's interaction alone, with its
            90 % bootstrap interval.
        first_values, second_values: the grid, in each knob's unit and order.
        loss: mean predicted loss, `loss[i][j]` at `first_values[i]` and `second_values[j]`.
    """

    first: str
    second: str
    share: float
    share_low: float
    share_high: float
    first_values: tuple[Value, ...]
    second_values: tuple[Value, ...]
    loss: tuple[tuple[float, ...], ...]


def top_pairs(problem: RankProblem, n: int = 3, *, dependence: Dependence | None = None) -> tuple[Pair, ...]:
    """At most `n` pairs whose interaction stands out of the noise, strongest first.

    Shown are pairs that the surrogate of all samples has as a product, that have a share of 1 % or more, and that
    interact in nine of ten resamples as well; often there are none.

    Args:
        problem: the trials.
        n: the most.
        dependence: that of `problem`, where it is at hand.

    Raises:
        UsageError: as `samples_of`.
    """
    dependence = dependence or Dependence(problem)
    model = dependence.surrogates[0].model
    known = {block.knobs for block in model.blocks if len(block.knobs) == 2}
    names = dependence.samples.names
    pairs = []
    for first, second in combinations(sorted({knob for pair in known for knob in pair}), 2):
        if (first, second) in known or (second, first) in known:
            pair = _pair(dependence, names[first], names[second])
            if pair is not None:
                pairs.append(pair)
    return tuple(sorted(pairs, key=lambda pair: (-pair.share, pair.first, pair.second))[:n])


def _pair(dependence: Dependence, first: str, second: str) -> Pair | None:
    """The pair with its shares and grid; None where it does not stand out."""
    first_values, second_values = dependence.grid(first, _GRID), dependence.grid(second, _GRID)
    own_first, at_first = dependence.features_of(first, first_values)
    own_second, at_second = dependence.features_of(second, second_values)
    base = dependence.samples.x[dependence.rows]
    shape = (len(first_values), len(second_values))
    x = np.tile(base, (shape[0] * shape[1], 1))
    x[:, own_first] = np.repeat(at_first, shape[1] * len(base), axis=0)
    x[:, own_second] = np.tile(np.repeat(at_second, len(base), axis=0), (shape[0], 1))
    shares, grid = [], np.zeros(shape)
    for number, surrogate in enumerate(dependence.surrogates):
        joint = surrogate.predict(x).reshape(*shape, len(base)).mean(axis=2)
        variance = float(np.var(surrogate.predict(dependence.samples.x)))
        shares.append(_interaction(joint) / variance if variance > 0.0 else 0.0)
        grid = joint if number == 0 else grid
    low, high = np.percentile(shares, [LOW, HIGH])
    agreement = float(np.mean(np.array(shares) >= _LEAST_SHARE))
    if shares[0] < _LEAST_SHARE or agreement < _LEAST_AGREEMENT:
        return None
    return Pair(
        first=first, second=second, share=min(1.0, shares[0]), share_low=min(1.0, float(low), shares[0]),
        share_high=min(1.0, max(float(high), shares[0])), first_values=first_values, second_values=second_values,
        loss=tuple(tuple(float(value) for value in row) for row in grid),
    )  # fmt: skip


def _interaction(joint: Array) -> float:
    """Variance of a table that is in neither its rows nor its columns."""
    rest = joint - joint.mean(axis=0, keepdims=True) - joint.mean(axis=1, keepdims=True) + joint.mean()
    return float(np.mean(rest**2))
