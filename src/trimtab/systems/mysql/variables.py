"""The server's own catalogue of variables: read from MariaDB's or MySQL's tables into one shape.

MariaDB tells everything in information_schema.SYSTEM_VARIABLES. MySQL 8 tells value, limits and source in its performance
schema, but neither the type nor whether a change needs a restart; those come from the overlay, so that a variable outside
the overlay is known by its value only (and locked anyway).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from trimtab.space import Value
from trimtab.systems.mysql.overlay import OverlayKnob

__all__ = ["MARIADB_QUERY", "MYSQL_QUERY", "Kind", "Variable", "from_mariadb", "from_mysql"]

Kind = Literal["bool", "integer", "real", "choice", "text"]

MARIADB_QUERY = (
    "SELECT LOWER(VARIABLE_NAME), GLOBAL_VALUE, GLOBAL_VALUE_ORIGIN, DEFAULT_VALUE, VARIABLE_TYPE, NUMERIC_MIN_VALUE,"
    " NUMERIC_MAX_VALUE, NUMERIC_BLOCK_SIZE, ENUM_VALUE_LIST, READ_ONLY, GLOBAL_VALUE_PATH"
    " FROM information_schema.SYSTEM_VARIABLES WHERE VARIABLE_SCOPE <> 'SESSION ONLY'"
)
"""Without ORDER BY: under a sort_buffer_size of a few bytes the server could not even be looked at."""

MYSQL_QUERY = (
    "SELECT LOWER(v.VARIABLE_NAME), g.VARIABLE_VALUE,"
    " IF(v.VARIABLE_SOURCE = 'DYNAMIC' AND v.SET_USER IS NULL, 'COMPILED', v.VARIABLE_SOURCE),"
    " v.VARIABLE_PATH, v.MIN_VALUE, v.MAX_VALUE"
    " FROM performance_schema.variables_info v JOIN performance_schema.global_variables g USING (VARIABLE_NAME)"
)
"""What no user has set the server has set itself, at its start (foreign_key_checks, while it makes its own tables)."""

_SOURCES = {
    "COMPILE-TIME": "default",
    "COMPILED": "default",
    "AUTO": "default",
    "ENVIRONMENT": "environment variable",
    "CONFIG": "configuration file",
    "GLOBAL": "configuration file",
    "SERVER": "configuration file",
    "EXPLICIT": "configuration file",
    "EXTRA": "configuration file",
    "USER": "configuration file",
    "LOGIN": "configuration file",
    "PERSISTED": "mysqld-auto.cnf",
    "COMMAND-LINE": "command line",
    "COMMAND_LINE": "command line",
    "SQL": "SET GLOBAL",
    "DYNAMIC": "SET GLOBAL",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One variable of the server, with its global value.

    Attributes:
        name: in lower case.
        text: the running value as the server writes it.
        kind: what values it takes; "text" also for lists and for what is not known.
        default: the value that the server would take by itself, as text; None when it does not say.
        low, high: its own limits; None for what is not a number, or when it does not say.
        block: distance between legal numbers; 1 when any will do.
        choices: of a choice.
        is_dynamic: whether SET GLOBAL changes it.
        source: where the running value comes from.
        path: the file of it, "" when it is in none.
    """

    name: str
    text: str
    kind: Kind
    default: str | None
    low: float | None
    high: float | None
    block: int
    choices: tuple[str, ...]
    is_dynamic: bool
    source: str
    path: str

    @property
    def value(self) -> Value:
        """The running value."""
        return parse_text(self.text, self.kind)


def parse_text(text: str, kind: Kind) -> Value:
    """The value behind the server's own text; the text itself when it is not of that kind."""
    try:
        if kind == "bool":
            return text.upper() in ("ON", "1", "YES", "TRUE")
        if kind == "integer":
            return int(text)
        if kind == "real":
            return float(text)
    except ValueError:
        return text
    return text


_TYPES: dict[str, Kind] = {"BOOLEAN": "bool", "DOUBLE": "real", "ENUM": "choice"}


def _name(row: Sequence[Any]) -> str:
    return str(row[0])


def from_mariadb(rows: Sequence[Sequence[Any]]) -> dict[str, Variable]:
    """The rows of `MARIADB_QUERY` by name."""
    found = {}
    for name, value, origin, default, type_, low, high, block, choices, read_only, path in sorted(rows, key=_name):
        kind: Kind = _TYPES.get(type_, "integer" if "INT" in type_ else "text")
        is_number = kind in ("integer", "real")
        found[str(name)] = Variable(
            name=str(name),
            text=_text(value),
            kind=kind,
            default=None if default is None else str(default),
            low=float(low) if is_number and low not in (None, "") else None,
            high=float(high) if is_number and high not in (None, "") else None,
            block=max(1, int(block or 1)) if kind == "integer" else 1,
            choices=tuple(str(choices).split(",")) if kind == "choice" and choices else (),
            is_dynamic=read_only == "NO",
            source=_SOURCES.get(str(origin), str(origin).lower()),
            path=str(path or ""),
        )
    return found


def from_mysql(rows: Sequence[Sequence[Any]], curated: Mapping[str, OverlayKnob]) -> dict[str, Variable]:
    """The rows of `MYSQL_QUERY` by name; types and restart classes are the overlay's."""
    found = {}
    for name, value, source, path, low, high in sorted(rows, key=_name):
        knob = curated.get(str(name))
        limits = (float(low or 0), float(high or 0))
        kind = _kind_of(_text(value), knob, has_limits=limits[1] > limits[0])
        is_number = kind in ("integer", "real") and limits[1] > limits[0]
        found[str(name)] = Variable(
            name=str(name),
            text=_text(value),
            kind=kind,
            default=None,
            low=limits[0] if is_number else None,
            high=limits[1] if is_number else None,
            block=(knob.step if knob is not None else None) or 1,
            choices=knob.choices if knob is not None and kind == "choice" else (),
            is_dynamic=knob is not None and knob.restart == "reload",
            source=_SOURCES.get(str(source), str(source).lower()),
            path=str(path or ""),
        )
    return found


def _kind_of(text: str, knob: OverlayKnob | None, *, has_limits: bool) -> Kind:
    if knob is not None and knob.choices:
        return "choice"
    if text.upper() in ("ON", "OFF", "YES", "NO"):
        return "bool"
    if not has_limits and (knob is None or knob.low is None):
        return "text"
    return "real" if "." in text else "integer"


def _text(value: object) -> str:
    return "" if value is None else str(value)
