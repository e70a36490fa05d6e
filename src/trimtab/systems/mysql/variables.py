"""The server's own catalogue of variables: read from MariaDB's or MySQL's tables into one shape.

MariaDB tells everything in information_schema.SYSTEM_VARIABLES. MySQL 8 tells value, limits and source in its performance
schema, but neither the type nor whether a change needs a restart; those come from the overlay, so that a variable outside
the overlay is known by its value only (and locked anyway).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from trimtab.space import Value
from trimtab.systems.knobs import Kind, Reading
from trimtab.systems.mysql.catalogue import CATALOG
from trimtab.systems.server_catalog import ServerKnob

__all__ = [
    "POOL",
    "SEVERAL",
    "Span",
    "Variable",
    "from_mariadb",
    "from_mysql",
    "live_range",
    "persisted_text",
    "told_live_range",
    "waits",
]

POOL = "innodb_buffer_pool_size"
SEVERAL = 1 << 30
"""Bytes of the least buffer pool that MySQL divides."""

_DEFAULT = CATALOG.sources["COMPILED"]
_REDO, _REDO_PARTS = "innodb_redo_log_capacity", ("innodb_log_file_size", "innodb_log_files_in_group")

Span = tuple[float, float]

_TYPES: dict[str, Kind] = {"BOOLEAN": "bool", "DOUBLE": "real", "ENUM": "choice"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable(Reading):
    """A variable that may have another value after a restart.

    Attributes:
        live_range: the least and the largest that SET GLOBAL gives; a restart gives the others. None: it gives all.
        persisted: what mysqld-auto.cnf gives it at the next start (SET PERSIST); None where that does not name it.
    """

    live_range: Span | None = None
    persisted: str | None = None


def live_range(variable: Reading) -> Span | None:
    """What SET GLOBAL gives, where a restart gives more; None where there is no such difference."""
    return variable.live_range if isinstance(variable, Variable) else None


def persisted_text(variable: Reading) -> str | None:
    """What SET PERSIST gives it at the next start, whatever runs now; None where it gives nothing."""
    return variable.persisted if isinstance(variable, Variable) else None


def told_live_range(variable: Reading) -> list[float] | None:
    """The same for a journal."""
    found = live_range(variable)
    return None if found is None else list(found)


def waits(variable: Reading, value: Value) -> bool:
    """Whether a variable has that value only after a restart."""
    live = live_range(variable)
    return variable.is_late or (live is not None and not isinstance(value, str) and not live[0] <= value <= live[1])


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
    largest = found.get("innodb_buffer_pool_size_max")
    return found if largest is None else _with_live_range(found, high=float(largest.value))


def _with_live_range(found: dict[str, Reading], *, low: float = 0.0, high: float = math.inf) -> dict[str, Reading]:
    """With what SET GLOBAL gives of the buffer pool, where that is less than the server itself accepts.

    MariaDB from 10.11.12, 11.4.6 and 11.8.2 on gives at most innodb_buffer_pool_size_max, by default the size at the start or
    (10.11.19) 8 TiB, and truncates what is larger (its manual, "InnoDB Buffer Pool"); a start with a larger pool raises it.
    MySQL gives one of several instances no less than 1 GiB ("Cannot update innodb_buffer_pool_size to less than 1GB if
    innodb_buffer_pool_instances > 1"); a start with less makes one instance of it.
    """
    pool = found.get(POOL)
    if pool is None or pool.low is None or pool.high is None:
        return found
    told = {field.name: getattr(pool, field.name) for field in fields(pool)}
    return {**found, POOL: Variable(**{**told, "live_range": (max(low, pool.low), min(high, pool.high))})}


def from_mysql(
    rows: Sequence[Sequence[Any]], curated: Mapping[str, ServerKnob], persisted: Mapping[str, str] | None = None
) -> dict[str, Reading]:
    """The rows of the catalogue's statement by name; types and restart classes are the catalogue's own.

    Args:
        rows: of the statement.
        curated: the catalogue's knobs.
        persisted: variable -> what mysqld-auto.cnf says of it; None where that is not known: what the server has taken from there
            still stands there then.
    """
    found: dict[str, Reading] = {}
    for name, value, source, path, low, high in sorted(rows, key=_name):
        knob = curated.get(str(name))
        limits = (float(low or 0), float(high or 0))
        kind = _kind_of(_text(value), knob, has_limits=limits[1] > limits[0])
        is_number = kind in ("integer", "real") and limits[1] > limits[0]
        text, is_from_there = _text(value), source == "PERSISTED"
        found[str(name)] = Variable(
            name=str(name),
            text=text,
            kind=kind,
            default=None,
            low=limits[0] if is_number else None,
            high=limits[1] if is_number else None,
            block=(knob.step if knob is not None else None) or 1,
            choices=knob.choices if knob is not None and kind == "choice" else (),
            is_late=knob is None or knob.restart != "reload",
            source=CATALOG.sources.get(str(source), str(source).lower()),
            file=str(path or ""),
            persisted=persisted.get(str(name)) if persisted is not None else text if is_from_there else None,
        )
    found, parts = _with_redo_log(found), found.get("innodb_buffer_pool_instances")
    return found if parts is None or parts.text in ("0", "1") else _with_live_range(found, low=float(SEVERAL))


def _with_redo_log(found: dict[str, Reading]) -> dict[str, Reading]:
    """With the size of the redo log that is in use.

    Where only the older variables are set, they give it; the newer one shows its default meanwhile (MySQL's manual, "Redo Log",
    8.0.30), and SET GLOBAL with just that would make the log as small.
    """
    shown, parts = found.get(_REDO), [found[name] for name in _REDO_PARTS if name in found]
    if shown is None or shown.source != _DEFAULT or len(parts) < len(_REDO_PARTS):
        return found
    if all(part.source == _DEFAULT for part in parts):
        return found
    return {**found, _REDO: replace(shown, text=str(math.prod(int(part.text) for part in parts)))}


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
