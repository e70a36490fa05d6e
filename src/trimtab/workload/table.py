"""Reads the keys of a [workload] table one by one, with errors that name the key and what was meant."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from typing import Any

from trimtab.errors import UsageError
from trimtab.units import parse_duration

__all__ = ["Table"]

_MOST = 10**300
"""Beyond that a whole number has no floating-point value."""


class Table:
    """A TOML table whose keys are known.

    Args:
        values: the table.
        name: as it is written in the file: "[workload]".
        keys: every key it may have.

    Raises:
        UsageError: a key that is not among them, or a whole number beyond all that is measured.
    """

    def __init__(self, values: Mapping[str, Any], name: str, keys: Sequence[str]) -> None:
        self.values = values
        self.name = name
        for key, value in values.items():
            if isinstance(value, int) and abs(value) > _MOST:
                raise UsageError(f"{name} {key} is a number beyond {_MOST:.0e}", hint="write a smaller one")
            if key not in keys:
                raise UsageError(f"unknown key in {name}: {key}={values[key]!r}", hint=_meant(key, name, keys))

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def refuse(self, key: str, rule: str) -> UsageError:
        """The error for a wrong value of `key`, to be raised by the caller."""
        return UsageError(f"{self.name} {key}={self.values.get(key)!r} is out of range", hint=rule)

    def choice(self, key: str, choices: Sequence[str], default: str) -> str:
        """One of `choices`.

        Raises:
            UsageError: another value.
        """
        value = self.values.get(key, default)
        if value not in choices:
            raise UsageError(f"{self.name} {key}={value!r} is not known", hint=f"use one of: {', '.join(choices)}")
        return str(value)

    def flag(self, key: str, default: bool) -> bool:
        """True or false.

        Raises:
            UsageError: another value.
        """
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            raise UsageError(f"{self.name} {key}={value!r} is not a flag", hint="use true or false")
        return value

    def integer(self, key: str, default: int, low: int, high: int) -> int:
        """A whole number from `low` to `high`.

        Raises:
            UsageError: another value.
        """
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.refuse(key, f"use a whole number from {low} to {high}")
        return value

    def number(self, key: str, default: float, low: float, high: float) -> float:
        """A finite number from `low` to `high`.

        Raises:
            UsageError: another value.
        """
        value = self.values.get(key, default)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or not low <= value <= high:
            raise self.refuse(key, f"use a number from {low:g} to {high:g}")
        return float(value)

    def text(self, key: str, default: str | None = None) -> str:
        """A text that is not empty.

        Raises:
            UsageError: no text, an empty one, or none at all without a default.
        """
        value = self.values.get(key, default)
        if value is None:
            raise UsageError(f"{self.name} lacks {key}", hint=f'add {key} = "..."')
        if not isinstance(value, str) or not value:
            raise UsageError(f"{self.name} {key}={value!r} is not a text", hint=f'write {key} = "..."')
        return value

    def seconds(self, key: str, default: str, low: float = 0.0) -> float:
        """A duration above `low` seconds, written like "10s" or as a number of seconds.

        Raises:
            UsageError: another value.
        """
        value = self.values.get(key, default)
        seconds = parse_duration(value) if isinstance(value, str) else value
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not low < seconds < math.inf:
            raise UsageError(f"{self.name} {key}={value!r} is not a duration", hint=f'for example: {key} = "{default}"')
        return float(seconds)


def _meant(key: str, name: str, keys: Sequence[str]) -> str:
    """What was probably meant by a key that the table does not have."""
    from trimtab.workload.load_model import KEYS  # which is read by this module

    if name == "[workload]" and key in KEYS and "load" in keys:
        return f"{key} belongs to [workload.load]"
    near = difflib.get_close_matches(key, keys, n=1)
    return f"did you mean {near[0]}?" if near else f"the keys are: {', '.join(keys)}"
