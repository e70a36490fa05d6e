"""The constraint language over ranges of values: what is certainly false can be cut away.

An interval (low, high) holds every value that an expression can take while its names lie in theirs; it may be too
wide, never too narrow. Truth is an interval within (0, 1). Texts are the set of texts possible.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from trimtab.space.expression import COMPARISONS, Binary, Call, Choose, Name, Node, Number, Text, Unary

__all__ = ["Interval", "Possible", "can_hold", "span"]


@dataclass(frozen=True, slots=True)
class Interval:
    """All numbers from low to high."""

    low: float
    high: float


Possible = Interval | frozenset[str]
"""What an expression can be."""

_TRUE, _FALSE, _EITHER = Interval(1.0, 1.0), Interval(0.0, 0.0), Interval(0.0, 1.0)
_ANY = Interval(-math.inf, math.inf)
"""Every number, and what a division by zero gives: no comparison with that holds, so nothing made of it is certain."""

_SLACK = 2.0**-46
"""Relative widening against rounding: a part of a long sum may have been rounded at each step."""


def can_hold(node: Node, env: Mapping[str, Possible]) -> bool:
    """Whether a checked tree may be true for some values in `env`; False is certain."""
    return _may(_number(node, env))


def _may(truth: Interval) -> bool:
    return truth.low != 0 or truth.high != 0


def _must(truth: Interval) -> bool:
    return truth.low > 0 or truth.high < 0


def _number(node: Node, env: Mapping[str, Possible]) -> Interval:
    found = span(node, env)
    return found if isinstance(found, Interval) else _ANY


def span(node: Node, env: Mapping[str, Possible]) -> Possible:
    """Everything that a checked tree can be."""
    match node:
        case Number():
            return Interval(float(node.value), float(node.value))
        case Text():
            return frozenset({node.value})
        case Name():
            return env[node.name]
        case Unary():
            inner = _number(node.operand, env)
            if node.op == "not":
                return Interval(0.0 if _may(inner) else 1.0, 0.0 if _must(inner) else 1.0)
            return Interval(-inner.high, -inner.low) if node.op == "-" else inner
        case Binary():
            return _binary(node, env)
        case Choose():
            return _choose(node, env)
        case Call():
            return _call(node, [_number(argument, env) for argument in node.arguments])


def _choose(node: Choose, env: Mapping[str, Possible]) -> Possible:
    condition = _number(node.condition, env)
    if _must(condition):
        return span(node.yes, env)
    if not _may(condition):
        return span(node.no, env)
    yes, no = span(node.yes, env), span(node.no, env)
    if isinstance(yes, frozenset) and isinstance(no, frozenset):
        return yes | no
    if isinstance(yes, Interval) and isinstance(no, Interval):
        return Interval(min(yes.low, no.low), max(yes.high, no.high))
    return _ANY


def _call(node: Call, parts: list[Interval]) -> Interval:
    if _ANY in parts:
        return _ANY
    if node.function == "abs":
        only = parts[0]
        low = 0.0 if only.low <= 0 <= only.high else min(abs(only.low), abs(only.high))
        return Interval(low, max(abs(only.low), abs(only.high)))
    pick = min if node.function == "min" else max
    return Interval(reduce(pick, (p.low for p in parts)), reduce(pick, (p.high for p in parts)))


def _binary(node: Binary, env: Mapping[str, Possible]) -> Interval:
    left, right = span(node.left, env), span(node.right, env)
    if isinstance(left, frozenset) or isinstance(right, frozenset):
        return _compare_texts(node.op, left, right)
    if node.op in COMPARISONS:
        return _compare(node.op, left, right)
    match node.op:
        case "and":
            return Interval(float(_must(left) and _must(right)), float(_may(left) and _may(right)))
        case "or":
            return Interval(float(_must(left) or _must(right)), float(_may(left) or _may(right)))
        case "+":
            return _wide(left.low + right.low, left.high + right.high)
        case "-":
            return _wide(left.low - right.high, left.high - right.low)
        case "*":
            return _product(left, right)
        case "/":
            return _quotient(left, right)
        case "//":
            found = _quotient(left, right)
            return Interval(_floor(found.low, -_SLACK), _floor(found.high, _SLACK))
        case _:
            return _ANY if left == _ANY else _remainder(right)


def _compare_texts(op: str, left: Possible, right: Possible) -> Interval:
    if not isinstance(left, frozenset) or not isinstance(right, frozenset):
        return _EITHER
    if not left & right:
        return _FALSE if op == "==" else _TRUE
    if len(left) == len(right) == 1:
        return _TRUE if op == "==" else _FALSE
    return _EITHER


def _compare(op: str, left: Interval, right: Interval) -> Interval:
    match op:
        case "<" | "<=":
            return _is_below(left, right, op == "<=")
        case ">" | ">=":
            return _is_below(right, left, op == ">=")
    apart = _is_surely_less(left.high, right.low) or _is_surely_less(right.high, left.low)
    same = left.low == left.high == right.low == right.high
    equal = _FALSE if apart else _TRUE if same else _EITHER
    return equal if op == "==" else Interval(1.0 - equal.high, 1.0 - equal.low)


def _is_below(left: Interval, right: Interval, or_equal: bool) -> Interval:
    if _is_surely_less(right.high, left.low):
        return _FALSE
    if not or_equal and left.low == left.high == right.low == right.high:
        return _FALSE
    return _TRUE if _is_surely_less(left.high, right.low) else _EITHER


def _is_surely_less(a: float, b: float) -> bool:
    if math.isinf(a) or math.isinf(b):
        return a < b
    return b - a > _SLACK * max(abs(a), abs(b))


def _wide(low: float, high: float) -> Interval:
    """The interval with NaN (an infinity less an infinity) standing for all."""
    return Interval(-math.inf if math.isnan(low) else low, math.inf if math.isnan(high) else high)


def _times(a: float, b: float) -> float:
    return 0.0 if a == 0 or b == 0 else a * b


def _product(left: Interval, right: Interval) -> Interval:
    if _ANY in (left, right):
        return _ANY
    ends = [_times(a, b) for a in (left.low, left.high) for b in (right.low, right.high)]
    return Interval(min(ends), max(ends))


def _quotient(left: Interval, right: Interval) -> Interval:
    # A divisor that may be zero may give NaN, of which nothing is certain.
    if right.low <= 0 <= right.high or math.inf in (left.high, -left.low, right.high, -right.low):
        return _ANY
    ends = [a / b for a in (left.low, left.high) for b in (right.low, right.high)]
    return Interval(min(ends), max(ends))


def _floor(value: float, widening: float) -> float:
    # The quotient may have been rounded across a whole number.
    return value if math.isinf(value) else math.floor(value + abs(value) * widening)


def _remainder(right: Interval) -> Interval:
    if right.low > 0:
        return Interval(0.0, right.high)
    return Interval(right.low, 0.0) if right.high < 0 else _ANY
