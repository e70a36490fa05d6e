"""Parameter generators of own SQL: what a named placeholder of a statement is filled with, read from the study file.

[workload.parameters]
customer = { type = "column", table = "customers", column = "id", distribution = "zipfian" }
amount   = { type = "int", low = 1, high = 500 }
note     = { type = "text", length = [10, 40], nulls = 0.2 }
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trimtab.errors import UsageError
from trimtab.workload.table import Table

__all__ = ["AUTO_LIMIT", "DISTRIBUTIONS", "UNKNOWN", "Generator", "parse_generators"]

UNKNOWN = "?"
"""Type of a generator that `trimtab profile` could not know; the user has to fill it in."""

_SHARED = ("type", "nulls", "each")
_SKEWED = ("distribution", "skew")
_KEYS: Mapping[str, tuple[str, ...]] = {
    "int": ("low", "high", *_SKEWED),
    "float": ("low", "high"),
    "serial": ("start", "step"),
    "text": ("length", "alphabet"),
    "choice": ("values", "weights"),
    "date": ("from", "to"),
    "timestamp": ("from", "to"),
    "uuid": (),
    "bool": ("share",),
    "column": ("table", "column", "limit", *_SKEWED),
}
DISTRIBUTIONS: Mapping[str, tuple[float, float, float]] = {
    "uniform": (0.0, 0.0, 0.0),
    "zipfian": (1.1, 1.001, 1000.0),
    "gaussian": (2.5, 2.0, 1000.0),
    "exponential": (2.5, 1e-6, 1000.0),
}
"""Name -> default, least and greatest skew."""
_OF_COLUMNS = ("uniform", "zipfian")
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_INT64 = 2**63 - 1
_LONGEST_TEXT = 1_000_000
_MOST_SAMPLES = 1_000_000
_MOST_WEIGHT = 1e15

AUTO_LIMIT = 0
"""Of a column's sample: by the size of its table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generator:
    """How the values of one placeholder are made.

    Attributes:
        name: of the placeholder.
        type: "int", "float", "serial", "text", "choice", "date", "timestamp", "uuid", "bool" or "column".
        options: the type's own options, complete; of "column": table, column, limit.
        distribution, skew: of an int, or over the rows of a column.
        null_share: share of NULLs, in [0, 1].
        is_fresh: whether each use within a transaction gets a value of its own.
    """

    name: str
    type: str
    options: Mapping[str, Any]
    distribution: str = "uniform"
    skew: float = 0.0
    null_share: float = 0.0
    is_fresh: bool = False


def parse_generators(tables: object) -> dict[str, Generator]:
    """The generators by name.

    Raises:
        UsageError: a generator that is not a table, of unknown type, or with a wrong option.
    """
    if not isinstance(tables, Mapping):
        raise UsageError(
            f"[workload.parameters] is {tables!r} and no table",
            hint='for example: [workload.parameters] id = { type = "int", low = 1, high = 1000 }',
        )
    return {str(name): _generator(str(name), value) for name, value in tables.items()}


def _generator(name: str, value: object) -> Generator:
    where = f"[workload.parameters] {name}"
    if not isinstance(value, Mapping) or not isinstance(value.get("type"), str):
        raise UsageError(
            f"{where}={value!r} has no type", hint=f'for example: {name} = {{ type = "int", low = 1, high = 1000 }}'
        )
    kind = value["type"]
    if kind == UNKNOWN:
        raise UsageError(
            f"{where} has no generator yet: type='?'",
            hint=f"the profile could not know its values; choose a type: {', '.join(_KEYS)}",
        )
    if kind not in _KEYS:
        raise UsageError(f"{where} type={kind!r} is not known", hint=f"use one of: {', '.join(_KEYS)}")
    table = Table(value, where, (*_SHARED, *_KEYS[kind]))
    distribution = table.choice("distribution", _OF_COLUMNS if kind == "column" else tuple(DISTRIBUTIONS), "uniform")
    default, low, high = DISTRIBUTIONS[distribution]
    return Generator(
        name=name,
        type=kind,
        options=_OPTIONS[kind](table),
        distribution=distribution,
        skew=table.number("skew", default, low, high),
        null_share=table.number("nulls", 0.0, 0.0, 1.0),
        is_fresh=table.flag("each", False),
    )


def _required(table: Table, *keys: str) -> None:
    for key in keys:
        if key not in table:
            raise UsageError(f"{table.name} lacks {key}", hint=f"add {key} = ...")


def _ordered(table: Table, low_key: str, high_key: str, low: Any, high: Any) -> None:
    if low > high:
        raise table.refuse(high_key, f"it must not be below {low_key}={table.values.get(low_key)!r}")


def _int(table: Table) -> dict[str, Any]:
    _required(table, "low", "high")
    low, high = (table.integer(key, 0, -_INT64, _INT64) for key in ("low", "high"))
    _ordered(table, "low", "high", low, high)
    return {"low": low, "high": high}


def _float(table: Table) -> dict[str, Any]:
    _required(table, "low", "high")
    low, high = (table.number(key, 0.0, -1e300, 1e300) for key in ("low", "high"))
    _ordered(table, "low", "high", low, high)
    return {"low": low, "high": high}


def _serial(table: Table) -> dict[str, Any]:
    step = table.integer("step", 1, -_INT64, _INT64)
    if step == 0:
        raise table.refuse("step", "use a whole number other than 0")
    return {"start": table.integer("start", 1, -_INT64, _INT64), "step": step}


def _text(table: Table) -> dict[str, Any]:
    _required(table, "length")
    length = table.values["length"]
    ends = length if isinstance(length, list) else [length, length]
    is_whole = all(isinstance(end, int) and not isinstance(end, bool) for end in ends)
    if len(ends) != 2 or not is_whole or not 0 <= ends[0] <= ends[1] <= _LONGEST_TEXT:
        raise table.refuse("length", f"use a whole number or [fewest, most], up to {_LONGEST_TEXT}")
    return {"low": ends[0], "high": ends[1], "alphabet": table.text("alphabet", _LETTERS)}


def _choice(table: Table) -> dict[str, Any]:
    values = table.values.get("values")
    if not isinstance(values, list) or not values or not all(isinstance(v, str | int | float) for v in values):
        raise table.refuse("values", 'use a list of texts or numbers: values = ["a", "b"]')
    weights = table.values.get("weights", [1.0] * len(values))
    weights = weights if isinstance(weights, list) else []
    is_number = [isinstance(w, int | float) and not isinstance(w, bool) and 0 <= w <= _MOST_WEIGHT for w in weights]
    if len(is_number) != len(values) or not all(is_number) or sum(weights) <= 0:
        raise table.refuse(
            "weights", f"use {len(values)} numbers from 0 to {_MOST_WEIGHT:g}, one a value, that are not all 0"
        )
    # Truth values stay what they are: their texts differ from server to server.
    return {"values": [v if isinstance(v, bool) else str(v) for v in values], "weights": [float(w) for w in weights]}


def _moments(table: Table, kind: type[datetime.date]) -> dict[str, Any]:
    _required(table, "from", "to")
    ends = [_moment(table, key, kind) for key in ("from", "to")]
    _ordered(table, "from", "to", *ends)
    return {"from": ends[0], "to": ends[1]}


def _moment(table: Table, key: str, kind: type[datetime.date]) -> datetime.date:
    value = table.values[key]
    try:
        read = kind.fromisoformat(value) if isinstance(value, str) else value
    except ValueError as error:
        raise table.refuse(key, 'write it like "2024-12-31", a timestamp like "2024-12-31 23:59:59"') from error
    if isinstance(read, datetime.datetime) and read.tzinfo is not None:
        raise table.refuse(key, "write it without an offset: it is taken as the database's own time")
    if kind is datetime.datetime and type(read) is datetime.date:
        read = datetime.datetime(read.year, read.month, read.day)
    if type(read) is not kind:
        raise table.refuse(key, 'write it like "2024-12-31", a timestamp like "2024-12-31 23:59:59"')
    return read


def _column(table: Table) -> dict[str, Any]:
    return {
        "table": table.text("table"),
        "column": table.text("column"),
        "limit": table.integer("limit", 0, 1, _MOST_SAMPLES) if "limit" in table else AUTO_LIMIT,
    }


_OPTIONS = {
    "int": _int,
    "float": _float,
    "serial": _serial,
    "text": _text,
    "choice": _choice,
    "date": lambda table: _moments(table, datetime.date),
    "timestamp": lambda table: _moments(table, datetime.datetime),
    "uuid": lambda table: {},
    "bool": lambda table: {"share": table.number("share", 0.5, 0.0, 1.0)},
    "column": _column,
}
