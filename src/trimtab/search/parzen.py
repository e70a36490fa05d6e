"""A Parzen density over the unit cube of a space, whose axes are part bins (choices, special values) and part range.

    symbol   meaning                                                                         shape
    u        a point of the cube                                                             (d,)
    c        cell of a coordinate: the number of its bin, or that of the range (the last)    (d,)
    C        cells of each coordinate                                                        (d,)
    ε        share of a component's mass that is spread over all cells, C / (n + C)          (d,)
    σ        standard deviation of the component in the range, before it is truncated to it  (n, d)

A component at u_k has, in one coordinate, the mass (1 - ε) on its own cell and ε / C on each; within the range it is a
truncated normal distribution if u_k lies in the range, else uniform. One component more is uniform in everything.

Sources: J. Bergstra, R. Bardenet, Y. Bengio, B. Kégl, "Algorithms for Hyper-Parameter Optimization", NeurIPS 2011, §4;
S. Falkner, A. Klein, F. Hutter, "BOHB", ICML 2018, §3.2 (one density over all coordinates); S. Watanabe, "Tree-Structured
Parzen Estimator", 2023, §3.3 (bandwidths).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

__all__ = ["Parzen"]

Array = NDArray[np.float64]
Bins = tuple[Array, NDArray[np.int64]]

_WIDTH = 0.3
"""σ of one component of a joint density, as a share of the range; it falls with n^(-1/(d + 4))."""

_WIDTH_FACTOR_MOST = 100
"""σ of a univariate density is at least 1 / min(this, n + 1) of the range."""


class Parzen:
    """The density around `points`.

    Args:
        points: (n, d) places in the cube; n may be 0.
        bins: where the range of each coordinate begins and how many bins lie before, as `Space.bins`.
        is_joint: whether a component holds for all coordinates together; else coordinates are independent.
    """

    def __init__(self, points: Array, bins: Bins, *, is_joint: bool) -> None:
        n, d = points.shape
        self._begins, self._n_bins = bins
        self._is_joint = is_joint
        self._n_cells = self._n_bins + (self._begins < 1.0)
        self._spread = self._n_cells / (n + self._n_cells)
        self._span = np.maximum(1.0 - self._begins, 1e-12)
        self._points = points
        self._cells = self._cell(points)
        self._sd = np.full((n, d), _WIDTH * max(n, 1) ** (-1.0 / (d + 4))) if is_joint else self._gaps()
        self._sd *= self._span
        low, high = self._edges(points)
        self._inside = np.maximum(special.ndtr(high) - special.ndtr(low), 1e-12)

    def _cell(self, points: Array) -> NDArray[np.int64]:
        width = np.where(self._begins > 0, self._begins, 1.0) / np.maximum(self._n_bins, 1)
        number = np.minimum(np.floor(points / width), np.maximum(self._n_bins - 1, 0)).astype(np.int64)
        # A choice has no range: its last bin ends at 1.
        return np.where((points < self._begins) | (self._begins >= 1.0), number, self._n_bins)

    def _gaps(self) -> Array:
        """(n, d) larger distance of each point to its neighbours in the range and the ends, as a share of it, within bounds."""
        found = np.ones(self._points.shape)
        for j, n_bins in enumerate(self._n_bins):
            inside = np.flatnonzero(self._cells[:, j] == n_bins)
            place = (self._points[inside, j] - self._begins[j]) / self._span[j]
            order = np.argsort(place, kind="stable")
            steps = np.diff(np.r_[0.0, place[order], 1.0])
            least = 1.0 / min(_WIDTH_FACTOR_MOST, len(inside) + 1)
            found[inside[order], j] = np.clip(np.maximum(steps[:-1], steps[1:]), least, 1.0)
        return found

    def _edges(self, points: Array) -> tuple[Array, Array]:
        """Both ends of the range in standard deviations from each point."""
        return (self._begins - points) / self._sd, (1.0 - points) / self._sd

    def draw(self, m: int, rng: np.random.Generator) -> Array:
        """`m` points (m, d) drawn from the density."""
        n, d = self._points.shape
        who = rng.integers(n + 1, size=(m, 1 if self._is_joint else d))
        who = np.broadcast_to(who, (m, d))
        anywhere = rng.random((m, d))
        if n == 0:
            return anywhere
        axis, row = np.arange(d), np.minimum(who, n - 1)
        centre, sd = self._points[row, axis], self._sd[row, axis]
        low, high = special.ndtr((self._begins - centre) / sd), special.ndtr((1.0 - centre) / sd)
        near = centre + sd * special.ndtri(np.clip(low + anywhere * (high - low), 1e-12, 1.0 - 1e-12))
        in_range = self._cells[row, axis] == self._n_bins
        kept = np.where(in_range, np.clip(near, self._begins, 1.0), centre)
        is_free = (who == n) | (rng.random((m, d)) < self._spread)
        return np.where(is_free, self._uniform(rng.random((m, d)), anywhere), kept)

    def _uniform(self, choice: Array, place: Array) -> Array:
        """Points whose cell is uniform, and whose place in the range is."""
        cell = np.floor(choice * self._n_cells)
        width = self._begins / np.maximum(self._n_bins, 1)
        return np.where(cell < self._n_bins, (cell + 0.5) * width, self._begins + place * self._span)

    def log_density(self, points: Array) -> Array:
        """Logarithm of the density at `points` (m, d): (m,); of mass where a coordinate is in a bin."""
        n, d = self._points.shape
        cells = self._cell(points)
        joint = np.zeros((len(points), n + 1))
        total = np.zeros(len(points))
        for j in range(d):
            logs = self._log_of(j, points[:, j], cells[:, j])
            if self._is_joint:
                joint += logs
            else:
                total += special.logsumexp(logs, axis=1) - np.log(n + 1)
        return np.asarray(special.logsumexp(joint, axis=1) - np.log(n + 1)) if self._is_joint else total

    def _log_of(self, j: int, at: Array, cells: NDArray[np.int64]) -> Array:
        """Log density of every component in coordinate j at `at` (m,), the uniform component last: (m, n + 1)."""
        flat = np.where(cells == self._n_bins[j], 1.0 / self._span[j], 1.0)[:, None]
        same = cells[:, None] == self._cells[None, :, j]
        z = (at[:, None] - self._points[None, :, j]) / self._sd[None, :, j]
        bell = np.exp(-0.5 * z * z) / (np.sqrt(2.0 * np.pi) * self._sd[None, :, j] * self._inside[None, :, j])
        own = np.where(self._cells[None, :, j] == self._n_bins[j], bell, 1.0)
        even = flat / self._n_cells[j]
        mass = (1.0 - self._spread[j]) * np.where(same, own, 0.0) + self._spread[j] * even
        return np.log(np.hstack([mass, even]) + 1e-300)
