"""Values as pg_settings shows them: write, compare."""

from __future__ import annotations

import math

from trimtab.space import Value
from trimtab.units import format_value

__all__ = ["file_text", "is_same", "quoted_name", "setting_text", "shown_real"]


def setting_text(value: Value, unit: str) -> str:
    """PostgreSQL's text for a value, exactly: a real stays bare, since one with a unit would be rounded."""
    return repr(value) if isinstance(value, float) else format_value(value, unit)


def shown_real(value: float) -> float:
    """A real as pg_settings shows it, with six digits."""
    return float(f"{value:.6g}")


def file_text(text: str) -> str:
    """As postgresql.conf wants it: bare where that is safe, else in quotes."""
    plain = text.replace(".", "").replace("_", "").replace("-", "", 1)
    return text if plain.isalnum() else "'" + text.replace("'", "''") + "'"


def quoted_name(text: str) -> str:
    """A text as ALTER SYSTEM writes it for a setting that holds a list of names: as one quoted name."""
    return '"' + text.replace('"', '""') + '"'


def is_same(left: Value, right: Value) -> bool:
    """Whether two values are one to the server; reals are compared by what pg_settings shows of them."""
    if isinstance(left, float) or isinstance(right, float):
        if isinstance(left, str | bool) or isinstance(right, str | bool):
            return False
        return math.isclose(left, right, rel_tol=1e-5, abs_tol=1e-12)
    return left == right
