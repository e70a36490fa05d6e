"""Literals: the values of a catalogue's knobs as text in a configuration file, and back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from trimtab.errors import SpaceError, TargetError, UsageError
from trimtab.space import Knob, KnobKind, Value
from trimtab.systems.catalog import CatalogKnob
from trimtab.units import Dimension, parse_value, unit_ratio

__all__ = ["literal", "parse_literal"]

_AMOUNT = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*(?P<suffix>[A-Za-z%]*(?:/s)?)"
)


def literal(knob: Knob, entry: CatalogKnob, units: Mapping[str, str], value: Value) -> str:
    """`value` as the file has it: a bare number in the knob's unit, or one with its suffix; the words of a boolean."""
    if isinstance(value, bool):
        return entry.words[value]
    if isinstance(value, str):
        return value
    if not entry.suffix or (value in knob.special and value != 0):
        return _plain(value)  # -1 is a word; 0 is an amount, and Cassandra refuses one without its unit
    amount = value / _ratio(knob.unit, units, entry.suffix)
    return f"{_plain(int(amount) if amount == int(amount) else amount)}{entry.suffix}"


def parse_literal(knob: Knob, entry: CatalogKnob, units: Mapping[str, str], text: str) -> Value:
    """The inverse of `literal`; a size or duration may have any of the catalogue's units, or those that Trimtab knows.

    Raises:
        TargetError: the text means no value of this knob.
    """
    try:
        if knob.kind is KnobKind.BOOLEAN and text.casefold() in (word.casefold() for word in entry.words):
            return text.casefold() == entry.words[1].casefold()
        if not knob.is_numeric:
            return knob.parse(text)
        return _number(knob, entry, units, text)
    except SpaceError as error:
        raise TargetError(
            f"{knob.name}={text!r} in the configuration file is not understood: {error.message}",
            hint=f"{error.hint or 'write it in another way'}; or correct type, unit and [units] in the catalogue",
        ) from error


def _number(knob: Knob, entry: CatalogKnob, units: Mapping[str, str], text: str) -> Value:
    match = _AMOUNT.fullmatch(text.strip())
    if match is None or not match["suffix"]:
        return knob.parse(text)
    ratio = _ratios(knob.unit, tuple(units.items())).get(match["suffix"].casefold())
    if ratio is None:
        return knob.parse(text)
    number = float(match["number"]) * ratio
    value = knob.cast(number)
    if value is None:
        raise SpaceError(f"{text!r} is not a whole number of unit={knob.unit!r}", hint="write it in whole ones")
    return value


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
