"""The local-level model of a series: how likely its two variances are, and what its level was at any time.

    symbol   meaning                                                     shape
    t, y     times, in their order, and values                           (n,)
    q        variance that the level gains per unit of time
    h        variance of each value around the level                     (n,)

A random walk observed with noise, whose first level is unknown (Durbin & Koopman 2012, Time Series Analysis by State Space
Methods): the likelihood by the Kalman filter with a diffuse first level (section 2.9), the level by filtering and smoothing
(section 2.4). Covariance matrices say the same, at n^3 for each pair of variances: a track is fitted anew with every repeat.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

__all__ = ["LocalLevel", "log_likelihoods"]

Floats = NDArray[np.float64]


def log_likelihoods(t: Floats, y: Floats, q: Floats, h: Floats) -> Floats:
    """Restricted log-likelihood, but for a constant, of each q (pairs,) with its h, shape (n, pairs)."""
    n, pairs = h.shape
    spread, miss = np.empty((n - 1, pairs)), np.empty((n - 1, pairs))
    gained = np.diff(t)[:, None] * q
    level, variance = np.full(pairs, y[0]), h[0].copy()
    share, step = np.empty(pairs), np.empty(pairs)
    for i in range(n - 1):  # over all pairs at once, without new arrays: a study waits for it
        variance += gained[i]
        np.add(variance, h[i + 1], out=spread[i])
        np.subtract(y[i + 1], level, out=miss[i])
        np.divide(variance, spread[i], out=share)
        np.multiply(share, miss[i], out=step)
        level += step
        np.multiply(share, h[i + 1], out=variance)
    np.multiply(miss, miss, out=miss)
    miss /= spread
    return np.asarray(-0.5 * (np.log(spread, out=spread).sum(axis=0) + miss.sum(axis=0)), dtype=np.float64)


class LocalLevel:
    """What a series says of its level at any time, for one q and one h."""

    def __init__(self, t: Sequence[float], y: Sequence[float], q: float, h: Sequence[float]) -> None:
        self._t, self._q = t, q
        level, variance = y[0], h[0]
        self._filtered = [(level, variance)]
        for i in range(1, len(t)):
            prior = variance + q * (t[i] - t[i - 1])
            share = prior / (prior + h[i])
            level += share * (y[i] - level)
            variance = share * h[i]
            self._filtered.append((level, variance))

    @cached_property
    def _smoothed(self) -> list[tuple[float, float]]:
        """Means and variances at each of the times, given the whole series."""
        found = self._filtered[-1:]
        for i in range(len(self._t) - 2, -1, -1):
            found.append(self._between(i, self._t[i], found[-1]))
        return found[::-1]

    @property
    def values(self) -> list[float]:
        """The level at each of the times, given the whole series."""
        return [level for level, _ in self._smoothed]

    def at(self, time: float) -> tuple[float, float]:
        """Mean and variance of the level at `time`; before the first time the walk is mirrored, and as uncertain as behind the
        last one."""
        if self._q == 0 or time >= self._t[-1]:
            level, variance = self._filtered[-1]
            return level, variance + self._q * max(0.0, time - self._t[-1])
        if time <= self._t[0]:
            level, variance = self._smoothed[0]
            return level, variance + self._q * (self._t[0] - time)
        i = bisect_right(self._t, time) - 1
        return self._between(i, time, self._smoothed[i + 1])

    def _between(self, i: int, time: float, after: tuple[float, float]) -> tuple[float, float]:
        """At a time from t[i] on and before t[i + 1], where `after` is known of t[i + 1]."""
        level, variance = self._filtered[i]
        here = variance + self._q * (time - self._t[i])
        there = variance + self._q * (self._t[i + 1] - self._t[i])
        share = here / there
        return level + share * (after[0] - level), here + share * share * (after[1] - there)
