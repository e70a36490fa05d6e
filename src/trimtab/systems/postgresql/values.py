"""Values as pg_settings shows them: parse, write, compare."""

from __future__ import annotations

import math

from trimtab.space import Value
from trimtab.units import format_value

__all__ = ["is_same", "parse_setting", "quoted_name", "setting_text"]


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


def quoted_name(text: str) -> str:
    """A text as ALTER SYSTEM writes it for a setting that holds a list of names: as one quoted name."""
    return '"' + text.replace('"', '""') + '"'


def is_same(left: Value, right: Value) -> bool:
    """Whether two values are one to the server; reals are compared as pg_settings prints them (six digits)."""
    if isinstance(left, float) or isinstance(right, float):
        if isinstance(left, str | bool) or isinstance(right, str | bool):
            return False
        return math.isclose(left, right, rel_tol=1e-5, abs_tol=1e-12)
    return left == right
