"""Domain: what is left of an axis while constraints cut parts of it away, in exact numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from trimtab.space.axis import LabelAxis, NumberAxis
from trimtab.space.interval import Interval, Possible
from trimtab.space.lattice import Lattice
from trimtab.units import unit_ratio

__all__ = ["PARTS", "Domain", "domain_of"]

PARTS = 2**40
"""Into how many levels a continuum is divided here."""


@dataclass(slots=True)
class Domain:
    """Levels low .. high of the regular range (none when low > high), and the points or labels `bins`.

    Level k is the number origin + k * stride, in base units.
    """

    axis: NumberAxis | LabelAxis
    low: int
    high: int
    bins: list[int]
    origin: Fraction = Fraction(0)
    stride: Fraction = Fraction(1)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left."""
        return self.low > self.high and not self.bins

    @property
    def has_levels(self) -> bool:
        """Whether any of the regular range is left."""
        return self.low <= self.high

    @property
    def is_continuum(self) -> bool:
        """Whether levels are only parts of a continuum; a range of one value is none."""
        axis = self.axis
        return isinstance(axis, NumberAxis) and not isinstance(axis.regular, Lattice) and axis.regular.n_levels > 1

    def exact(self, number: int) -> Fraction:
        """A point or a boolean, in base units."""
        if isinstance(self.axis, LabelAxis):
            return Fraction(number)
        value = self.axis.points[number]
        ratio = 1 if value in self.axis.knob.special else unit_ratio(self.axis.knob.unit)[0]
        return Fraction(repr(value)) * ratio

    def least(self, factor: Fraction) -> Fraction:
        """The least of factor * x over the domain, which is not empty."""
        ends = [self.origin + k * self.stride for k in (self.low, self.high)] if self.has_levels else []
        return min(factor * x for x in [*ends, *(self.exact(i) for i in self.bins)])

    def cut(self, factor: Fraction, limit: Fraction, is_strict: bool) -> bool:
        """Drops every x with factor * x > limit (>= when strict); returns whether anything was dropped."""
        before = (self.low, self.high, len(self.bins))
        self.bins = [i for i in self.bins if _is_met(factor * self.exact(i), limit, is_strict)]
        if self.has_levels:
            edge = (limit / factor - self.origin) / self.stride
            # The part of a continuum in which the edge lies stays.
            is_strict = is_strict and not self.is_continuum
            if factor > 0:
                last = math.ceil(edge) if self.is_continuum else math.floor(edge)
                self.high = min(self.high, last - 1 if is_strict and last == edge else last)
            else:
                first = math.floor(edge) if self.is_continuum else math.ceil(edge)
                self.low = max(self.low, first + 1 if is_strict and first == edge else first)
        return before != (self.low, self.high, len(self.bins))

    def _seen(self, values: Sequence[float], bins: Sequence[int]) -> Possible:
        column = self.axis.base(np.array(values, dtype=np.float64), np.array(bins, dtype=np.int64))
        if column.dtype.kind == "U":
            return frozenset(str(text) for text in np.asarray(column).tolist())
        return Interval(float(column.min()), float(column.max()))

    def of_bins(self, bins: Sequence[int]) -> Possible:
        """What points or labels are in constraints."""
        points = self.axis.points if isinstance(self.axis, NumberAxis) else range(len(self.axis.labels))
        return self._seen([float(points[i]) for i in bins], bins)

    def of_levels(self, low: int, high: int) -> Interval:
        """What a part of the regular range is in constraints."""
        return Interval(float(self.origin + low * self.stride), float(self.origin + high * self.stride))

    def whole(self) -> Possible:
        """What the domain, which is not empty, is in constraints."""
        if not self.has_levels:
            return self.of_bins(self.bins)
        regular = self.of_levels(self.low, self.high)
        points = self.of_bins(self.bins) if self.bins else regular
        if not isinstance(points, Interval):
            return regular
        return Interval(min(regular.low, points.low), max(regular.high, points.high))

    def shave(self, is_possible: Callable[[Possible], bool]) -> bool:
        """Drops what is not possible; returns whether anything was. What is possible of a part is so of the whole."""
        before = (self.low, self.high, len(self.bins))
        self.bins = [i for i in self.bins if is_possible(self.of_bins([i]))]
        if self.has_levels:
            if not is_possible(self.of_levels(self.low, self.high)):
                self.low, self.high = 0, -1
            else:
                # Of a continuum the part that ends, or begins, at the level found stays.
                lowest, highest, rest = self.low, self.high, int(self.is_continuum)
                first = _least(lowest, highest, lambda k: is_possible(self.of_levels(lowest, k)))
                self.low = max(lowest, first - rest)
                last = -_least(-highest, -self.low, lambda k: is_possible(self.of_levels(-k, highest)))
                self.high = min(highest, last + rest)
        return before != (self.low, self.high, len(self.bins))

    def value_of_level(self, level: float) -> int | float:
        """A level as a value of the knob; that of a continuum is rounded to it."""
        regular = self.axis.knob.range
        if isinstance(regular, Lattice):
            return regular.level(int(level))
        return regular.nearest(regular.low + (regular.high - regular.low) * (level / PARTS))


def _is_met(left: Fraction, right: Fraction, is_strict: bool) -> bool:
    return left < right if is_strict else left <= right


def _least(low: int, high: int, is_possible: Callable[[int], bool]) -> int:
    """The least k in low .. high for which `is_possible` holds: for `high` it does, and for all above one for which it does."""
    if is_possible(low):  # mostly: a budget cuts nothing off at the low end, and a second round nothing anywhere
        return low
    while low < high:
        middle = (low + high) // 2
        if is_possible(middle):
            high = middle
        else:
            low = middle + 1
    return low


def domain_of(axis: NumberAxis | LabelAxis) -> Domain:
    """The whole of an axis."""
    if isinstance(axis, LabelAxis):
        return Domain(axis, 0, -1, list(range(len(axis.labels))))
    ratio, _ = unit_ratio(axis.knob.unit)
    bins, regular = list(range(len(axis.points))), axis.regular
    if isinstance(regular, Lattice):
        stride = Fraction(regular.step_n, regular.scale) * ratio
        return Domain(axis, 0, regular.n - 1, bins, Fraction(regular.low_n, regular.scale) * ratio, stride)
    low, high = Fraction(repr(regular.low)), Fraction(repr(regular.high))
    if low == high:
        return Domain(axis, 0, 0, bins, low * ratio)
    return Domain(axis, 0, PARTS, bins, low * ratio, (high - low) * ratio / PARTS)
