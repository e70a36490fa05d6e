"""Knobs as the API takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["boolean", "choice", "integer", "ordinal", "real"]


def integer(name: str, low: int, high: int, *, default: int | None = None, step: int | None = None, log: bool = False,
            unit: str = "", special: Sequence[int] = (), condition: str | None = None) -> dict[str, Any]:  # fmt: skip
    """A whole number in [low, high]; `special` are legal values outside. Without a default it begins in the middle."""
    return _numeric("integer", name, low, high, default, step, log, unit, special, condition)


def real(name: str, low: float, high: float, *, default: float | None = None, step: float | None = None, log: bool = False,
         unit: str = "", special: Sequence[float] = (), condition: str | None = None) -> dict[str, Any]:  # fmt: skip
    """A number in [low, high]; without a step it is held to six digits, or to more in a range that needs them."""
    return _numeric("real", name, low, high, default, step, log, unit, special, condition)


def _numeric(kind: str, name: str, low: float, high: float, default: float | None, step: float | None, log: bool,
             unit: str, special: Sequence[float], condition: str | None) -> dict[str, Any]:  # fmt: skip
    return {
        "name": name, "kind": kind, "low": low, "high": high, "default": default, "step": step, "log": log, "unit": unit,
        "special": list(special), "condition": condition,
    }  # fmt: skip


def boolean(name: str, *, default: bool = False, condition: str | None = None) -> dict[str, Any]:
    """True or false."""
    return {"name": name, "kind": "boolean", "default": default, "condition": condition}


def choice(
    name: str, choices: Sequence[str], *, default: str | None = None, condition: str | None = None
) -> dict[str, Any]:
    """One of some texts, without order; the first is the default."""
    return {"name": name, "kind": "choice", "choices": list(choices), "default": default, "condition": condition}


def ordinal(
    name: str, choices: Sequence[str], *, default: str | None = None, condition: str | None = None
) -> dict[str, Any]:
    """One of some texts, in the order given."""
    return {**choice(name, choices, default=default, condition=condition), "kind": "ordinal"}
