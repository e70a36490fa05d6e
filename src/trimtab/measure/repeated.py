"""Intervals that may be looked at after each of at most `most` pairs: narrower than those for any number of looks.

A proof knows before its first pair how many it will make at most. Spent on so many looks and no more, the same chance of a false
alarm allows intervals that are a fifth narrower than those of `sequential` after ten pairs of 24, and a quarter after all.

    symbol   meaning
    n, most  pairs so far, pairs at the last look
    s        standard deviation of the pairs so far
    p(n)     c (n / most)^(1/4): the two-sided p-value of Student's t that shows a difference after n pairs
    c        so small that pairs without a difference reach p(n) at any of the looks with the chance alpha only

    P(exists n <= most: |mean - mu| >= t(1 - p(n) / 2; n - 1) s / sqrt(n)) <= alpha

c has no closed form: the variance is unknown, and the looks hang together. `_LAST_P` holds it by simulation
(benchmarks/acceptance/looks.py); between its rows and columns it is interpolated. The looks begin at the third pair. Where other
runs tell of the variance (a `NoisePool`), they hang together more, so that the same c is safe. With three degrees of freedom or
more beforehand they may begin at the first pair: those two looks count as two pairs more at the end (simulated: c within 2 %).

Sources: Jennison & Turnbull, "Interim analyses: the repeated confidence interval approach", Journal of the Royal Statistical
Society B 51(3), 1989, for the intervals, and "Group Sequential Methods with Applications to Clinical Trials", 2000, for p-values
in place of boundaries where the variance is unknown; Wang & Tsiatis, Biometrics 43(1), 1987, for shapes between Pocock's, with
the same p-value at each look, and O'Brien's and Fleming's, which asks for more at the first ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from trimtab.measure.quantile import t_quantile

__all__ = [
    "ALPHAS",
    "FIRST_LOOK",
    "LEAST_KNOWN",
    "MOST",
    "SHAPE",
    "Looks",
    "false_alarm",
    "last_p_value",
    "repeated_half_width",
]

SHAPE = 0.25
"""Power of n / most. With 0 small gains are proven less often; with 0.5 a gain of which four pairs would be proof needs five."""

FIRST_LOOK = 3
"""Pairs of the first look, where nothing is known of the noise beforehand."""

LEAST_KNOWN = 3.0
"""Degrees of freedom that a pool must have for looks from the first pair on."""

MOST = (3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 72, 108, 160, 200)
ALPHAS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005)
_LAST_P = (
    (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005),  # 3: one look
    (0.391, 0.142, 0.0665, 0.0317, 0.012, 0.00578, 0.0028, 0.00111, 0.000554, 0.000284),  # 4
    (0.335, 0.115, 0.0524, 0.0244, 0.00894, 0.00426, 0.00206, 0.000798, 0.000398, 0.000198),  # 5
    (0.299, 0.0989, 0.0444, 0.0203, 0.00739, 0.0035, 0.00167, 0.000639, 0.000316, 0.000151),  # 6
    (0.256, 0.0811, 0.0357, 0.016, 0.00574, 0.00269, 0.00127, 0.000485, 0.000232, 0.00011),  # 8
    (0.23, 0.0711, 0.0308, 0.0137, 0.00486, 0.00227, 0.00106, 0.0004, 0.000195, 9.27e-05),  # 10
    (0.213, 0.0646, 0.0278, 0.0122, 0.0043, 0.002, 0.000933, 0.000347, 0.000162, 7.88e-05),  # 12
    (0.19, 0.0563, 0.024, 0.0105, 0.00368, 0.00169, 0.000787, 0.000288, 0.000135, 6.41e-05),  # 16
    (0.176, 0.0513, 0.0217, 0.00946, 0.0033, 0.0015, 0.000699, 0.000256, 0.00012, 5.81e-05),  # 20
    (0.165, 0.0478, 0.0201, 0.00875, 0.00304, 0.00138, 0.00064, 0.000232, 0.000109, 5.28e-05),  # 24
    (0.152, 0.0433, 0.0181, 0.00783, 0.00271, 0.00123, 0.000569, 0.000206, 9.49e-05, 4.64e-05),  # 32
    (0.136, 0.0382, 0.0158, 0.00686, 0.00236, 0.00106, 0.000489, 0.000174, 8.11e-05, 3.92e-05),  # 48
    (0.124, 0.0344, 0.0142, 0.00613, 0.00209, 0.000937, 0.000434, 0.000154, 7.21e-05, 3.37e-05),  # 72
    (0.114, 0.0313, 0.0129, 0.00555, 0.00188, 0.000848, 0.000385, 0.000136, 6.25e-05, 2.93e-05),  # 108
    (0.106, 0.0288, 0.0118, 0.0051, 0.00172, 0.000772, 0.00035, 0.000122, 5.6e-05, 2.6e-05),  # 160
    (0.102, 0.0276, 0.0113, 0.00488, 0.00164, 0.000737, 0.000334, 0.000117, 5.38e-05, 2.52e-05),  # 200
)
"""c for each of MOST (rows) and ALPHAS (columns)."""

_LOG_ALPHAS = np.log(ALPHAS[::-1])
_LOG_P = np.log(np.array(_LAST_P)[:, ::-1])


@dataclass(frozen=True, slots=True)
class Looks:
    """After which pairs one looks.

    Attributes:
        most: pairs at the last look.
        first: pairs at the first one: `FIRST_LOOK`, or 1 with a pool of `LEAST_KNOWN` degrees of freedom or more.
    """

    most: int
    first: int = FIRST_LOOK

    @property
    def row(self) -> int:
        """Pairs at the last of as many looks that begin at `FIRST_LOOK`."""
        return self.most + FIRST_LOOK - self.first


def last_p_value(alpha: float, most: int) -> float:
    """c: the p-value that shows a difference at the last of `most` looks (0 < alpha <= 0.5; fewer than three looks are three)."""
    return math.exp(_between(_row(most), math.log(alpha), _LOG_ALPHAS))


def false_alarm(p_value: float, n: int, looks: Looks) -> float:
    """The least alpha with which a p-value after `n` pairs shows a difference; 1 where it is above one half, and before the first
    look."""
    if n < looks.first:
        return 1.0
    if p_value <= 0:
        return 0.0
    last = math.log(p_value * (looks.most / n) ** SHAPE)
    row = _row(looks.row)
    return 1.0 if last > row[-1] else math.exp(_between(_LOG_ALPHAS, last, row))


def repeated_half_width(n: int, squares: float, df: float, alpha: float, looks: Looks) -> float:
    """Of the interval of the mean after `n` pairs.

    Args:
        n: pairs so far.
        squares: their sum of squared deviations, and that of a pool.
        df: degrees of freedom of it.
        alpha: chance that any interval up to the last look misses the mean.
        looks: when one looks.

    Returns:
        Infinity before the first look.

    Raises:
        ValueError: there are more pairs than at the last look.
    """
    if n > looks.most:
        raise ValueError(f"n={n} pairs, but the intervals were made for most={looks.most}")
    if n < looks.first:
        return math.inf
    p_value = last_p_value(alpha, looks.row) * (n / looks.most) ** SHAPE
    return t_quantile(1 - p_value / 2, df) * math.sqrt(squares / df / n)


@lru_cache(maxsize=256)
def _row(most: int) -> tuple[float, ...]:
    """log c of each alpha, the smallest first."""
    at = math.log(max(most, MOST[0]))
    return tuple(_between(column, at, np.log(MOST)) for column in _LOG_P.T)


def _between(values: ArrayLike, at: float, places: ArrayLike) -> float:
    """`values` of ascending `places`, interpolated, or extrapolated from the two that are nearest."""
    ys, xs = np.asarray(values, dtype=np.float64), np.asarray(places, dtype=np.float64)
    right = int(np.clip(np.searchsorted(xs, at), 1, len(xs) - 1))
    slope = (ys[right] - ys[right - 1]) / (xs[right] - xs[right - 1])
    return float(ys[right - 1] + slope * (at - xs[right - 1]))
