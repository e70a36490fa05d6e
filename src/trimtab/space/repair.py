"""Repair: the way from an infeasible config to a feasible one that is close to it in the unit cube."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trimtab.space.feasible import Feasibility

__all__ = ["approach", "pull"]

Floats = NDArray[np.float64]

_SECTIONS = 33
_HALVINGS = 4
"""Each search along a line looks at 33 points at once and narrows four times: to a millionth of its length."""


def pull(feasibility: Feasibility, target: Floats, anchor: Floats) -> Floats:
    """The feasible point on the line from `anchor` (feasible) to `target` that a search from the target's side meets first."""
    start, end = anchor, target
    for _ in range(_HALVINGS):
        line = start + np.linspace(0.0, 1.0, _SECTIONS)[:, None] * (end - start)
        mask = feasibility.feasible_points(line)
        mask[0] = True
        last = int(np.flatnonzero(mask)[-1])
        if last == _SECTIONS - 1:
            return np.asarray(line[last])
        start, end = line[last], line[last + 1]
    return np.asarray(start)


def approach(feasibility: Feasibility, target: Floats, point: Floats) -> Floats:
    """`point` (feasible) moved towards `target` knob by knob, as far as each may go; what is farthest goes first."""
    for i in np.argsort(-np.abs(target - point), kind="stable"):
        if target[i] != point[i]:
            aim = point.copy()
            aim[i] = target[i]
            point = pull(feasibility, aim, point)
    return point
