"""The regular range of a numeric knob: a lattice of equal steps, a continuum held to few decimal digits, or a ladder of
round values.

Notation: k level number (0 .. n-1), t in [0, 1] the position along the range on its scale (linear or logarithmic).
Array methods work on float64, so that a lattice is exact up to 2^53; `nearest` and `is_level` are exact for every int.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from trimtab.space.round_values import Ladder, round_values

__all__ = ["Continuum", "Ladder", "Lattice", "Range", "range_of"]

Array = NDArray[np.float64]

_DIGITS = 6
"""Decimal digits to which reals without a step are held: enough for any tuning, few enough to be read, and to pass the
unit interval exactly. Values of more digits that a server runs with are legal as extra points."""

_RANGE_DIGITS = 5
"""A range that is narrow for its distance from 0 is held to so many digits of its own width: it has 10,000 values at least."""

_EXACT_DIGITS = 15
"""A double tells apart as many decimal digits."""

_TINY = 1e-270
"""Reals are told apart down to six digits of this, so that no power of ten overflows."""


@dataclass(frozen=True, slots=True)
class Lattice:
    """Levels (low_n + k * step_n) / scale for k in 0 .. n-1; the quotient is rounded once, so 0.3 is 0.3."""

    low_n: int
    step_n: int
    scale: int
    n: int
    log: bool
    is_integer: bool

    @property
    def low(self) -> float:
        """The lowest level."""
        return self.low_n / self.scale

    @property
    def high(self) -> float:
        """The highest level."""
        return (self.low_n + (self.n - 1) * self.step_n) / self.scale

    @property
    def n_levels(self) -> float:
        """How many levels there are."""
        return self.n

    def level(self, k: int) -> int | float:
        """The value of level k, exactly."""
        value = self.low_n + k * self.step_n
        return value if self.is_integer else value / self.scale

    def index(self, value: float) -> int:
        """The number of the level nearest to a finite `value`."""
        if self.scale == 1 and value == int(value):  # as searchers ask for thousands of them
            k = _rounded(int(value) - self.low_n, self.step_n)
        else:
            k = round((Fraction(value) * self.scale - self.low_n) / self.step_n)
        return min(max(k, 0), self.n - 1)

    def nearest(self, value: float) -> int | float:
        """The level nearest to a finite `value`."""
        return self.level(self.index(value))

    def values(self, k: Array) -> Array:
        """Values of levels k."""
        return (self.low_n + k * self.step_n) / self.scale

    def levels_near(self, values: Array) -> Array:
        """Numbers of the levels nearest to `values`."""
        k = np.rint((values * self.scale - self.low_n) / self.step_n)
        return k.clip(0, self.n - 1)

    def snap(self, values: Array) -> Array:
        """The levels nearest to `values`."""
        return self.values(self.levels_near(values))

    def at(self, t: Array) -> Array:
        """Values at positions t: linear ranges give every level an equal share, logarithmic ones its share of
        log(high/low)."""
        if self.n == 1:
            return np.full_like(t, self.low)
        if not self.log:
            return self.values(np.floor(t * self.n).clip(0, self.n - 1))
        return self.snap(self.low * np.exp(t * math.log(self.high / self.low)))

    def at_one(self, t: float) -> float:
        """The value at a position: `at` of the array of it."""
        if self.log or self.n == 1:
            return float(self.at(np.array([t]))[0])
        return (self.low_n + float(min(max(math.floor(t * self.n), 0), self.n - 1)) * self.step_n) / self.scale

    def position(self, values: Array) -> Array:
        """Positions t of legal values: the inverse of `at`."""
        if self.n == 1:
            return np.full_like(values, 0.5)
        if not self.log:
            return (self.levels_near(values) + 0.5) / self.n
        return np.log(values / self.low) / math.log(self.high / self.low)

    def frame(self, low: float, high: float) -> tuple[float, float]:
        """The positions between which the levels from `low` to `high` lie."""
        if self.n == 1:
            return 0.0, 1.0
        if self.log:
            first, last = self.position(np.array([low, high], dtype=np.float64)).tolist()
            return first, last
        return self.index(low) / self.n, (self.index(high) + 1) / self.n


@dataclass(frozen=True, slots=True)
class Continuum:
    """Reals in [low, high], rounded to six digits (of the larger bound; of the value itself on a log scale), and to more where
    the range would have less than 10,000 values."""

    low: float
    high: float
    log: bool

    @property
    def n_levels(self) -> float:
        """Infinite, or 1 when the range is a single value."""
        return 1 if self.low == self.high else math.inf

    def _exponent(self, values: Array) -> Array:
        """Powers of ten to whose multiples `values` are rounded."""
        size = np.abs(values) if self.log else np.full_like(values, max(abs(self.low), abs(self.high)))
        first = np.floor(np.log10(np.maximum(size, _TINY)))
        width = min(max(self.high - self.low, _TINY), sys.float_info.max)
        finest = math.floor(math.log10(width)) - (_RANGE_DIGITS - 1)
        return np.asarray(np.minimum(first - (_DIGITS - 1), np.maximum(finest, first - (_EXACT_DIGITS - 1))))

    def snap(self, values: Array) -> Array:
        """The legal values nearest to `values`; idempotent."""
        values = values.clip(self.low, self.high)
        exponent = self._exponent(values)
        # Dividing by a power of ten that is exact keeps decimals such as 0.9 as they are written.
        up, down = 10.0 ** np.maximum(-exponent, 0), 10.0 ** np.maximum(exponent, 0)
        rounded = np.rint(values * up / down) * down / up
        rounded = rounded.clip(self.low, self.high)
        # An end that is no multiple of the quantum swallows what lies nearer to it than half a quantum.
        half = 0.500001 * 10.0**exponent
        rounded = np.where(rounded - self.low <= half, self.low, rounded)
        return np.where(self.high - rounded <= half, self.high, rounded)

    def nearest(self, value: float) -> float:
        """The legal value nearest to `value`."""
        return float(self.snap(np.array([value], dtype=np.float64))[0])

    def at(self, t: Array) -> Array:
        """Values at positions t."""
        if self.low == self.high:
            return np.full_like(t, self.low)
        if self.log:
            return self.snap(self.low * np.exp(t * math.log(self.high / self.low)))
        return self.snap(self.low + t * (self.high - self.low))

    def at_one(self, t: float) -> float:
        """The value at a position: `at` of the array of it."""
        return float(self.at(np.array([t]))[0])

    def position(self, values: Array) -> Array:
        """Positions t of legal values: the inverse of `at`."""
        if self.low == self.high:
            return np.full_like(values, 0.5)
        if self.log:
            return np.log(values / self.low) / math.log(self.high / self.low)
        return (values - self.low) / (self.high - self.low)

    def frame(self, low: float, high: float) -> tuple[float, float]:
        """The positions of two values."""
        first, last = self.position(np.array([low, high], dtype=np.float64)).tolist()
        return first, last


Range = Lattice | Continuum | Ladder


def _rounded(a: int, b: int) -> int:
    """The whole number nearest to a / b, b > 0; the even one of two."""
    k, rest = divmod(a, b)
    return k + (2 * rest > b or (2 * rest == b and k % 2 == 1))


@lru_cache(maxsize=4096)
def range_of(
    low: int | float,
    high: int | float,
    step: int | float | None,
    log: bool,
    is_integer: bool,
    is_round: bool = False,
    unit: str = "",
) -> Range:
    """The range of a numeric knob whose definition is legal (`Knob` checks it)."""
    rungs = round_values(low, high, unit=unit, step=step, log=log, is_integer=is_integer) if is_round else ()
    if rungs:
        return Ladder(rungs, log)
    if is_integer:
        distance = int(step or 1)
        return Lattice(int(low), distance, 1, (int(high) - int(low)) // distance + 1, log, True)
    if step is None:
        return Continuum(float(low), float(high), log)
    # repr gives the decimals as written: 0.1 is one tenth and not its nearest binary fraction.
    first, last, distance_exact = (Fraction(repr(float(x))) for x in (low, high, step))
    scale = math.lcm(first.denominator, distance_exact.denominator)
    n = int((last - first) / distance_exact) + 1
    return Lattice(int(first * scale), int(distance_exact * scale), scale, n, log, False)
