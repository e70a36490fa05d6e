"""The constraint language evaluated on numbers and on whole columns of numbers at once.

Everything numeric is a float64 (integers are exact up to 2^53); truth is 1.0 and 0.0. A division by zero gives NaN, and
no comparison with NaN holds. Comparisons forgive the last two bits, so that 0.1 * 3 <= 0.3 holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from trimtab.space.expression import COMPARISONS, Binary, Call, Choose, Name, Node, Number, Text, Unary

__all__ = ["SLACK", "Column", "evaluate", "excess", "holds"]

Column = NDArray[np.float64] | NDArray[np.str_] | np.float64 | np.str_
"""A value, or one a config."""

Floats = NDArray[np.float64]

SLACK = 2.0**-50
"""Relative difference below which two sides of a comparison count as equal: four units in the last place."""


def _known(values: Floats) -> Floats:
    return np.where(np.isfinite(values), values, 0.0)


def is_close(left: Floats, right: Floats) -> NDArray[np.bool_]:
    """Where two sides differ by rounding only."""
    size = np.maximum(np.abs(_known(left)), np.abs(_known(right)))
    return np.asarray(np.abs(left - right) <= SLACK * size)


def _compare(op: str, left: Floats, right: Floats) -> NDArray[np.bool_]:
    close = is_close(left, right)
    match op:
        case "<=":
            return np.asarray((left <= right) | close)
        case ">=":
            return np.asarray((left >= right) | close)
        case "<":
            return np.asarray((left < right) & ~close)
        case ">":
            return np.asarray((left > right) & ~close)
        case "==":
            return np.asarray((left == right) | close)
        case _:
            return np.asarray(~((left == right) | close) & ~(np.isnan(left) | np.isnan(right)))


def _divide(op: str, left: Floats, right: Floats) -> Floats:
    divisor = np.where(right == 0, np.nan, right)
    if op == "/":
        return np.asarray(left / divisor)
    return np.asarray(np.floor_divide(left, divisor) if op == "//" else np.mod(left, divisor))


_ARITHMETIC: dict[str, Callable[[Floats, Floats], Floats]] = {
    "+": lambda a, b: np.asarray(a + b),
    "-": lambda a, b: np.asarray(a - b),
    "*": lambda a, b: np.asarray(a * b),
}


def evaluate(node: Node, env: Mapping[str, Column]) -> Column:
    """The value of a checked tree, names taken from `env`; a column as long as the columns in `env`."""
    with np.errstate(all="ignore"):
        return _value(node, env)


def holds(node: Node, env: Mapping[str, Column]) -> NDArray[np.bool_]:
    """Where a checked tree is true: neither 0 nor NaN."""
    with np.errstate(all="ignore"):
        return _truth(_number(node, env))


def _truth(values: Floats) -> NDArray[np.bool_]:
    return np.asarray((values != 0) & ~np.isnan(values))


def _number(node: Node, env: Mapping[str, Column]) -> Floats:
    return np.asarray(_value(node, env), dtype=np.float64)


def _value(node: Node, env: Mapping[str, Column]) -> Column:
    match node:
        case Number():
            return np.float64(float(node.value))
        case Text():
            return np.str_(node.value)
        case Name():
            return env[node.name]
        case Unary():
            inner = _number(node.operand, env)
            if node.op == "not":
                return np.where(_truth(inner), 0.0, 1.0)
            return -inner if node.op == "-" else inner
        case Binary():
            return _binary(node, env)
        case Choose():
            condition = _truth(_number(node.condition, env))
            return np.where(condition, _value(node.yes, env), _value(node.no, env))
        case Call():
            numbers = [_number(argument, env) for argument in node.arguments]
            if node.function == "abs":
                return np.abs(numbers[0])
            return reduce(np.minimum if node.function == "min" else np.maximum, numbers)


def _binary(node: Binary, env: Mapping[str, Column]) -> Floats:
    op = node.op
    if op in ("==", "!="):
        left, right = _value(node.left, env), _value(node.right, env)
        if np.asarray(left).dtype.kind == "U":
            same = np.asarray(left) == np.asarray(right)
            return np.asarray(same if op == "==" else ~same, dtype=np.float64)
    a, b = _number(node.left, env), _number(node.right, env)
    if op in COMPARISONS:
        return np.asarray(_compare(op, a, b), dtype=np.float64)
    if op in ("and", "or"):
        both = _truth(a) & _truth(b) if op == "and" else _truth(a) | _truth(b)
        return np.asarray(both, dtype=np.float64)
    if op in _ARITHMETIC:
        return _ARITHMETIC[op](a, b)
    return _divide(op, a, b)


def excess(node: Node, env: Mapping[str, Column]) -> Floats:
    """How far a checked tree is from true: 0 where it holds, else above 0; comparisons relative to their larger
    side."""
    with np.errstate(all="ignore"):
        return np.where(_truth(_number(node, env)), 0.0, np.maximum(_gap(node, env), SLACK))


def _gap(node: Node, env: Mapping[str, Column]) -> Floats:
    if isinstance(node, Binary) and node.op in ("and", "or"):
        left, right = excess(node.left, env), excess(node.right, env)
        return left + right if node.op == "and" else np.minimum(left, right)
    if isinstance(node, Binary) and node.op in ("<", "<=", ">", ">=", "=="):
        left, right = np.asarray(_value(node.left, env)), np.asarray(_value(node.right, env))
        if left.dtype.kind != "U":
            size = np.maximum(np.abs(left), np.abs(right))
            gap = np.abs(left - right) / np.where(size > 0, size, 1.0)
            return np.where(np.isfinite(gap), gap, 2.0)
    return np.where(_truth(_number(node, env)), 0.0, 1.0)
