"""The server's own catalogue of variables: read from MariaDB's or MySQL's tables into one shape.

MariaDB tells everything in information_schema.SYSTEM_VARIABLES. MySQL 8 tells value, limits and source in its performance
schema, but neither the type nor whether a change needs a restart; those come from the overlay, so that a variable outside
the overlay is known by its value only (and locked anyway).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trimtab.systems.knobs import Kind, Reading
from trimtab.systems.mysql.catalogue import CATALOG
from trimtab.systems.server_catalog import ServerKnob

__all__ = ["from_mariadb", "from_mysql"]

_TYPES: dict[str, Kind] = {"BOOLEAN": "bool", "DOUBLE": "real", "ENUM": "choice"}


def _name(row: Sequence[Any]) -> str:
    return str(row[0])


def from_mariadb(rows: Sequence[Sequence[Any]]) -> dict[str, Reading]:
    """The rows of the catalogue's statement by name."""
    found = {}
    for name, value, origin, default, type_, low, high, block, choices, read_only, path in sorted(rows, key=_name):
        kind: Kind = _TYPES.get(type_, "integer" if "INT" in type_ else "text")
        is_number = kind in ("integer", "real")
        found[str(name)] = Reading(
            name=str(name),
            text=_text(value),
            kind=kind,
            default=None if default is None else str(default),
            low=float(low) if is_number and low not in (None, "") else None,
            high=float(high) if is_number and high not in (None, "") else None,
            block=max(1, int(block or 1)) if kind == "integer" else 1,
            choices=tuple(str(choices).split(",")) if kind == "choice" and choices else (),
            is_late=read_only != "NO",
            source=CATALOG.sources.get(str(origin), str(origin).lower()),
            file=str(path or ""),
        )
    return found


def from_mysql(rows: Sequence[Sequence[Any]], curated: Mapping[str, ServerKnob]) -> dict[str, Reading]:
    """The rows of the catalogue's statement by name; types and restart classes are the catalogue's own."""
    found = {}
    for name, value, source, path, low, high in sorted(rows, key=_name):
        knob = curated.get(str(name))
        limits = (float(low or 0), float(high or 0))
        kind = _kind_of(_text(value), knob, has_limits=limits[1] > limits[0])
        is_number = kind in ("integer", "real") and limits[1] > limits[0]
        found[str(name)] = Reading(
            name=str(name),
            text=_text(value),
            kind=kind,
            default=None,
            low=limits[0] if is_number else None,
            high=limits[1] if is_number else None,
            block=(knob.step if knob is not None else None) or 1,
            choices=knob.choices if knob is not None and kind == "choice" else (),
            is_late=knob is None or knob.restart != "reload",
            source=CATALOG.sources.get(str(source), str(source).lower()),
            file=str(path or ""),
        )
    return found


def _kind_of(text: str, knob: ServerKnob | None, *, has_limits: bool) -> Kind:
    if knob is not None and knob.choices:
        return "choice"
    if text.upper() in ("ON", "OFF", "YES", "NO"):
        return "bool"
    if not has_limits and (knob is None or knob.low is None):
        return "text"
    return "real" if "." in text else "integer"


def _text(value: object) -> str:
    return "" if value is None else str(value)
