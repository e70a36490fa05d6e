"""Whether what came from outside is what its types say: every field of a study and its trials, by their annotations.

A file that somebody sends may hold anything. What passes here can be stored, shown and searched like one's own.
"""

from __future__ import annotations

import json
import types
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from trimtab.errors import HistoryError, UsageError
from trimtab.history.record import LATEST_S, STUDY_STATUSES, StudyCopy
from trimtab.history.space import space_from_json
from trimtab.history.typed import from_json
from trimtab.measure import decode_histogram
from trimtab.records import CLASSES_KEPT, Objective, QueryClass
from trimtab.space import Config

__all__ = ["check_copy"]

_LARGEST_INT = 2**64
"""Servers have knobs of unsigned 64-bit numbers; nothing real is larger."""

_LARGEST_NUMBER = 2**31 - 1
"""Of a trial: what the columns of both databases hold."""

_LONGEST_NAME = 200
_DEEPEST = 40
_LARGEST_HISTOGRAM = 4 << 20


def check_copy(copy: StudyCopy, where: str) -> None:
    """Raises HistoryError when `copy` holds what no study can hold; `where` names the file in the message."""
    try:
        _check_study(copy)
        for trial in copy.trials:
            at = f"trials[{trial.number!r}]"
            _check(trial, type(trial), at)
            if trial.number < 0:
                raise _WrongError(f"{at}.number={trial.number} is below 0")
            if trial.number > _LARGEST_NUMBER:
                raise _WrongError(f"{at}.number={trial.number} is above {_LARGEST_NUMBER}")
            if not 0 <= trial.started_at < LATEST_S:
                raise _WrongError(f"{at}.started_at={trial.started_at} is not a time")
            if trial.measurement is not None:
                _check_histogram(trial.measurement.histogram, at)
        for index, event in enumerate(copy.events):
            _check(event, type(event), f"events[{index}]")
            if not 0 <= event.at < LATEST_S:
                raise _WrongError(f"events[{index}].at={event.at} is not a time")
            if event.kind == CLASSES_KEPT:
                _check_classes(event.text, f"events[{index}].text")
    except (_WrongError, HistoryError, UsageError) as error:
        reason = error.message if isinstance(error, HistoryError | UsageError) else str(error)
        raise HistoryError(
            f"file={where!r} cannot be imported: study={_short(copy.record.name)}: {reason}",
            hint="it was not written by Trimtab, or was changed since; nothing was imported",
        ) from error


class _WrongError(Exception):
    """A field is not what its type says."""


def _check_study(copy: StudyCopy) -> None:
    record = copy.record
    _check(record, type(record), "study")
    _check_name(record.name)
    if record.status not in STUDY_STATUSES:
        raise _WrongError(f"status={_short(record.status)} is unknown")
    if not 0 <= record.created_at < LATEST_S:
        raise _WrongError(f"created_at={record.created_at} is not a time")
    if not (0 <= record.machine.cores < 2**31 and 0 <= record.machine.memory_bytes < 2**63):
        raise _WrongError(
            f"cores={record.machine.cores} memory_bytes={record.machine.memory_bytes} are not those of a machine"
        )
    Objective.parse(record.objective)
    space_from_json(record.space)
    numbers = [trial.number for trial in copy.trials]
    if len(set(numbers)) < len(numbers):
        raise _WrongError("two trials have one number")


def _check_histogram(data: bytes, at: str) -> None:
    """It can be decoded, and does not swell: V2-deflate is a cookie and a length of 4 bytes each, then a zlib stream."""
    if not data:
        return
    stream = zlib.decompressobj()
    try:
        stream.decompress(data[8:], _LARGEST_HISTOGRAM)
    except zlib.error as error:
        raise _WrongError(f"{at}.measurement.histogram cannot be read: {error}") from error
    if stream.unconsumed_tail:
        raise _WrongError(f"{at}.measurement.histogram holds more than {_LARGEST_HISTOGRAM} bytes")
    decode_histogram(data)


def _check_classes(text: str, at: str) -> None:
    """Reports show what a server had learnt of its queries."""
    try:
        from_json(tuple[QueryClass, ...], json.loads(text), at)
    except (ValueError, RecursionError) as error:
        raise _WrongError(f"{at} holds no classes of queries: {_short(str(error))}") from error


def _check_name(name: str) -> None:
    """A name ends up in messages and in the names of files: it must be no path and must not steer a terminal."""
    if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable() or set(name) & set("/\\") or name in (".", ".."):
        raise _WrongError("invalid study name: use up to 200 printable characters without '/' and '\\'")


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _check(value: Any, kind: Any, at: str) -> None:
    """`value` is of `kind`, down to the last field."""
    origin = get_origin(kind)
    if kind is Any:
        _check_json(value, at, 0)
    elif origin in (Union, types.UnionType):
        _check_union(value, get_args(kind), at)
    elif origin is tuple:
        _check_tuple(value, get_args(kind), at)
    elif origin is not None and issubclass(origin, Mapping):
        _check_mapping(value, get_args(kind), at)
    elif kind is Config:
        _check_mapping(value, (str, bool | int | float | str), at)
    elif is_dataclass(kind) and isinstance(kind, type):
        _require(isinstance(value, kind), value, kind.__name__, at)
        hints = _hints(kind)
        for field in fields(kind):
            if field.name == "log":
                _require(value.log is None, value.log, "raw log", f"{at}.log")
            else:
                _check(getattr(value, field.name), hints[field.name], f"{at}.{field.name}")
    else:
        _check_scalar(value, kind, at)


def _check_scalar(value: Any, kind: Any, at: str) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind is float:
        _require(is_number, value, "number", at)
    elif kind is int:
        _require(is_number and isinstance(value, int), value, "whole number", at)
    elif isinstance(kind, type) and issubclass(kind, Enum):
        _require(isinstance(value, kind), value, kind.__name__, at)
    else:
        _require(isinstance(value, kind), value, getattr(kind, "__name__", str(kind)), at)
    if isinstance(value, int) and abs(value) > _LARGEST_INT:
        raise _WrongError(f"{at} is a number of {len(f'{abs(value):x}')} hexadecimal digits")


def _check_union(value: Any, kinds: Sequence[Any], at: str) -> None:
    for kind in kinds:
        if (value is None and kind is type(None)) or (value is not None and _fits(value, kind)):
            if value is not None:
                _check(value, kind, at)
            return
    raise _WrongError(f"{at}={_short(value)} is of a wrong type")


def _fits(value: Any, kind: Any) -> bool:
    kind = get_origin(kind) or kind
    if kind in (int, float):
        return isinstance(value, kind) and not isinstance(value, bool)
    return isinstance(kind, type) and isinstance(value, kind)


def _check_tuple(value: Any, kinds: Sequence[Any], at: str) -> None:
    _require(isinstance(value, tuple), value, "list", at)
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        kinds = [kinds[0]] * len(value)
    _require(len(value) == len(kinds), value, f"list of {len(kinds)}", at)
    for index, (item, kind) in enumerate(zip(value, kinds, strict=True)):
        _check(item, kind, f"{at}[{index}]")


def _check_mapping(value: Any, kinds: Sequence[Any], at: str) -> None:
    _require(isinstance(value, Mapping), value, "table", at)
    for key, item in value.items():
        _require(isinstance(key, str), key, "text", at)
        _check(item, kinds[1], f"{at}.{_short(key)}")


def _check_json(value: Any, at: str, depth: int) -> None:
    if depth > _DEEPEST:
        raise _WrongError(f"{at} is nested deeper than {_DEEPEST}")
    if isinstance(value, Mapping):
        for key, item in value.items():
            _require(isinstance(key, str), key, "text", at)
            _check_json(item, at, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            _check_json(item, at, depth + 1)
    elif isinstance(value, int):
        _check_scalar(value, bool if isinstance(value, bool) else int, at)
    else:
        _require(value is None or isinstance(value, str | float), value, "JSON value", at)


def _require(is_fine: bool, value: Any, wanted: str, at: str) -> None:
    if not is_fine:
        raise _WrongError(f"{at}={_short(value)} is not a {wanted}")


def _short(value: Any) -> str:
    text = repr(value) if isinstance(value, str | int | float | bool | None) else type(value).__name__
    return text if len(text) <= 60 else f"{text[:60]}…"
