"""Feasibility of many configs at once, and the search for one feasible config."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from trimtab.space.constraint import BoundConstraint
from trimtab.space.encoding import Columns, Encoding
from trimtab.space.knob import Value

__all__ = ["Feasibility"]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

_DRAWS = 512
"""Points drawn when no feasible one is known, ..."""
_STARTS = 12
"""... of which the best are improved, ..."""
_ROUNDS = 60
"""... by at most so many moves, ..."""
_LEVELS = 17
"""... each the best of so many values a knob."""


class Feasibility:
    """The constraints of a space over the columns of its encoding."""

    def __init__(self, encoding: Encoding, constraints: Sequence[BoundConstraint]) -> None:
        self.encoding = encoding
        self.constraints = tuple(constraints)
        # Points are decoded along the axes that matter only: repairs look at many points.
        self._part = encoding.part(name for constraint in self.constraints for name in constraint.knobs)
        self.places = [i for i, name in enumerate(encoding.axes) if name in self._part.axes]

    def mask(self, columns: Columns) -> Mask:
        """Which of the (canonical) configs meet every constraint."""
        return self._mask(self.encoding, columns)

    def _mask(self, encoding: Encoding, columns: Columns) -> Mask:
        mask = np.ones(len(columns), dtype=np.bool_)
        for constraint in self.constraints:
            mask &= constraint.mask(encoding.env(columns, constraint.knobs))
        return mask

    def excess(self, points: Floats) -> Floats:
        """How far the configs at points (n, d) are from feasible: 0 where feasible."""
        columns = self._part.of_points(points[:, self.places])
        total = np.zeros(len(columns))
        for constraint in self.constraints:
            total = total + constraint.excess(self._part.env(columns, constraint.knobs))
        return total

    def explain(self, config: Mapping[str, Value]) -> tuple[str, ...]:
        """One line for each constraint that a config breaks."""
        columns = self.encoding.canonical(self.encoding.of_configs([config]))
        canonical = self.encoding.configs(columns)[0]
        lines = []
        for constraint in self.constraints:
            env = self.encoding.env(columns, constraint.knobs)
            shown = {name: self.encoding.axes[name].knob.format(canonical[name]) for name in constraint.knobs}
            lines.append(constraint.explain(env, shown))
        return tuple(line for line in lines if line)

    def feasible_points(self, points: Floats) -> Mask:
        """Which points of the cube decode to feasible configs."""
        points = np.asarray(points, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != len(self.encoding.axes):
            return self.mask(self.encoding.of_points(points))
        return self._mask(self._part, self._part.of_points(points[:, self.places]))

    def anchor(self, known: Floats) -> Floats | None:
        """A point that decodes to a feasible config: one of `known` (n, d), else one found by descent from drawn
        points.

        None when none was found. Deterministic.
        """
        rng = np.random.default_rng(0)
        points = np.vstack([known, rng.random((_DRAWS, known.shape[1]))])
        excess = self.excess(points)
        if (excess == 0).any():
            return np.asarray(points[int(np.argmax(excess == 0))])
        for start in np.argsort(excess, kind="stable")[:_STARTS]:
            point, gap = self._descend(points[start], float(excess[start]))
            if gap == 0:
                return point
        return None

    def _descend(self, point: Floats, gap: float) -> tuple[Floats, float]:
        """Moves one coordinate at a time to where the excess is least, until feasible or stuck."""
        for _ in range(_ROUNDS):
            moves = self._moves(point)
            excess = self.excess(moves)
            best = int(np.argmin(excess))
            if excess[best] >= gap:
                break
            point, gap = moves[best], float(excess[best])
            if gap == 0:
                break
        return point, gap

    def _moves(self, point: Floats) -> Floats:
        moved = []
        for i in self.places:
            levels = list(self.encoding.axes.values())[i].levels(_LEVELS)
            block = np.repeat(point[None, :], len(levels), axis=0)
            block[:, i] = levels
            moved.append(block)
        return np.vstack(moved) if moved else point[None, :]
