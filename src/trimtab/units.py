"""Sizes, durations, moments, figures and knob values with units: parse and print.

Sizes are binary (kB, MB, GB, TB are powers of 1024, as PostgreSQL counts them; KiB, MiB, GiB, TiB are the same).
Durations are us, ms, s, min, h, d. A knob's unit may carry a multiplier ("8kB", "16MB").
"""

from __future__ import annotations

import math
import re
import time
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache

from trimtab.errors import UsageError

__all__ = [
    "Dimension",
    "counted",
    "format_duration",
    "format_figure",
    "format_percent",
    "format_size",
    "format_time",
    "format_value",
    "parse_duration",
    "parse_size",
    "parse_value",
    "unit_factor",
    "unit_ratio",
]


class Dimension(StrEnum):
    """What a unit measures; the base unit is the byte, the second, or the bare number."""

    SIZE = "size"
    DURATION = "duration"
    NUMBER = ""


_SIZES = {"B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_SIZE_ALIASES = {"KB": "kB", "KiB": "kB", "MiB": "MB", "GiB": "GB", "TiB": "TB"}
_SIZE_OF_LETTERS = {
    spelling.upper(): size
    for name, size in _SIZES.items()
    for spelling in (name, name[0], *(alias for alias, meant in _SIZE_ALIASES.items() if meant == name))
}
_SIZE_LETTERS = {name[0].upper(): name for name in _SIZES}
_DURATIONS = {
    "us": Fraction(1, 1_000_000),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "min": Fraction(60),
    "h": Fraction(3600),
    "d": Fraction(86400),
}
_DURATION_ALIASES = {"m": "min", "sec": "s"}

# Digits and exponents are limited so that hostile text cannot make the exact arithmetic below run for hours.
_NUMBER = r"(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][+-]?\d{1,3})?"
_UNIT = re.compile(r"(\d{0,9})([A-Za-z]+)")
_QUANTITY = re.compile(rf"({_NUMBER})\s*([A-Za-z]*)")
_VALUE = re.compile(rf"([+-]?{_NUMBER})\s*([A-Za-z]*)")
_EXACT_FLOAT = 2**53
_PLAIN_EXPONENTS = range(-4, 15)
"""Of ten: figures that are written without an exponent."""

_SIZE_HINT = "write a size such as '512MB' or '1.5GiB' (B, kB, MB, GB, TB; powers of 1024)"
_DURATION_HINT = "write a duration such as '90s', '5m' or '1h30m' (us, ms, s, m or min, h, d)"


@lru_cache(maxsize=1024)
def unit_ratio(unit: str) -> tuple[Fraction, Dimension]:
    """The exact number of bytes or seconds in one `unit`, and what the unit measures; (1, NUMBER) for "".

    Raises:
        UsageError: for an unknown unit.
    """
    if not unit:
        return Fraction(1), Dimension.NUMBER
    match = _UNIT.fullmatch(unit)
    if match is not None and match[1] != "0" * max(1, len(match[1])):
        multiplier, name = int(match[1] or 1), match[2]
        size = _SIZES.get(_SIZE_ALIASES.get(name, name))
        if size is not None:
            return Fraction(multiplier * size), Dimension.SIZE
        if name in _DURATIONS:
            return multiplier * _DURATIONS[name], Dimension.DURATION
    raise UsageError(
        f"unknown unit={unit!r}",
        hint="use B, kB, MB, GB, TB, KiB, MiB, GiB, TiB, us, ms, s, min, h or d, with a multiplier if need be ('8kB')",
    )


def unit_factor(unit: str) -> tuple[int | float, Dimension]:
    """As `unit_ratio`, the factor being an int where it is whole and else the nearest float ("ms": 0.001)."""
    ratio, dimension = unit_ratio(unit)
    return (ratio.numerator if ratio.denominator == 1 else float(ratio)), dimension


def parse_size(text: str) -> int:
    """Bytes in a text such as "1GiB", "1.5 GB" or "64M"; rounded to a whole byte. Letters of either case; "0" needs
    no unit.

    Raises:
        UsageError: when the text is no size.
    """
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"size={text!r} is not a number with a unit", hint=_SIZE_HINT)
    number, letters = Fraction(match[1]), match[2]
    if not letters:
        if number == 0:
            return 0
        raise UsageError(f"size={text!r} has no unit", hint=_SIZE_HINT)
    size = _SIZE_OF_LETTERS.get(letters.upper())
    if size is None:
        raise UsageError(f"size={text!r} has the unknown unit {letters!r}", hint=_SIZE_HINT)
    return round(number * size)


def parse_duration(text: str) -> float:
    """Seconds in a text such as "90s", "5m", "250ms" or "1h30m" (parts in falling order). "0" needs no unit.

    Raises:
        UsageError: when the text is no duration.
    """
    rest, total, last = text.strip(), Fraction(0), None
    if rest == "0":
        return 0.0
    while rest:
        match = _QUANTITY.match(rest)
        if match is None:
            raise UsageError(f"duration={text!r} is not a number with a unit", hint=_DURATION_HINT)
        if not match[2]:
            raise UsageError(f"duration={text!r} has no unit after {match[1]}", hint=_DURATION_HINT)
        factor = _DURATIONS.get(_DURATION_ALIASES.get(match[2], match[2]))
        if factor is None:
            raise UsageError(f"duration={text!r} has the unknown unit {match[2]!r}", hint=_DURATION_HINT)
        if last is not None and factor >= last:
            raise UsageError(f"duration={text!r} does not go from long to short units", hint=_DURATION_HINT)
        total, last, rest = total + Fraction(match[1]) * factor, factor, rest[match.end() :].lstrip()
    if last is None:
        raise UsageError(f"duration={text!r} is empty", hint=_DURATION_HINT)
    if total > _EXACT_FLOAT:
        raise UsageError(f"duration={text!r} is too long", hint=_DURATION_HINT)
    return float(total)


def format_size(size_bytes: float) -> str:
    """A size for people, to four significant digits: "1.5GiB", "640MiB", "100B"."""
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if abs(size_bytes) >= 1 << power:
            return f"{size_bytes / (1 << power):.4g}{unit}"
    return f"{size_bytes:.4g}B"


def format_figure(value: float, digits: int = 4) -> str:
    """A measured figure for people, to `digits` significant digits but never less than its whole part: "0.0123", "1.5",
    "75,690", "1,234,568". Only below 0.0001 and from 1e15 on it has an exponent; infinite is "∞", not a number "–"."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞" if value > 0 else "-∞"
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])
    if exponent not in _PLAIN_EXPONENTS:
        return f"{value:.{digits}g}"
    text = f"{value + 0.0:,.{max(0, digits - 1 - exponent)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_percent(share: float, digits: int = 0, *, sign: bool = False) -> str:
    """A share with `digits` after the point: "20 %", "0.4 %", with `sign` "+31.0 %"."""
    return f"{100 * share:{'+' if sign else ''}.{digits}f} %"


def format_duration(seconds: float) -> str:
    """A duration for people: four significant digits below a minute ("1.5s", "250ms"), else whole seconds
    ("1h30min")."""
    if not math.isfinite(seconds):
        return f"{seconds}s"
    if seconds < 0:
        return f"-{format_duration(-seconds)}"
    if round(seconds, 2) < 60:
        return _format_short(seconds)
    rest, parts = round(seconds), []
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        count, rest = divmod(rest, length)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def format_time(at: float) -> str:
    """A moment (seconds since the epoch) for people and for JSON, in UTC: "2026-05-31T12:00:00Z"."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def _format_short(seconds: float) -> str:
    if seconds == 0:
        return "0s"
    if seconds >= 0.9999995:
        return f"{seconds:.4g}s"
    if seconds >= 0.0009999995:
        return f"{seconds * 1e3:.4g}ms"
    return f"{seconds * 1e6:.4g}us"


def format_value(value: bool | int | float | str, unit: str) -> str:
    """A knob's value as its system writes it, exactly: 65536 with unit "8kB" is "512MB"; booleans are on and off.

    Values of at most zero are printed bare (-1 and 0 mean something of their own), and so is a value for which no unit
    is exact: a bare number counts in the knob's own unit. `parse_value` is the inverse.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        if not value.is_integer() or abs(value) >= _EXACT_FLOAT:
            # A real keeps its own unit: other units would have to be converted in floating point by the system.
            return f"{value!r}{unit}" if unit.isalpha() and value > 0 else repr(value)
        value = int(value)
    return _format_whole(value, unit)


@lru_cache(maxsize=4096)
def _format_whole(value: int, unit: str) -> str:
    """Several times in a trial all settings of a server are written, and few differ from those before."""
    ratio, dimension = unit_ratio(unit)
    if value <= 0 or dimension is Dimension.NUMBER:
        return str(value)
    amount = value * ratio
    units = _SIZES if dimension is Dimension.SIZE else _DURATIONS
    for name in reversed(units):
        count = amount / units[name]
        if count.denominator == 1:
            return f"{count.numerator}{name}"
    return str(value)


def parse_value(text: str, unit: str) -> int | float:
    """The number of `unit`s in `text`: "512MB" with unit "8kB" is 65536; a bare number counts in `unit` itself.

    An int when the number is whole, else a float. Sizes may have a single letter of either case, as MySQL and Java write them
    ("768M", "2g").

    Raises:
        UsageError: when the text is not a number, or its unit does not fit.
    """
    ratio, dimension = unit_ratio(unit)
    match = _VALUE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"value={text!r} is not a number", hint=f"write a number{_unit_hint(dimension)}")
    amount = Fraction(match[1])
    if match[2]:
        name = _SIZE_LETTERS.get(match[2].upper(), match[2]) if dimension is Dimension.SIZE else match[2]
        amount = amount * _ratio_of(name, dimension, text, unit) / ratio
    return amount.numerator if amount.denominator == 1 else float(amount)


def _ratio_of(name: str, dimension: Dimension, text: str, unit: str) -> Fraction:
    """The ratio of the unit in `text`, which has to measure what `unit` does: others are of no use here, known or not."""
    try:
        ratio, found = unit_ratio(name)
    except UsageError:
        fault = f"value={text!r} has the unknown unit {name!r}"
    else:
        if found is dimension:
            return ratio
        fault = f"value={text!r} has a unit that does not fit unit={unit!r}"
    raise UsageError(fault, hint=f"write a number{_unit_hint(dimension)}")


def _unit_hint(dimension: Dimension) -> str:
    if dimension is Dimension.SIZE:
        return " with B, kB, MB, GB or TB"
    if dimension is Dimension.DURATION:
        return " with us, ms, s, min, h or d"
    return " without a unit"


def counted(n: int, noun: str) -> str:
    """`1 trial`, `2,000 trials`, `3 studies`, `4 classes`."""
    many = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{n:,} {noun if n == 1 else many}"
