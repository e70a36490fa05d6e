"""Frozen records from JSON values, by the records' own annotations: one reader for all of them."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from trimtab.errors import UsageError
from trimtab.jsonable import to_json
from trimtab.records import StopKind, Verdict
from trimtab.space import Config

__all__ = ["from_json", "read_verdict", "verdict_to_json"]

T = TypeVar("T")

_NO_PROOF = "; no proof was asked for"
"""End of the reason by which alone older versions said that no proof was to follow a search."""


def verdict_to_json(verdict: Verdict) -> dict[str, Any]:
    """Every key of a verdict, or nothing while nothing is known."""
    return {} if verdict == Verdict() else dict(to_json(verdict))


def read_verdict(values: Any, at: str = "verdict") -> Verdict:
    """What `verdict_to_json` gave; `at` names it in messages.

    Raises:
        ValueError: a key is unknown or missing, or a value is of another type.
    """
    found = from_json(Verdict, values, at)
    if found.stop_kind is StopKind.UNSAID and found.stop_reason.endswith(_NO_PROOF):
        return replace(found, stop_kind=StopKind.UNPROVEN)
    return found


def from_json(kind: type[T], values: Any, at: str) -> T:
    """The record of `kind` that `to_json` was given; fields that have a default may be missing.

    Raises:
        ValueError: a key is unknown or missing, or a value is of another type.
    """
    found: T = _read(kind, values, at)
    return found


@cache
def _hints(kind: type) -> dict[str, tuple[Any, bool]]:
    """Type by field, and whether it must be there."""
    hints = get_type_hints(kind)
    return {
        field.name: (hints[field.name], field.default is MISSING and field.default_factory is MISSING)
        for field in fields(kind)
    }


def _read(kind: Any, value: Any, at: str) -> Any:
    origin = get_origin(kind)
    if kind is Any:
        return value
    if origin in (Union, types.UnionType):
        return _read_union(get_args(kind), value, at)
    if origin is tuple:
        return _read_tuple(get_args(kind), value, at)
    if kind is Config:
        return Config({name: _read(_SCALAR, item, f"{at}.{name}") for name, item in _table(value, at).items()})
    if origin is not None:
        item_kind = get_args(kind)[1]
        return {name: _read(item_kind, item, f"{at}.{name}") for name, item in _table(value, at).items()}
    if is_dataclass(kind):
        return _read_record(kind, value, at)
    return _read_scalar(kind, value, at)


_SCALAR = bool | int | float | str


def _read_record(kind: Any, value: Any, at: str) -> Any:
    table, hints = _table(value, at), _hints(kind)
    unknown = [name for name in table if name not in hints]
    missing = [name for name, (_, is_needed) in hints.items() if is_needed and name not in table]
    if unknown or missing:
        what = f"unknown key={unknown[0]!r}" if unknown else f"key={missing[0]!r} is missing"
        raise ValueError(f"{at}: {what} (damaged, or written by another version of Trimtab)")
    try:
        return kind(**{name: _read(hints[name][0], item, f"{at}.{name}") for name, item in table.items()})
    except UsageError as error:
        raise ValueError(f"{at}: {error.message}") from error


def _read_union(kinds: Sequence[Any], value: Any, at: str) -> Any:
    if value is None and type(None) in kinds:
        return None
    rest = [kind for kind in kinds if kind is not type(None)]
    if len(rest) == 1:
        return _read(rest[0], value, at)
    if type(value) not in rest:
        raise _wrong(value, " or ".join(kind.__name__ for kind in rest), at)
    return value


def _read_tuple(kinds: Sequence[Any], value: Any, at: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise _wrong(value, "list", at)
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        kinds = [kinds[0]] * len(value)
    if len(kinds) != len(value):
        raise ValueError(f"{at} has {len(value)} items, not {len(kinds)}")
    return tuple(_read(kind, item, f"{at}[{i}]") for i, (kind, item) in enumerate(zip(kinds, value, strict=True)))


def _read_scalar(kind: Any, value: Any, at: str) -> Any:
    if issubclass(kind, StrEnum):
        return _read_member(kind, value, at)
    fits = type(value) in (int, float) if kind is float else type(value) is kind
    if not fits:
        raise _wrong(value, kind.__name__, at)
    return value


def _read_member(kind: type[StrEnum], value: Any, at: str) -> StrEnum:
    if not isinstance(value, str):
        raise _wrong(value, kind.__name__, at)
    try:
        return kind(value)
    except ValueError:
        raise ValueError(
            f"{at}={value[:60]!r} is unknown (damaged, or written by another version of Trimtab)"
        ) from None


def _table(value: Any, at: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _wrong(value, "table", at)
    return value


def _wrong(value: Any, wanted: str, at: str) -> ValueError:
    shown = repr(value) if isinstance(value, str | int | float | bool | None) else type(value).__name__
    return ValueError(f"{at}={shown[:60]} is not a {wanted}")
