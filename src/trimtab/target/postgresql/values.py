"""Values as pg_settings shows them: parse, check against a knob, compare."""

from __future__ import annotations

import math

from trimtab.errors import ApplyError
from trimtab.space import Knob, KnobKind, Value
from trimtab.units import format_value

__all__ = ["check_value", "is_same", "parse_setting", "setting_text"]


def parse_setting(text: str, vartype: str) -> Value:
    """The value behind `pg_settings.setting` (numbers in the knob's own unit)."""
    if vartype == "bool":
        return text == "on"
    if vartype == "integer":
        return int(text)
    if vartype == "real":
        return float(text)
    return text


def setting_text(value: Value, unit: str) -> str:
    """PostgreSQL's text for a value, exactly: a real stays bare, since one with a unit would be rounded."""
    return repr(value) if isinstance(value, float) else format_value(value, unit)


def check_value(knob: Knob, value: Value, low: float | None, high: float | None) -> None:
    """That `value` has the type of `knob` and lies in the server's own range `[low, high]`.

    Raises:
        ApplyError: it does not; nothing was changed.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = {
        KnobKind.BOOLEAN: isinstance(value, bool),
        KnobKind.INTEGER: is_number and isinstance(value, int),
        KnobKind.REAL: is_number and math.isfinite(float(value)),
    }.get(knob.kind, isinstance(value, str))
    if not fits:
        raise ApplyError(f"{knob.name}={value!r} is not of kind={knob.kind.value}", hint="see `trimtab knobs`")
    if isinstance(value, str) and value not in knob.choices:
        raise ApplyError(
            f"{knob.name}={value!r} is none of its choices", hint=f"use one of: {', '.join(knob.choices) or 'none'}"
        )
    if is_number and low is not None and high is not None and not low <= float(value) <= high:
        raise ApplyError(
            f"{knob.name}={value!r} is outside the server's range [{low:g}, {high:g}] (unit {knob.unit or 'none'})",
            hint="see `trimtab knobs`",
        )


def is_same(left: Value, right: Value) -> bool:
    """Whether two values are one to the server; reals are compared as pg_settings prints them (six digits)."""
    if isinstance(left, float) or isinstance(right, float):
        if isinstance(left, str | bool) or isinstance(right, str | bool):
            return False
        return math.isclose(left, right, rel_tol=1e-5, abs_tol=1e-12)
    return left == right
