"""Literals: the values of a catalogue's knobs as text in a configuration file, and back."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache

from trimtab.errors import SpaceError, TargetError, UsageError
from trimtab.space import Knob, KnobKind, Value
from trimtab.systems.catalog import CatalogKnob
from trimtab.units import Dimension, parse_value, unit_ratio

__all__ = ["literal", "parse_literal", "stand_in_reason"]

_AMOUNT = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*(?P<suffix>[A-Za-z%]*(?:/s)?)"
)
_VARIABLE = re.compile(r"\$\{[^{}]*\}")
"""What a program fills in itself, as Tomcat does in its files."""


def literal(knob: Knob, entry: CatalogKnob, units: Mapping[str, str], value: Value) -> str:
    """`value` as the file has it: a bare number in the knob's unit, or one with its suffix; the words of a boolean, and of a
    special value."""
    if isinstance(value, bool):
        return entry.words[value]
    if isinstance(value, str):
        return value
    if word := next((word for word, number in entry.spelled.items() if number == value), ""):
        return word
    if not entry.suffix or (value in knob.special and value != 0):
        return _plain(value)  # -1 is a word; 0 is an amount, and Cassandra refuses one without its unit
    amount = value / _ratio(knob.unit, units, entry.suffix)
    return f"{_plain(int(amount) if amount == int(amount) else amount)}{entry.suffix}"


def parse_literal(
    knob: Knob,
    entry: CatalogKnob,
    units: Mapping[str, str],
    text: str,
    *,
    knows_case: bool = True,
    must_mean: bool = True,
) -> Value:
    """The inverse of `literal`; a size or duration may have any of the catalogue's units, or those that Trimtab knows. Of a text
    with a `stand_in_reason` the value next to it: that of a variable is not known, and is the default.

    Args:
        knows_case: whether choices that differ in case are different to the program.
        must_mean: whether a text that means no value of this knob is an error; else it gives the default.

    Raises:
        TargetError: the text means no value of this knob, and must.
    """
    if _VARIABLE.search(text):
        return knob.default
    try:
        if knob.kind is KnobKind.BOOLEAN:
            return _boolean(knob, entry, text)
        if not knob.is_numeric:
            return _choice(knob, text, knows_case=knows_case)
        if text.strip() in entry.spelled:
            return entry.spelled[text.strip()]
        number = _number(knob, units, text)
        value = knob.cast(number)
        return math.ceil(number) if value is None else value
    except SpaceError as error:
        if not must_mean:
            return knob.default
        raise TargetError(
            f"{knob.name}={text!r} in the configuration file is not understood: {error.message}",
            hint=f"{error.hint or 'write it in another way'}; or correct type, unit and [units] in the catalogue",
        ) from error


def stand_in_reason(knob: Knob, entry: CatalogKnob, units: Mapping[str, str], text: str) -> str:
    """Why a value as found is left alone: no value of the knob says the same, and it could not be told or written; else ""."""
    if _VARIABLE.search(text):
        return f"its value as found, {text}, is a variable of the program's"
    unknown = f"its value as found, {text.strip()}, is not one that the catalogue knows"
    if knob.kind is KnobKind.BOOLEAN:
        is_number = text.strip().isdecimal() and text.strip() not in (*entry.words, "0", "1")
        return unknown if is_number or not _is_understood(lambda: _boolean(knob, entry, text)) else ""
    if not knob.is_numeric or text.strip() in entry.spelled:
        return ""
    if not _is_understood(lambda: _number(knob, units, text)):
        return unknown
    if knob.cast(_number(knob, units, text)) is None:
        return f"its value as found, {text}, is not a whole number{f' of unit={knob.unit}' if knob.unit else ''}"
    return ""


def _is_understood(parse: Callable[[], object]) -> bool:
    try:
        parse()
    except SpaceError:
        return False
    return True


def _boolean(knob: Knob, entry: CatalogKnob, text: str) -> Value:
    if text.casefold() in (word.casefold() for word in entry.words):
        return text.casefold() == entry.words[1].casefold()
    return int(text) != 0 if text.strip().isdecimal() else knob.parse(text)


def _choice(knob: Knob, text: str, *, knows_case: bool) -> Value:
    meant = [] if knows_case else [each for each in knob.choices if each.casefold() == text.strip().casefold()]
    return meant[0] if meant else knob.parse(text)


def _number(knob: Knob, units: Mapping[str, str], text: str) -> int | float:
    """What a text means in the knob's unit, whole or not.

    Raises:
        SpaceError: no finite number.
    """
    match = _AMOUNT.fullmatch(text.strip())
    ratio = (
        _ratios(knob.unit, tuple(units.items())).get(match["suffix"].casefold()) if match and match["suffix"] else None
    )
    try:
        number = float(match["number"]) * ratio if match and ratio is not None else parse_value(text, knob.unit)
        if math.isfinite(number):
            return number
    except UsageError as error:
        raise SpaceError(f"{knob.name}={text!r} is not a value: {error.message}", hint=error.hint) from error
    except OverflowError:
        pass
    raise SpaceError(f"{knob.name}={text!r} is not a number that can be used", hint="write a smaller one")


def _ratio(unit: str, units: Mapping[str, str], suffix: str) -> float:
    """How many of a knob's unit one of `suffix` is."""
    ratio, dimension = unit_ratio(unit)
    is_duration = dimension is Dimension.DURATION
    # Of a duration m is minutes; it is megabytes elsewhere, as in the flags of a Java machine beside it.
    text = "1min" if is_duration and suffix == "m" else units[suffix]
    return float(parse_value(text, "s" if is_duration else "B")) / float(ratio)


@lru_cache(maxsize=256)
def _ratios(unit: str, units: tuple[tuple[str, str], ...]) -> Mapping[str, float]:
    """Suffix in lower case -> how many of a knob's unit one of it is; those that measure something else are missing."""
    table, found = dict(units), {}
    for suffix in {**table, "m": ""} if unit_ratio(unit)[1] is Dimension.DURATION else table:
        try:
            ratio = _ratio(unit, table, suffix)
        except UsageError:
            continue
        if ratio > 0:
            found[suffix.casefold()] = ratio
    return found


def _plain(value: int | float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.12g}"
