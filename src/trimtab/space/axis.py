"""One axis a knob: its legal values, their place in [0, 1], and their features for models.

Layout of an axis of numbers: the special values and the extra points (a default or running value outside the useful
range) own bins at the bottom, the regular range has the rest. A search that moves uniformly in the cube therefore
tries a special value in a fixed share of its points, however wide the range is (special-value biasing: Kanellis et
al., LlamaTune, VLDB 2022). Choices, ordinals and booleans have equal bins.

Inside, a value is a pair: `value` (float64; number of the label for labels) and `bin` (number of the point or
label, -1 for a value of the regular range).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import SpaceError
from trimtab.space.evaluate import Column
from trimtab.space.expression import Type
from trimtab.space.knob import Knob, KnobKind, Value
from trimtab.space.lattice import Ladder, Lattice
from trimtab.units import Dimension, format_duration, format_figure, format_size, unit_ratio

__all__ = ["Axis", "LabelAxis", "NumberAxis", "axis_of", "base_value", "format_base"]

Floats = NDArray[np.float64]
Bins = NDArray[np.int64]

POINT_WIDTH = 0.1
"""Width of a special value's bin, and ..."""
POINTS_WIDTH = 0.3
"""... the most that all of them take."""

MAX_LEVELS = 2**44
"""Most levels of a knob in a space: more could not be told apart within [0, 1] in double precision."""

_KIND_WORDS = {KnobKind.INTEGER: "a whole number", KnobKind.REAL: "a finite number", KnobKind.BOOLEAN: "true or false"}
_EXACT_FLOAT = 2**53
_MEMO = 100_000
"""Most pairs that an axis remembers."""
_FEW = 8
"""Fewer values are looked up one by one."""
REGULAR = -1


def base_value(knob: Knob, value: Value) -> float | str:
    """What a knob's name means in a constraint: bytes, seconds or a bare number; special values raw; booleans 1 and
    0."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or value in knob.special:
        return float(value)
    ratio, _ = unit_ratio(knob.unit)
    return value * ratio.numerator / ratio.denominator


def format_base(amount: float, dimension: Dimension) -> str:
    """A number in base units for messages."""
    if dimension is Dimension.SIZE:
        return format_size(amount)
    return format_duration(amount) if dimension is Dimension.DURATION else format_figure(amount, 6)


class Axis(ABC):
    """What number and label axes share. `extra` are legal values beyond those of the knob itself, of its own type."""

    def __init__(self, knob: Knob, extra: tuple[Value, ...]) -> None:
        self.knob = knob
        self.extra = extra
        self._memo: dict[tuple[type, Value], tuple[float, int]] = {}

    def find(self, value: Value) -> tuple[float, int]:
        """The pair of a legal value.

        Raises:
            SpaceError: wrong type, out of range, or off step.
        """
        key = (value.__class__, value)
        try:
            found = self._memo.get(key)
        except TypeError as error:
            raise self.illegal(value, f"is not {_KIND_WORDS.get(self.knob.kind, 'a text')}") from error
        if found is None:
            if len(self._memo) > _MEMO:
                self._memo.clear()
            found = self._memo[key] = self._find(self.own(value))
        return found

    def find_all(self, values: Sequence[Value]) -> tuple[Floats, Bins]:
        """The pairs of legal values.

        Raises:
            SpaceError: as `find`, for the first that is not legal.
        """
        pairs = [self.find(value) for value in values]
        return np.array([v for v, _ in pairs], dtype=np.float64), np.array([i for _, i in pairs], dtype=np.int64)

    def own(self, value: Value) -> Value:
        """`value` as the knob's own type.

        Raises:
            SpaceError: it is of another type.
        """
        own = self.knob.cast(value)
        if own is None:
            raise self.illegal(value, f"is not {_KIND_WORDS.get(self.knob.kind, 'a text')}")
        return own

    @abstractmethod
    def _find(self, value: Value) -> tuple[float, int]: ...

    @abstractmethod
    def decode_one(self, u: float) -> tuple[float, int]:
        """The pair at a position of the axis, exactly as `decode` of the array of it."""

    @abstractmethod
    def value_of(self, value: float, bin_: int) -> Value:
        """A pair as a value of the knob's own type, as `objects` of the arrays of it."""

    def illegal(self, value: object, why: str, *, shown: str = "") -> SpaceError:
        """The error for a value that this axis does not have; `shown` is how people write it."""
        hint = self.knob.legal() + "".join(f", or {self.knob.format(v)}" for v in self.extra)
        return SpaceError(f"{self.knob.name}={shown or repr(value)} {why}", hint=hint)


class LabelAxis(Axis):
    """A boolean, a choice or an ordinal: equal bins in the order of the labels, extra labels last."""

    def __init__(self, knob: Knob, extra: tuple[Value, ...]) -> None:
        super().__init__(knob, extra)
        self.labels: tuple[Value, ...] = (*knob.labels, *extra)
        self.share = 0.0 if knob.kind is KnobKind.ORDINAL else 1.0
        """Where the part of the axis begins in which nearness means something."""

    @property
    def n_values(self) -> float:
        """How many legal values there are."""
        return len(self.labels)

    @property
    def n_bins(self) -> int:
        """Bins before the part of the axis in which nearness means something."""
        return len(self.labels) if self.share > 0 else 0

    @property
    def type(self) -> Type:
        """Booleans are numbers in constraints, all others texts."""
        return Type(is_text=self.knob.kind is not KnobKind.BOOLEAN)

    def _find(self, value: Value) -> tuple[float, int]:
        if value not in self.labels:
            raise self.illegal(value, "is not a choice")
        index = self.labels.index(value)
        return float(index), index

    def decode(self, u: Floats) -> tuple[Floats, Bins]:
        """Pairs at positions u of the axis."""
        n = len(self.labels)
        bins = np.floor(u * n).clip(0, n - 1).astype(np.int64)
        return bins.astype(np.float64), bins

    def decode_one(self, u: float) -> tuple[float, int]:
        n = len(self.labels)
        index = min(max(math.floor(u * n), 0), n - 1)
        return float(index), index

    def value_of(self, value: float, bin_: int) -> Value:
        return self.labels[bin_]

    def encode(self, values: Floats, bins: Bins) -> Floats:
        """Positions of pairs: the centres of their bins."""
        return (bins + 0.5) / len(self.labels)

    def objects(self, values: Floats, bins: Bins) -> list[Value]:
        """Pairs as values."""
        return [self.labels[i] for i in bins.tolist()]

    def base(self, values: Floats, bins: Bins) -> Column:
        """Pairs as a constraint sees them."""
        return values if self.knob.kind is KnobKind.BOOLEAN else np.array(self.labels, dtype=np.str_)[bins]

    @property
    def n_features(self) -> int:
        """Columns of `features`."""
        return len(self.labels) if self.knob.kind is KnobKind.CHOICE else 1

    def features(self, values: Floats, bins: Bins) -> Floats:
        """One column a choice (one-hot); a single column from 0 to 1 for booleans and ordinals."""
        n = len(self.labels)
        if self.knob.kind is KnobKind.CHOICE:
            return np.asarray((bins[:, None] == np.arange(n)).astype(np.float64))
        return (bins / max(1, n - 1))[:, None]

    def levels(self, limit: int) -> Floats:
        """Positions of at most `limit` values, spread evenly over all."""
        n = len(self.labels)
        return np.asarray((np.rint(np.linspace(0, n - 1, min(limit, n))) + 0.5) / n)


class NumberAxis(Axis):
    """An integer or a real: bins for special values and extra points, then the regular range."""

    def __init__(self, knob: Knob, extra: tuple[Value, ...]) -> None:
        super().__init__(knob, extra)
        numbers = [v for v in extra if not isinstance(v, str)]
        self.points: tuple[int | float, ...] = tuple(sorted({*knob.special, *numbers}))
        self.regular = knob.range
        self._check()
        n = len(self.points)
        self.share = min(POINT_WIDTH * n, POINTS_WIDTH)
        """Where the regular range starts."""
        self._point_values = np.array([*self.points, math.nan], dtype=np.float64)
        ratio, dimension = unit_ratio(knob.unit)
        self._ratio = ratio
        self.type = Type(dimension=dimension)
        self._flags = tuple(i for i, v in enumerate(self.points) if v in knob.special or not self._is_inside(v))

    def _check(self) -> None:
        knob = self.knob
        if isinstance(self.regular, Lattice) and self.regular.n > MAX_LEVELS:
            raise SpaceError(
                f"knob {knob.name}: {self.regular.n} values are too many to be searched",
                hint="give a step, or narrow low and high",
            )
        numbers = (knob.low or 0, knob.high or 0, knob.step or 0, *self.points)
        if knob.kind is KnobKind.INTEGER and max(map(abs, numbers)) > _EXACT_FLOAT:
            raise SpaceError(f"knob {knob.name}: values beyond 2^53 cannot be searched", hint="give a coarser unit")
        low, high = self.regular.low, self.regular.high
        if not math.isfinite(high / low if self.regular.log else high - low):
            raise SpaceError(f"knob {knob.name}: the range {low} to {high} is too wide", hint="narrow it")

    def _is_inside(self, value: float) -> bool:
        return self.regular.low <= value <= self.regular.high

    @property
    def n_values(self) -> float:
        """How many legal values there are; infinite for a continuum."""
        return self.regular.n_levels + len(self.points)

    @property
    def n_bins(self) -> int:
        """Bins before the part of the axis in which nearness means something."""
        return len(self.points)

    def _refused(self, value: int | float, why: str) -> SpaceError:
        """With its unit: "900GB (117964800 in 8kB)"."""
        unit, text = self.knob.unit, self.knob.format(value)
        return self.illegal(value, why, shown=f"{text} ({value} in {unit})" if unit and text != str(value) else "")

    def _find(self, value: Value) -> tuple[float, int]:
        if isinstance(value, str):
            raise self.illegal(value, "is not a number")
        if value in self.points:
            return float(value), self.points.index(value)
        low, high = self.knob.range.low, self.knob.range.high
        if not (self.knob.low or 0) <= value <= (self.knob.high or 0):
            raise self._refused(value, "is out of range")
        if not self.knob.contains(value):
            near = self.knob.format(self.knob.clip(min(max(value, low), high)))
            if isinstance(self.regular, Ladder):
                raise self._refused(value, f"is not one of the round values that are tried (nearest: {near})")
            raise self._refused(value, f"is off the step={self.knob.step or 1} (nearest: {near})")
        return float(self.regular.nearest(value)), REGULAR

    def find_all(self, values: Sequence[Value]) -> tuple[Floats, Bins]:
        """The pairs of legal values.

        Raises:
            SpaceError: as `find`, for the first that is not legal.
        """
        wanted = int if self.knob.kind is KnobKind.INTEGER else float
        if len(values) < _FEW or any(type(value) is not wanted for value in values):
            return super().find_all(values)
        try:
            numbers = np.array(values, dtype=np.float64)
        except OverflowError:
            return super().find_all(values)
        near = self.regular.snap(np.clip(numbers, self.regular.low, self.regular.high))
        bins = np.full(numbers.shape, REGULAR, dtype=np.int64)
        for i, point in enumerate(self.points):
            bins[numbers == point] = i
        is_point = bins != REGULAR
        close = (numbers >= self.regular.low) & (numbers <= self.regular.high)
        close &= np.isclose(numbers, near, rtol=1e-11, atol=0.0)
        if not (is_point | close).all():
            return super().find_all(values)
        return np.where(is_point, numbers, near), bins

    def decode(self, u: Floats) -> tuple[Floats, Bins]:
        """Pairs at positions u of the axis."""
        t = ((u - self.share) / (1.0 - self.share)).clip(0.0, 1.0)
        values = self.regular.at(t)
        if not self.points:
            return values, np.full(u.shape, REGULAR, dtype=np.int64)
        n = len(self.points)
        bins = np.minimum(np.floor(u / self.share * n), n - 1).astype(np.int64)
        bins = np.where(u < self.share, bins, REGULAR)
        return np.where(bins == REGULAR, values, self._point_values[bins]), bins

    def decode_one(self, u: float) -> tuple[float, int]:
        if self.points and u < self.share:
            n = len(self.points)
            index = min(math.floor(u / self.share * n), n - 1)
            return float(self.points[index]), index
        t = min(max((u - self.share) / (1.0 - self.share), 0.0), 1.0)
        return self.regular.at_one(t), REGULAR

    def value_of(self, value: float, bin_: int) -> Value:
        if self.points and bin_ != REGULAR:
            return self.points[bin_]
        return int(value) if self.knob.kind is KnobKind.INTEGER else value

    def encode(self, values: Floats, bins: Bins) -> Floats:
        """Positions of pairs: points at the centres of their bins."""
        is_regular = bins == REGULAR
        t = self.regular.position(np.where(is_regular, values, self.regular.low))
        # Never below the start of the range, where the bin of the last point begins.
        u = (self.share + (1.0 - self.share) * t).clip(self.share, 1.0)
        if not self.points:
            return u
        return np.where(is_regular, u, (bins + 0.5) * (self.share / len(self.points)))

    def frame(self, low: float, high: float) -> tuple[float, float]:
        """The positions between which the levels from `low` to `high` lie."""
        first, last = self.regular.frame(low, high)
        return self.share + (1.0 - self.share) * first, self.share + (1.0 - self.share) * last

    def objects(self, values: Floats, bins: Bins) -> list[Value]:
        """Pairs as values of the knob's own type."""
        numbers: Iterable[Value] = values.tolist()
        if self.knob.kind is KnobKind.INTEGER:
            numbers = [int(v) for v in values.tolist()]
        if not self.points:
            return list(numbers)
        return [v if i == REGULAR else self.points[i] for v, i in zip(numbers, bins.tolist(), strict=True)]

    def base(self, values: Floats, bins: Bins) -> Floats:
        """Pairs as a constraint sees them: in base units, special values raw."""
        scaled = values * self._ratio.numerator / self._ratio.denominator
        for i, point in enumerate(self.points):
            if point in self.knob.special:
                scaled = np.where(bins == i, values, scaled)
        return np.asarray(scaled)

    @property
    def n_features(self) -> int:
        """Columns of `features`."""
        return 1 + len(self._flags)

    def features(self, values: Floats, bins: Bins) -> Floats:
        """The place in the regular range from 0 to 1 (0.5 while special, clipped when outside), then one indicator
        a point.

        Extra points inside the range have no indicator: their number says all.
        """
        inside = values.clip(self.regular.low, self.regular.high)
        special = [i for i, point in enumerate(self.points) if point in self.knob.special]
        place = np.where(np.isin(bins, special), 0.5, self._place(inside)) if special else self._place(inside)
        if not self._flags:
            return place[:, None]
        return np.column_stack([place, bins[:, None] == np.array(self._flags)]).astype(np.float64)

    def _place(self, values: Floats) -> Floats:
        low, high = self.regular.low, self.regular.high
        if low == high:
            return np.full_like(values, 0.5)
        if self.regular.log:
            return np.asarray(np.log(values / low) / math.log(high / low))
        return np.asarray((values - low) / (high - low))

    def levels(self, limit: int) -> Floats:
        """Positions of all values, or of about `limit` values: all points and evenly spaced levels of the range."""
        n_points = len(self.points)
        points = (np.arange(n_points) + 0.5) * (self.share / max(1, n_points))
        n = max(1, limit - n_points)
        if isinstance(self.regular, Lattice | Ladder) and self.regular.n_levels <= n:
            values = self.regular.values(np.arange(self.regular.n_levels, dtype=np.float64))
        else:
            values = self.regular.at(np.linspace(0.0, 1.0, n) if n > 1 else np.array([0.5]))
        bins = np.full(values.shape, REGULAR, dtype=np.int64)
        return np.concatenate([points, self.encode(np.unique(values), bins[: len(np.unique(values))])])


def axis_of(knob: Knob, also_legal: Iterable[Value] = ()) -> NumberAxis | LabelAxis:
    """The axis of a knob; its default and `also_legal` become extra points where the knob itself does not have them.

    Raises:
        SpaceError: an extra value of the wrong type, or a range too wide to be searched.
    """
    axis = NumberAxis(knob, ()) if knob.is_numeric else LabelAxis(knob, ())
    extra: list[Value] = []
    for value in (knob.default, *also_legal):
        own = axis.own(value)
        if own not in extra and not _is_on(knob, own):
            extra.append(own)
    if not extra:
        return axis
    return NumberAxis(knob, tuple(extra)) if knob.is_numeric else LabelAxis(knob, tuple(extra))


def _is_on(knob: Knob, value: Value) -> bool:
    """Whether the knob itself has exactly this value (a continuum holds few digits)."""
    if not knob.contains(value):
        return False
    return isinstance(value, (str, bool)) or knob.clip(value) == value
