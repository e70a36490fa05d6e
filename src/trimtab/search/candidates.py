"""Points worth scoring: everywhere, near the best ones by changing few knobs, and between good ones.

Most of the reachable gain sits in a few knobs (Kanellis et al., HotStorage 2020), so most points differ from a good one
in a few knobs only, as in D. Eriksson et al., "Scalable Global Optimization via Local Bayesian Optimization" (TuRBO),
NeurIPS 2019, §3 (perturbing a random subset of the dimensions). Values are also copied from other good points: a
special value (0, -1) is no neighbour of an ordinary one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Moves"]

Array = NDArray[np.float64]

_SMALLEST_STEP = 0.02
_LARGEST_STEP = 0.4
"""Range of the normal steps' standard deviation, drawn log-uniformly."""

_STEP, _JUMP = 0.5, 0.3
"""Shares of changed coordinates that make a normal step and that jump anywhere; the rest copies another good point."""


@dataclass(frozen=True, slots=True)
class Moves:
    """Makes points of the unit cube.

    Attributes:
        weights: (d,) how likely each coordinate is changed, relative to the others; all more than 0.
        costly: (d,) coordinates of knobs that need more than a reload.
        costly_share: share of the points for which costly coordinates may change.
        mean_changes: expected number of coordinates changed in one point.
    """

    weights: Array
    costly: NDArray[np.bool_]
    costly_share: float
    mean_changes: float = 3.0

    def near(self, centres: Array, donors: Array, n: int, rng: np.random.Generator) -> Array:
        """`n` points (n, d): one of `centres` (k, d) each, few coordinates changed, some to those of `donors`."""
        d = centres.shape[1]
        points = centres[rng.integers(len(centres), size=n)]
        changed = self._chosen(n, d, rng)
        spread = np.exp(rng.uniform(np.log(_SMALLEST_STEP), np.log(_LARGEST_STEP), (n, 1)))
        stepped = np.clip(points + spread * rng.standard_normal((n, d)), 0.0, 1.0)
        copied = donors[rng.integers(len(donors), size=(n, d)), np.arange(d)]
        kind = rng.random((n, d))
        moved = np.where(kind < _STEP, stepped, np.where(kind < _STEP + _JUMP, rng.random((n, d)), copied))
        return np.where(changed, moved, points)

    def _chosen(self, n: int, d: int, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Which coordinates change, (n, d): at least one in each row."""
        count = np.minimum(1 + rng.poisson(max(0.0, self.mean_changes - 1.0), n), d)
        allowed = np.where(self.costly & (rng.random(n) >= self.costly_share)[:, None], 1e-9, 1.0) * self.weights
        # The `count` largest of Gumbel-perturbed log weights are a draw without replacement.
        keys = np.log(allowed) + rng.gumbel(size=(n, d))
        rank = np.argsort(np.argsort(-keys, axis=1), axis=1)
        return np.asarray(rank < count[:, None])

    @staticmethod
    def between(parents: Array, n: int, rng: np.random.Generator) -> Array:
        """`n` points (n, d), each taking every coordinate from one of two of `parents` (k, d)."""
        first, second = rng.integers(len(parents), size=n), rng.integers(len(parents), size=n)
        share = rng.random((n, 1))
        return np.where(rng.random((n, parents.shape[1])) < share, parents[first], parents[second])

    @staticmethod
    def anywhere(n: int, d: int, rng: np.random.Generator) -> Array:
        """`n` uniform points (n, d)."""
        return rng.random((n, d))
