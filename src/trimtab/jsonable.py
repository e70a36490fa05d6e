"""Values as JSON values: records, mappings and sequences of every kind become dictionaries and lists."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import Field, fields, is_dataclass
from typing import Any

__all__ = ["strict", "to_json"]


def to_json(value: Any) -> Any:
    """`value` with its records, mappings and sequences as dictionaries and lists; numbers and texts as they are."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    return value


def strict(value: Any) -> Any:
    """`value` as strict JSON for any reader: NaN and the infinities are null; histograms and raw logs are left out."""
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        items = ((field, getattr(value, field.name)) for field in fields(value))
        return {field.name: strict(item) for field, item in items if not _is_bulk(field, item)}
    if isinstance(value, Mapping):
        return {str(key): strict(item) for key, item in value.items()}
    return [strict(item) for item in value]


def _is_bulk(field: Field[Any], value: Any) -> bool:
    """A histogram, and what a record does not show of itself either, as a measurement its raw log."""
    return isinstance(value, bytes) or not field.repr
