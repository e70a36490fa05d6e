"""Values as the server takes and shows them: write, compare."""

from __future__ import annotations

import math

from trimtab.space import Value

__all__ = ["is_same", "option_text", "sql_literal"]


def option_text(value: Value) -> str:
    """For an option file: numbers in bytes and seconds as the server counts them, flags as ON and OFF."""
    if isinstance(value, bool):
        return "ON" if value else "OFF"
    return repr(value) if isinstance(value, float) else str(value)


def sql_literal(value: Value) -> str:
    """For SET GLOBAL. Texts have passed the gate (a choice of the catalogue), and are quoted all the same."""
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
    return option_text(value)


def is_same(left: Value, right: Value) -> bool:
    """Whether two values are one to the server; reals are compared as it prints them (six decimals), texts in any case."""
    if isinstance(left, str) and isinstance(right, str):
        return left.lower() == right.lower()
    if isinstance(left, str) or isinstance(right, str) or isinstance(left, bool) is not isinstance(right, bool):
        return False
    if isinstance(left, float) or isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-6)
    return left == right
