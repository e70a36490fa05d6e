"""Small arithmetic for useful ranges: "memory / 4", "min(cores * 4, 64)", "1GiB", in bytes and seconds."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping

from trimtab.errors import UsageError
from trimtab.units import unit_factor

__all__ = ["evaluate"]

_WITH_UNIT = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)\s*([kKMGT]i?B|B|us|ms|s|min|h)\b")
_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_MAX_LENGTH = 1000
_FUNCTIONS: dict[str, Callable[..., float]] = {"min": min, "max": max}


def evaluate(text: str, names: Mapping[str, float]) -> float:
    """The value of `text` in base units (bytes, seconds) with `names` standing for numbers.

    Sizes are binary, as PostgreSQL counts them (1 MB is 1048576 bytes).

    Raises:
        UsageError: it is not arithmetic over numbers, sizes, durations, min(), max() and the given names.
    """
    try:
        if len(text) > _MAX_LENGTH:
            raise ValueError(f"it is longer than {_MAX_LENGTH} characters")
        plain = _WITH_UNIT.sub(lambda match: repr(float(match[1]) * unit_factor(match[2])[0]), text)
        return _value(ast.parse(plain, mode="eval").body, names)
    except (SyntaxError, ValueError, ZeroDivisionError, OverflowError, RecursionError, MemoryError) as error:
        raise UsageError(
            f"cannot evaluate expression={text!r}: {error}",
            hint=f"use + - * / min() max(), sizes (8MB), durations (30s), and: {', '.join(names) or 'no names'}",
        ) from error


def _value(node: ast.expr, names: Mapping[str, float]) -> float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, names)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left, names), _value(right, names))
        case ast.Call(func=ast.Name(id=name), args=[_, *_] as args, keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_value(arg, names) for arg in args))
    raise ValueError(f"{ast.unparse(node)!r} is not allowed")
