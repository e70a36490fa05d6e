"""Repair: the way from infeasible configs to feasible ones that are close to them in the unit cube.

All configs are moved at once: to look at a few thousand points takes hardly longer than to look at one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trimtab.space.encoding import Columns
from trimtab.space.feasible import Feasibility
from trimtab.space.tighten import Tightening

__all__ = ["linear_solutions", "nearest_feasible"]

Floats = NDArray[np.float64]

_SECTIONS = 33
_HALVINGS = 4
"""Each search along a line looks at 33 points at once and narrows four times: to a millionth of its length."""


def nearest_feasible(feasibility: Feasibility, tightening: Tightening, columns: Columns, anchor: Floats) -> Floats:
    """Feasible points (m, d) close to the m infeasible configs of `columns`, each by itself; `anchor` (d,) is feasible.

    Starts from the nearest solution of the linear constraints, and from where the line to the anchor becomes feasible;
    from both goes back towards the config knob by knob, and takes the closer one.
    """
    encoding = feasibility.encoding
    targets = encoding.points(columns)
    solutions, is_known = linear_solutions(tightening, columns, targets, list(encoding.axes))
    solutions[is_known] = _snapped(feasibility, solutions[is_known])
    is_solved = feasibility.feasible_points(solutions)
    anchors = np.broadcast_to(anchor, targets.shape)
    starts = solutions.copy()
    starts[~is_solved] = _pulled(feasibility, targets[~is_solved], anchors[~is_solved])
    ends = _snapped(feasibility, _approached(feasibility, targets, starts))
    # A solution that is not feasible may still be the better direction to come from.
    rows = np.flatnonzero(~is_solved & (solutions != targets).any(axis=1))
    starts = _pulled(feasibility, solutions[rows], anchors[rows])
    others = _snapped(feasibility, _approached(feasibility, targets[rows], starts))
    is_closer = np.abs(others - targets[rows]).sum(axis=1) < np.abs(ends - targets)[rows].sum(axis=1)
    ends[rows[is_closer]] = others[is_closer]
    return ends


def _snapped(feasibility: Feasibility, points: Floats) -> Floats:
    return feasibility.encoding.points(feasibility.encoding.of_points(points))


def linear_solutions(
    tightening: Tightening, columns: Columns, targets: Floats, names: Sequence[str]
) -> tuple[Floats, NDArray[np.bool_]]:
    """The points nearest to `targets` (m, d), those of `columns`, that meet the linear constraints, and which of them are known.

    A target itself where no linear constraint is, or no solution is known.
    """
    found, is_known, programme = targets.copy(), np.zeros(len(targets), dtype=np.bool_), tightening.programme
    if programme is None:
        return found, is_known
    places = {name: i for i, name in enumerate(names) if name in programme.parts}
    for row, (values, bins, place) in enumerate(zip(columns.values, columns.bins, targets, strict=True)):
        pairs = {name: (float(values[i]), int(bins[i])) for name, i in places.items()}
        solution = programme.nearest(pairs, {name: float(place[i]) for name, i in places.items()})
        is_known[row] = bool(solution)
        for name, (value, number) in solution.items():
            axis = programme.parts[name].domain.axis
            found[row, places[name]] = axis.encode(np.array([value]), np.array([number]))[0]
    return found, is_known


def _pulled(feasibility: Feasibility, targets: Floats, starts: Floats) -> Floats:
    """On the line from each of `starts` (m, d), which are feasible, to its target the feasible point that is nearest to the
    target, as far as seen: (m, d)."""
    found, ends, rows = starts.copy(), targets, np.arange(len(targets))
    steps = np.linspace(0.0, 1.0, _SECTIONS)[:, None]
    for _ in range(_HALVINGS):
        if not len(rows):
            break
        lines = found[rows, None, :] + steps * (ends - found[rows])[:, None, :]
        lines[:, -1] = ends
        mask = feasibility.feasible_points(lines.reshape(-1, lines.shape[2])).reshape(len(rows), _SECTIONS)
        mask[:, 0] = True
        last = _SECTIONS - 1 - np.argmax(mask[:, ::-1], axis=1)
        found[rows] = lines[np.arange(len(rows)), last]
        goes_on = np.flatnonzero(last < _SECTIONS - 1)
        rows, ends = rows[goes_on], lines[goes_on, last[goes_on] + 1]
    return found


def _approached(feasibility: Feasibility, targets: Floats, points: Floats) -> Floats:
    """Each of `points` (m, d), which are feasible, moved towards its target knob by knob, as far as each may go; what is
    farthest goes first."""
    # Knobs that no constraint speaks of go all at once.
    moved = targets.copy()
    moved[:, feasibility.places] = points[:, feasibility.places]
    order = np.argsort(-np.abs(targets - moved), axis=1, kind="stable")
    for axes in order.T:
        every = np.arange(len(axes))
        rows = np.flatnonzero(targets[every, axes] != moved[every, axes])
        aims = moved[rows]
        aims[np.arange(len(rows)), axes[rows]] = targets[rows, axes[rows]]
        moved[rows] = _pulled(feasibility, aims, moved[rows])
    return moved
