"""Knob: one configuration parameter of a target, as a frozen value."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from enum import StrEnum

from trimtab.errors import SpaceError, UsageError
from trimtab.space.lattice import Continuum, Lattice, Range, range_of
from trimtab.units import format_value, parse_value, unit_ratio

__all__ = ["Knob", "KnobKind", "RestartClass", "SafetyClass", "Value"]


Value = bool | int | float | str
"""What a knob can hold. Integers and reals are counted in the knob's own unit (`Knob.unit`)."""


class KnobKind(StrEnum):
    """The type of a knob's values."""

    INTEGER = "integer"
    REAL = "real"
    BOOLEAN = "boolean"
    CHOICE = "choice"
    """One of `choices`, without order."""
    ORDINAL = "ordinal"
    """One of `choices`, in the order given."""


class RestartClass(StrEnum):
    """What it takes for a new value to become effective, cheapest first."""

    RELOAD = "reload"
    RESTART = "restart"
    REBOOT = "reboot"


class SafetyClass(StrEnum):
    """What a knob can endanger; every class but `PERFORMANCE` is locked unless the user opens it (DESIGN law 6)."""

    PERFORMANCE = "performance"
    DURABILITY = "durability"
    DATA_LOSS = "data_loss"
    SECURITY = "security"
    SEMANTICS = "semantics"
    REPLICATION = "replication"
    FORBIDDEN = "forbidden"
    """Runs code, writes files, locks users out or is fixed at initialisation: never opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """One configuration parameter.

    Attributes:
        name: the target's own name of the knob; unique within a space.
        kind: type of its values.
        low, high: inclusive bounds of the *useful* range, in `unit` (integer and real only, else None).
        step: distance between legal values, counted from `low` (integer and real only; None: 1 for integers, continuous
            for reals).
        log: whether the useful range is searched on a logarithmic scale (needs `low > 0`).
        is_round: only those values of the useful range are legal that a person would write (`trimtab.space.round_values`),
            where they are enough to search.
        unit: what one step of 1 means: a size ("B", "kB", "8kB", "MB", "16MB", ...), a duration ("us", "ms", "s",
        "min")
            or "" for a bare number.
        choices: legal values of a choice or an ordinal.
        special: legal values outside `[low, high]` with a meaning of their own (0, -1), integer and real only.
        default: the target's built-in (boot) value; may lie outside the useful range.
        restart: what makes a change effective.
        safety: what it can endanger.
        condition: expression over other knobs (see `trimtab.space.Constraint`); while it is false the knob has no
        effect
            and holds its default. None: always active.
        doc: one line on what it does.
    """

    name: str
    kind: KnobKind
    low: int | float | None = None
    high: int | float | None = None
    step: int | float | None = None
    log: bool = False
    is_round: bool = False
    unit: str = ""
    choices: tuple[str, ...] = ()
    special: tuple[int | float, ...] = ()
    default: Value
    restart: RestartClass = RestartClass.RELOAD
    safety: SafetyClass = SafetyClass.PERFORMANCE
    condition: str | None = None
    doc: str = ""

    def __post_init__(self) -> None:
        """Brings lists to tuples and reals to floats, and checks the definition.

        Raises:
            SpaceError: the definition contradicts itself.
        """
        if self.name.split() != [self.name] or "`" in self.name:
            raise SpaceError(f"knob name={self.name!r} is not a word", hint="give a name without spaces and backquotes")
        put = object.__setattr__
        for field_name, kind in (("kind", KnobKind), ("restart", RestartClass), ("safety", SafetyClass)):
            put(self, field_name, self._member(field_name, kind))
        put(self, "choices", tuple(self.choices))
        put(self, "special", tuple(self.special))
        try:
            unit_ratio(self.unit)
        except UsageError as error:
            raise self._fault(f"unit={self.unit!r}", error.hint or "") from error
        if not self.is_numeric:
            self._check_labels()
            return
        for field_name in ("low", "high", "step"):
            value = getattr(self, field_name)
            if value is None and field_name != "step":
                raise self._fault(f"{field_name}=None", "a numeric knob needs low and high")
            if value is not None:
                put(self, field_name, self._number(value, field_name))
        put(self, "special", tuple(self._number(value, "special") for value in self.special))
        put(self, "default", self._number(self.default, "default"))
        self._check_range()

    def _member(self, field_name: str, kind: type[StrEnum]) -> StrEnum:
        value = getattr(self, field_name)
        if isinstance(value, kind):
            return value
        try:
            return kind(value)
        except ValueError as error:
            raise SpaceError(
                f"knob {self.name}: {field_name}={value!r} is unknown", hint=f"use one of: {', '.join(kind)}"
            ) from error

    def _fault(self, what: str, hint: str) -> SpaceError:
        return SpaceError(f"knob {self.name}: {what} is not legal for kind={self.kind.value}", hint=hint)

    def _number(self, value: object, field_name: str) -> int | float:
        """`value` as a number of this knob's kind."""
        number = _as_number(value, self.kind)
        if number is None:
            wanted = "whole numbers" if self.kind is KnobKind.INTEGER else "finite numbers"
            raise self._fault(f"{field_name}={value!r}", f"its values are {wanted}, counted in unit={self.unit!r}")
        return number

    def _check_labels(self) -> None:
        for field_name in ("low", "high", "step"):
            if getattr(self, field_name) is not None:
                raise self._fault(f"{field_name}={getattr(self, field_name)!r}", "only integers and reals have ranges")
        if self.special or self.log or self.unit:
            raise self._fault(
                f"special={self.special!r} log={self.log} unit={self.unit!r}",
                "only integers and reals have special values, a log scale and a unit",
            )
        if self.kind is KnobKind.BOOLEAN:
            if self.choices:
                raise self._fault(f"choices={self.choices!r}", "a boolean is true or false")
            if not isinstance(self.default, bool):
                raise self._fault(f"default={self.default!r}", "a boolean is true or false")
            return
        if not self.choices or len(set(self.choices)) < len(self.choices):
            raise self._fault(f"choices={self.choices!r}", "name at least one choice, and each only once")
        if not all(isinstance(choice, str) for choice in (*self.choices, self.default)):
            raise self._fault(f"choices={self.choices!r} default={self.default!r}", "choices are texts")

    def _check_range(self) -> None:
        low, high = self._ends()
        if self.choices:
            raise self._fault(f"choices={self.choices!r}", "numbers have a range, not choices")
        if low > high:
            raise self._fault(f"low={low} above high={high}", "swap them, or see what they are computed from")
        if self.step is not None and self.step <= 0:
            raise self._fault(f"step={self.step}", "a step is above zero")
        if self.log and low <= 0:
            raise self._fault(
                f"log=True with low={low}", "a log scale needs low > 0; list 0 under special if it is legal"
            )
        if len(set(self.special)) < len(self.special):
            raise self._fault(f"special={self.special!r}", "name each special value once")
        for value in self.special:
            if low <= value <= high:
                raise self._fault(
                    f"special={value} inside low={low} high={high}",
                    "special values lie outside the range: narrow the range or drop the special value",
                )
        regular = self.range
        if isinstance(regular, Lattice) and self.kind is not KnobKind.INTEGER:
            largest = max(abs(regular.low_n), abs(regular.low_n + regular.n * regular.step_n))
            if largest >= _EXACT_FLOAT or regular.scale >= _EXACT_FLOAT:
                raise self._fault(f"step={self.step} with low={low} high={high}", "write them with fewer digits")

    def _ends(self) -> tuple[int | float, int | float]:
        if self.low is None or self.high is None:
            raise self._fault(f"low={self.low} high={self.high}", "only integers and reals have a range")
        return self.low, self.high

    @property
    def is_numeric(self) -> bool:
        """Whether values are integers or reals."""
        return self.kind in (KnobKind.INTEGER, KnobKind.REAL)

    @property
    def is_text(self) -> bool:
        """Whether values are texts."""
        return self.kind in (KnobKind.CHOICE, KnobKind.ORDINAL)

    @property
    def range(self) -> Range:
        """The useful range with its steps; of integers and reals only.

        Raises:
            SpaceError: the knob is not numeric.
        """
        low, high = self._ends()
        return range_of(low, high, self.step, self.log, self.kind is KnobKind.INTEGER, self.is_round, self.unit)

    @property
    def labels(self) -> tuple[bool | str, ...]:
        """The values of a boolean, a choice or an ordinal; empty for numbers."""
        return (False, True) if self.kind is KnobKind.BOOLEAN else self.choices

    @property
    def n_values(self) -> float:
        """How many values the useful range and the special values have; infinite for reals without a step."""
        return self.range.n_levels + len(self.special) if self.is_numeric else len(self.labels)

    def cast(self, value: object) -> Value | None:
        """`value` as this knob's own type (a whole float as int, an int as float), None when it is of another type.

        Says nothing of the range. An int stands for no boolean, and a boolean for no number.
        """
        if self.is_numeric:
            return _as_number(value, self.kind)
        if self.kind is KnobKind.BOOLEAN:
            return value if isinstance(value, bool) else None
        return value if isinstance(value, str) else None

    def contains(self, value: object) -> bool:
        """Whether `value` is in the useful range (and on its step) or special. The default need not be (`Space`)."""
        own = self.cast(value)
        if own is None:
            return False
        if isinstance(own, (str, bool)):
            return own in self.labels
        return own in self.special or self._is_regular(own)

    def _is_regular(self, value: int | float) -> bool:
        low, high = self._ends()
        if not low <= value <= high:
            return False
        return isinstance(self.range, Continuum) or _is_same(value, self.range.nearest(value))

    def clip(self, value: int | float) -> int | float:
        """The legal value nearest to the finite number `value`: a special value only when it is given exactly."""
        low, high = self._ends()
        return value if value in self.special else self.range.nearest(min(max(value, low), high))

    def format(self, value: Value) -> str:
        """`value` as the target writes it: "512MB", "on", "0.9"; special values bare."""
        return str(value) if value in self.special else format_value(value, self.unit)

    def parse(self, text: str) -> Value:
        """The value that `text` means: "512MB", "on", "-1"; the inverse of `format`. Says nothing of the range.

        Raises:
            SpaceError: the text means no value of this knob's kind.
        """
        text = text.strip()
        if self.is_numeric:
            try:
                number = self.cast(parse_value(text, self.unit))
            except UsageError as error:
                raise SpaceError(f"{self.name}={text!r} is not a value: {error.message}", hint=error.hint) from error
            if number is None:
                raise SpaceError(f"{self.name}={text!r} is not a whole number of unit={self.unit!r}", hint=self.legal())
            return number
        if self.kind is KnobKind.BOOLEAN:
            if text.lower() not in _TRUTH:
                raise SpaceError(f"{self.name}={text!r} is neither on nor off", hint="write on or off")
            return _TRUTH[text.lower()]
        return text

    def legal(self) -> str:
        """The legal values in words, for messages: "legal: 128MB to 4GB (16384 to 524288), or -1"."""
        if not self.is_numeric:
            return f"legal: {', '.join(self.format(label) for label in self.labels)}"
        low, high = self._ends()
        text = f"legal: {self.format(low)} to {self.format(high)}"
        if self.unit:
            text += f" ({low} to {high} in {self.unit})"
        if self.step not in (None, 1):
            text += f" in steps of {self.step}"
        return text + "".join(f", or {value}" for value in self.special)


_EXACT_FLOAT = 2**53
_TRUTH = {"on": True, "true": True, "yes": True, "1": True, "off": False, "false": False, "no": False, "0": False}


def _as_number(value: object, kind: KnobKind) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if kind is KnobKind.REAL:
        # Adding zero turns -0.0 into 0.0, which prints and hashes like the value that people write.
        return float(value) + 0.0 if abs(value) <= sys.float_info.max else None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return value


def _is_same(a: float, b: float) -> bool:
    """Equal but for the rounding of a sum of decimals (0.1 + 0.2 is 0.3)."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-15)
