"""Values that a person would write, and the range made of them: 384MB, 15min, 0.005; never 410808kB or 0.00527393.

sizes        1, 1.25, 1.5, 1.75 times a power of two
durations    1, 2, 5, 10, 20, 50, ... ms; 1, 2, 5, 10, 15, 20, 30 s and min; 1, 2, 3, 6, 12 h; 1, 2, 5, 7 d
numbers      logarithmic: 1, 2, 3, 5, 10, ... and powers of two; reals 1, 1.5, 2, 3, 5, 7, 10, ..., closer where the range
             spans less than a hundredfold. Linear: multiples of 1, 2 or 5 times a power of ten, some two dozen of them
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from trimtab.units import Dimension, unit_ratio

__all__ = ["Ladder", "round_values"]

Array = NDArray[np.float64]

_FEW = 16
"""A range of so few values is left as it is."""

_LINEAR = 25
"""Values of a linear range, about."""

_SIZES = (Fraction(1), Fraction(5, 4), Fraction(3, 2), Fraction(7, 4))
_SECONDS = (1, 2, 5, 10, 15, 20, 30)
_HOURS = (1, 2, 3, 6, 12)
_DAYS = (1, 2, 5, 7, 10, 20, 30)
_WHOLE = tuple(map(Fraction, (1, 2, 3, 5)))
_REALS = tuple(Fraction(x) for x in ("1", "1.5", "2", "3", "5", "7"))
_CLOSE_REALS = tuple(
    Fraction(x) for x in ("1", "1.1", "1.2", "1.5", "1.75", "2", "2.5", "3", "3.5", "4", "5", "6", "7", "8")
)
_CLOSE = 100
"""A range that spans less than this factor has the closer reals."""


@dataclass(frozen=True)
class Ladder:
    """The values `rungs` (ascending, at least two), each with an equal share of the axis."""

    rungs: tuple[int | float, ...]
    log: bool

    @cached_property
    def _array(self) -> Array:
        return np.array(self.rungs, dtype=np.float64)

    @property
    def low(self) -> int | float:
        """The lowest value."""
        return self.rungs[0]

    @property
    def high(self) -> int | float:
        """The highest value."""
        return self.rungs[-1]

    @property
    def n_levels(self) -> float:
        """How many values there are."""
        return len(self.rungs)

    def index(self, values: Array) -> NDArray[np.int64]:
        """Numbers of the rungs nearest to `values`, by ratio on a log scale; the lower one of two equally near."""
        scaled, rungs = values, self._array
        if self.log:
            scaled, rungs = np.log(np.maximum(values, self.low / 2)), np.log(rungs)
        return np.searchsorted((rungs[1:] + rungs[:-1]) / 2, scaled, side="left").astype(np.int64)

    def nearest(self, value: float) -> int | float:
        """The rung nearest to a finite `value`."""
        return self.rungs[int(self.index(np.array([float(value)]))[0])]

    def values(self, k: Array) -> Array:
        """The rungs of numbers `k`."""
        return np.asarray(self._array[k.astype(np.int64)])

    def snap(self, values: Array) -> Array:
        """The rungs nearest to `values`."""
        return np.asarray(self._array[self.index(values)])

    def at(self, t: Array) -> Array:
        """Values at positions t."""
        n = len(self.rungs)
        return np.asarray(self._array[np.clip(np.floor(t * n), 0, n - 1).astype(np.int64)])

    def at_one(self, t: float) -> float:
        """The value at a position: `at` of the array of it."""
        n = len(self.rungs)
        return float(self.rungs[min(max(math.floor(t * n), 0), n - 1)])

    def position(self, values: Array) -> Array:
        """Positions t of rungs: the inverse of `at`."""
        return (self.index(values) + 0.5) / len(self.rungs)

    def frame(self, low: float, high: float) -> tuple[float, float]:
        """The positions between which the rungs from `low` to `high` lie."""
        first, last = self.index(np.array([low, high], dtype=np.float64)).tolist()
        return first / len(self.rungs), (last + 1) / len(self.rungs)


def round_values(
    low: int | float, high: int | float, *, unit: str, step: int | float | None, log: bool, is_integer: bool
) -> tuple[int | float, ...]:
    """The values from `low` to `high`, counted in `unit`, that a person would write; empty where they are too few to search.

    An end is among them when it is such a value itself, or has at most two digits and a unit. All are whole steps from
    `low` where there is a `step`, and whole for integers.
    """
    first, last = Fraction(repr(low)), Fraction(repr(high))
    if last <= first or (is_integer and (last - first) / Fraction(repr(step or 1)) < _FEW):
        return ()
    ratio, dimension = unit_ratio(unit)
    found = {
        amount / ratio for amount in _amounts(first * ratio, last * ratio, dimension, log=log, is_integer=is_integer)
    }
    found |= {end for end in (first, last) if _is_short(end * ratio, dimension)}
    kept = sorted(value for value in found if _is_legal(value, first, step, is_integer=is_integer))
    return tuple(int(value) if is_integer else float(value) for value in kept) if len(kept) >= 2 else ()


def _is_legal(value: Fraction, first: Fraction, step: int | float | None, *, is_integer: bool) -> bool:
    if is_integer and value.denominator != 1:
        return False
    return step is None or ((value - first) / Fraction(repr(step))).denominator == 1


def _amounts(low: Fraction, high: Fraction, dimension: Dimension, *, log: bool, is_integer: bool) -> Iterator[Fraction]:
    """Round amounts in base units between two."""
    if dimension is Dimension.SIZE:
        ladder: Iterator[Fraction] = _scaled(_SIZES, 2, low, high)
    elif dimension is Dimension.DURATION:
        ladder = _durations(low, high)
    elif not log:
        ladder = _multiples(low, high)
    elif is_integer:
        ladder = iter({*_scaled(_WHOLE, 10, low, high), *_scaled(_SIZES[:1], 2, low, high)})
    else:
        ladder = _scaled(_CLOSE_REALS if high < _CLOSE * low else _REALS, 10, low, high)
    return (amount for amount in ladder if low <= amount <= high)


def _scaled(mantissas: Sequence[Fraction], base: int, low: Fraction, high: Fraction) -> Iterator[Fraction]:
    """mantissa * base^k around the range from `low`, or from a billionth of `high` when that is lower."""
    least = max(low, high / 10**9)
    if least <= 0:
        return
    for k in range(math.floor(math.log(least, base)) - 1, math.ceil(math.log(high, base)) + 1):
        for mantissa in mantissas:
            yield mantissa * Fraction(base) ** k


def _durations(low: Fraction, high: Fraction) -> Iterator[Fraction]:
    yield from (x for x in _scaled(tuple(map(Fraction, (1, 2, 5))), 10, low, high) if x < 1)
    yield from map(Fraction, _SECONDS)
    yield from (Fraction(60 * x) for x in _SECONDS)
    yield from (Fraction(3600 * x) for x in _HOURS)
    yield from (Fraction(86400 * x) for x in _DAYS)


def _multiples(low: Fraction, high: Fraction) -> Iterator[Fraction]:
    """Multiples of the round distance that gives about `_LINEAR` of them."""
    wanted = float(high - low) / _LINEAR
    size = Fraction(10) ** math.floor(math.log10(wanted))
    distance = min((m * size for m in (1, 2, 5, 10)), key=lambda each: abs(math.log(float(each) / wanted)))
    return (k * distance for k in range(math.ceil(low / distance), math.floor(high / distance) + 1))


def _is_short(amount: Fraction, dimension: Dimension) -> bool:
    """Whether an end of a range is one that somebody has written: two digits, of sizes before a unit."""
    if dimension is Dimension.SIZE:
        power = max(0, (max(1, math.floor(amount)).bit_length() - 1) // 10)
        amount = amount / Fraction(1024) ** power
        if amount > 999:
            return False
    digits = f"{float(amount):.12g}".partition("e")[0].replace(".", "").replace("-", "").strip("0")
    return len(digits) <= 2
