"""Repair: the way from an infeasible config to a feasible one that is close to it in the unit cube."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trimtab.space.encoding import Columns
from trimtab.space.feasible import Feasibility
from trimtab.space.tighten import Tightening

__all__ = ["linear_solution", "nearest_feasible"]

Floats = NDArray[np.float64]

_SECTIONS = 33
_HALVINGS = 4
"""Each search along a line looks at 33 points at once and narrows four times: to a millionth of its length."""


def nearest_feasible(feasibility: Feasibility, tightening: Tightening, columns: Columns, anchor: Floats) -> Floats:
    """A feasible point (d,) close to the single, infeasible config of `columns`; `anchor` is feasible.

    Starts from the nearest solution of the linear constraints, and from where the line to the anchor becomes feasible;
    from both goes back towards the config knob by knob, and takes the closer one.
    """
    encoding = feasibility.encoding
    target = encoding.points(columns)[0]
    aims = [target]
    solution = linear_solution(tightening, columns, target, list(encoding.axes))
    if solution is not None:
        snapped = _snapped(feasibility, solution[None, :])[0]
        if feasibility.feasible_points(snapped[None, :])[0]:
            return np.asarray(_snapped(feasibility, _approach(feasibility, target, snapped)[None, :])[0])
        aims.append(snapped)
    ends = [_approach(feasibility, target, _pull(feasibility, aim, anchor)) for aim in aims]
    snapped_ends = _snapped(feasibility, np.array(ends))
    return np.asarray(snapped_ends[int(np.argmin(np.abs(snapped_ends - target).sum(axis=1)))])


def _snapped(feasibility: Feasibility, points: Floats) -> Floats:
    return feasibility.encoding.points(feasibility.encoding.of_points(points))


def linear_solution(tightening: Tightening, columns: Columns, target: Floats, names: list[str]) -> Floats | None:
    programme = tightening.programme
    if programme is None:
        return None
    index = {name: i for i, name in enumerate(names)}
    pairs = {n: (float(columns.values[0, index[n]]), int(columns.bins[0, index[n]])) for n in programme.parts}
    found = programme.nearest(pairs, {n: float(target[index[n]]) for n in programme.parts})
    if not found:
        return None
    point = target.copy()
    for name, (value, number) in found.items():
        axis = programme.parts[name].domain.axis
        point[index[name]] = axis.encode(np.array([value]), np.array([number]))[0]
    return point


def _pull(feasibility: Feasibility, target: Floats, anchor: Floats) -> Floats:
    """The feasible point on the line from `anchor` (feasible) to `target` that is nearest to the target, as far as
    seen."""
    start, end = anchor, target
    for _ in range(_HALVINGS):
        line = start + np.linspace(0.0, 1.0, _SECTIONS)[:, None] * (end - start)
        line[-1] = end
        mask = feasibility.feasible_points(line)
        mask[0] = True
        last = int(np.flatnonzero(mask)[-1])
        if last == _SECTIONS - 1:
            return np.asarray(line[last])
        start, end = line[last], line[last + 1]
    return np.asarray(start)


def _approach(feasibility: Feasibility, target: Floats, point: Floats) -> Floats:
    """`point` (feasible) moved towards `target` knob by knob, as far as each may go; what is farthest goes first."""
    # Knobs that no constraint speaks of go all at once.
    free = np.ones(len(target), dtype=np.bool_)
    free[feasibility.places] = False
    point = np.where(free, target, point)
    for i in np.argsort(-np.abs(target - point), kind="stable"):
        if target[i] != point[i]:
            aim = point.copy()
            aim[i] = target[i]
            point = _pull(feasibility, aim, point)
    return point
