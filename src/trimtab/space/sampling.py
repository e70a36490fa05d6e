"""Drawing feasible configs: anywhere in the cube, and around a config."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["Frame", "draw", "drawn", "near", "stretched"]

Floats = NDArray[np.float64]

Frame = tuple[float, float, float]
"""Where the regular range of an axis begins, and the ends of what is left of it, all as positions in [0, 1]."""

_BATCHES = 16
_MOST_POINTS = 4096
_JUMPS = 0.1
_MEAN_CHANGES = 2.0
"""Knobs that a neighbour changes on average."""


def draw(
    n: int, rng: np.random.Generator, frames: Sequence[Frame], is_feasible: Callable[[Floats], NDArray[np.bool_]]
) -> Floats:
    """Up to n feasible points (m, d), uniform in the feasible part of the frames, by rejection in batches."""
    found, n_found, n_drawn = [np.empty((0, len(frames)))], 0, 0
    for _ in range(_BATCHES):
        # Batches grow by the share that was feasible so far.
        wanted = (n - n_found) * (n_drawn + 1) / (n_found + 1) if n_drawn else 2 * (n - n_found)
        size = _batch(wanted)
        points = stretched(rng.random((size, len(frames))), frames)
        points = points[is_feasible(points)]
        found.append(points)
        n_found, n_drawn = n_found + len(points), n_drawn + size
        if n_found >= n:
            break
    return np.vstack(found)[:n]


def drawn(n: int, rng: np.random.Generator, n_dims: int) -> Floats:
    """n points (n, n_dims) of the whole cube: what `draw` gives, and takes from `rng`, where everything is feasible."""
    size = _batch(2 * n)
    if size >= n:
        return rng.random((size, n_dims))[:n]
    whole = [(0.0, 0.0, 1.0)] * n_dims
    return draw(n, rng, whole, lambda points: np.ones(len(points), dtype=np.bool_))


def _batch(wanted: float) -> int:
    return int(min(max(16, 1.2 * wanted), _MOST_POINTS))


def stretched(points: Floats, frames: Sequence[Frame]) -> Floats:
    """Points of the cube with the part of each axis that its regular range has squeezed into what is left of the
    range."""
    share, low, high = (np.array(column) for column in zip(*frames, strict=True))
    t = (points - share) / np.where(share < 1.0, 1.0 - share, 1.0)
    return np.where(points < share, points, low + t * (high - low))


def near(centre: Floats, n: int, rng: np.random.Generator, radius: float, shares: Floats) -> Floats:
    """n points (n, d) that differ from `centre` in few coordinates: numbers by a normal step of `radius`, all else
    anyhow.

    `shares` (d,) says where the part of each axis begins in which steps are meant: 1 for choices. A number jumps to
    a special value in one change of ten.
    """
    d = len(centre)
    points = np.repeat(centre[None, :], n, axis=0)
    is_changed = rng.random((n, d)) < min(1.0, _MEAN_CHANGES / d)
    is_changed[np.arange(n), rng.integers(0, d, n)] = True
    steps = centre + radius * rng.standard_normal((n, d))
    # Reflected at the ends, so that they do not collect what would fall beyond.
    steps = np.clip(np.where(steps < 0, -steps, np.where(steps > 1, 2 - steps, steps)), 0.0, 1.0)
    anywhere = rng.random((n, d))
    jumps = (rng.random((n, d)) < np.where(shares > 0, _JUMPS, 0.0)) | (shares >= 1.0)
    in_range = np.where(centre >= shares, np.maximum(steps, shares), shares + anywhere * (1 - shares))
    return np.where(is_changed, np.where(jumps, anywhere, in_range), points)
