"""Axes of a plot: from the values of a figure to pixels, with ticks that people read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trimtab.units import format_figure

__all__ = ["Axis", "make_axis"]

_TICKS = 6
_LARGEST = 1e300
"""What is larger has no place on an axis: the difference of two such numbers may be infinite."""

_MARGIN = 0.05
"""Share of the range that is left free on each side of the data."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis.

    Attributes:
        low, high: the ends, on its scale: logarithms to base 10 of a logarithmic one, places of categories (0, 1, ...).
        first_px, last_px: where they lie.
        is_log: of the values.
        categories: in order; empty for numbers.
        ticks: (place on the scale, text).
        title: of the axis.
        has_grid: whether lines go through the ticks.
    """

    low: float
    high: float
    first_px: float
    last_px: float
    is_log: bool
    categories: tuple[str, ...]
    ticks: tuple[tuple[float, str], ...]
    title: str
    has_grid: bool

    def place(self, value: Any) -> float:
        """`value` on the axis' scale; NaN for what has no place there."""
        if self.categories:
            return float(self.categories.index(str(value))) if str(value) in self.categories else math.nan
        number = float(value)
        if self.is_log:
            return math.log10(number) if number > 0 else math.nan
        return number

    def pixel(self, place: float) -> float:
        """Where a place on the scale lies."""
        return self.first_px + (place - self.low) / (self.high - self.low) * (self.last_px - self.first_px)

    def at(self, value: Any) -> float:
        """Where a value lies, in pixels."""
        return self.pixel(self.place(value))


def make_axis(
    described: Mapping[str, Any], values: Iterable[Any], ends_px: tuple[float, float], *, is_filled: bool
) -> Axis:
    """The axis that a figure's layout describes, wide enough for `values`.

    Args:
        described: the keys `type`, `range`, `rangemode`, `tickvals`, `ticktext`, `categoryarray`, `nticks`, `tickformat`,
            `title` and `showgrid` of a layout's axis.
        values: all that is drawn along it, the ends of error bars too.
        ends_px: where it begins and ends.
        is_filled: whether marks fill their category (bars, cells).
    """
    found = list(values)
    names = tuple(dict.fromkeys([*described.get("categoryarray", ()), *(v for v in found if isinstance(v, str))]))
    is_log = described.get("type") == "log"
    if names:
        low, high = described.get("range") or (-0.5, len(names) - 0.5)
        ticks = [(float(i), name) for i, name in enumerate(names)]
    else:
        low, high = _ends(described, [float(value) for value in found], is_log, is_filled)
        ticks = _ticks(described, low, high, is_log)
    title = described.get("title", {}).get("text", "")
    return Axis(low, high, *ends_px, is_log, names, tuple(ticks), title, bool(described.get("showgrid", True)))


def _ends(described: Mapping[str, Any], values: Sequence[float], is_log: bool, is_filled: bool) -> tuple[float, float]:
    if "range" in described:
        low, high = described["range"]
        return float(low), float(high)
    known = (value for value in values if abs(value) <= _LARGEST and (value > 0 or not is_log))
    scaled = [math.log10(value) if is_log else value for value in known] or [0.0, 1.0]
    low, high = min(scaled), max(scaled)
    from_zero = not is_log and (described.get("rangemode") == "tozero" or is_filled) and low >= 0
    if from_zero:
        low = 0.0
    room = (high - low or abs(high) or 1.0) * _MARGIN
    return (low if from_zero else low - room), high + room


def _ticks(described: Mapping[str, Any], low: float, high: float, is_log: bool) -> list[tuple[float, str]]:
    if "tickvals" in described:
        pairs = zip(described["tickvals"], described["ticktext"], strict=True)
        return [(math.log10(value) if is_log else float(value), str(text)) for value, text in pairs]
    rough = (high - low) / min(_TICKS, described.get("nticks", _TICKS))
    scale = 10.0 ** math.floor(math.log10(rough))
    step = next(scale * mantissa for mantissa in (1, 2, 5, 10) if scale * mantissa >= rough * 0.999)
    if described.get("tickformat") == "d":
        step = max(1.0, step)
    marks = [step * i for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
    return [(mark, format_figure(mark, 6)) for mark in marks]
