"""Conditions: when a knob has an effect, and in which order that is decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter

import numpy as np

from trimtab.errors import SpaceError
from trimtab.space.evaluate import Column, evaluate, holds
from trimtab.space.expression import (
    COMPARISONS,
    Binary,
    Choose,
    Name,
    Node,
    Number,
    Type,
    Unary,
    check,
    names_in,
    parse,
)
from trimtab.space.knob import Knob, Value
from trimtab.space.lexer import syntax_error
from trimtab.units import Dimension

__all__ = [
    "Condition",
    "amount",
    "as_column",
    "constant_type",
    "is_shown",
    "is_true",
    "ordered_conditions",
    "require_condition",
]


@dataclass(frozen=True, slots=True)
class Condition:
    """`knob` is active while `tree` is true; `knobs` are the names that the tree takes from the config."""

    knob: str
    tree: Node
    knobs: tuple[str, ...]
    constants: Mapping[str, Column] = field(default_factory=dict)


def as_column(value: Value) -> Column:
    """A constant as the evaluator takes it."""
    return np.str_(value) if isinstance(value, str) else np.float64(value)


def require_condition(text: str) -> None:
    """That a text is a condition, and not arithmetic, which would hold wherever it is not 0. A bare name may stand for a boolean.

    Raises:
        SpaceError: it is arithmetic, or not in the language.
    """
    found = _arithmetic(_parsed(text)[0])
    if found is not None:
        error = syntax_error(text, found.position, "arithmetic instead of a condition")
        raise SpaceError(error.message, hint="compare it with something, as in: reads > 2 * writes")


def _arithmetic(node: Node) -> Node | None:
    """The first part that is to be true or false and is neither; truth itself is 1 and 0."""
    match node:
        case Binary(op="and" | "or"):
            parts: tuple[Node, ...] = (node.left, node.right)
        case Unary(op="not"):
            parts = (node.operand,)
        case Choose():
            parts = (node.condition, node.yes, node.no)
        case Binary() if node.op in COMPARISONS:
            parts = ()
        case Name() | Number(value=0 | 1, dimension=Dimension.NUMBER):
            parts = ()
        case _:
            return node
    return next((found for part in parts if (found := _arithmetic(part)) is not None), None)


def is_true(text: str, facts: Mapping[str, float], dimensions: Mapping[str, Dimension]) -> bool:
    """Whether a condition holds for plain facts: numbers in base units, of the given dimensions.

    Raises:
        SpaceError: it is not in the language, is no condition, or speaks of something that is no fact.
    """
    require_condition(text)
    tree = _parsed(text)[0]
    check(tree, {name: Type(dimension=dimensions[name]) for name in facts if name in dimensions}, text)
    return bool(holds(tree, {name: np.float64(value) for name, value in facts.items()}).all())


def is_shown(text: str, counted: Mapping[str, float]) -> bool:
    """Whether a condition over counts of a server holds; so it does where it is empty, or one of its counts is not known.

    Raises:
        SpaceError: it is not in the language, or is no condition.
    """
    if not text:
        return True
    require_condition(text)
    names = _parsed(text)[1]
    if any(name not in counted for name in names):
        return True
    return is_true(text, {name: counted[name] for name in names}, dict.fromkeys(names, Dimension.NUMBER))


def amount(text: str, facts: Mapping[str, Value]) -> float:
    """The number that arithmetic in the constraint language gives, in base units: "min(memory / 4, 8GB)" in bytes.

    Args:
        text: the arithmetic.
        facts: name -> value in base units, bare; texts stand for choices.

    Raises:
        SpaceError: it is not in the language, speaks of something that is no fact, or gives no finite number.
    """
    try:
        known = tuple((name, facts[name]) for name in _parsed(text)[1] if name in facts)
        return _amount(text, known)
    except SpaceError as error:
        names = f"and: {', '.join(facts)}" if facts else "and no names"
        hint = f"use + - * / min() max(), sizes (8MB), durations (30s), {names}"
        raise SpaceError(f"cannot evaluate expression={text[:200]!r}: {error.message}", hint=hint) from error


@lru_cache(maxsize=4096)
def _parsed(text: str) -> tuple[Node, tuple[str, ...]]:
    """The tree, and the names in it."""
    tree = parse(text)
    return tree, tuple(dict.fromkeys(name.name for name in names_in(tree)))


@lru_cache(maxsize=4096)
def _amount(text: str, facts: tuple[tuple[str, Value], ...]) -> float:
    """A catalogue asks the same of the same facts each time that its knobs are read."""
    tree = _parsed(text)[0]
    if check(tree, {name: constant_type(value) for name, value in facts}, text).is_text:
        raise SpaceError("it is a text", hint="write a number")
    found = float(np.asarray(evaluate(tree, {name: as_column(value) for name, value in facts})))
    if not np.isfinite(found):
        raise SpaceError(f"it is {found} on this machine", hint="keep it within the range of numbers")
    return found


def constant_type(value: Value) -> Type:
    """Texts are texts, all else bare numbers."""
    return Type(is_text=isinstance(value, str))


def ordered_conditions(
    knobs: Sequence[Knob], types: Mapping[str, Type], fixed: Mapping[str, Value]
) -> tuple[Condition, ...]:
    """The conditions of `knobs`, each after those of the knobs that it depends on.

    A condition that needs a name that is neither a knob of the space nor in `fixed` cannot be decided: its knob then
    counts as active.

    Raises:
        SpaceError: a condition is not in the language, or knobs depend on each other in a circle.
    """
    known = {**{name: constant_type(value) for name, value in fixed.items()}, **types}
    found: dict[str, Condition] = {}
    for knob in knobs:
        if knob.condition is None:
            continue
        tree = parse(knob.condition)
        names = dict.fromkeys(name.name for name in names_in(tree))
        if not known.keys() >= names.keys():
            continue
        check(tree, known, knob.condition)
        require_condition(knob.condition)
        inside = tuple(name for name in names if name in types)
        outside = {name: as_column(fixed[name]) for name in names if name not in types}
        found[knob.name] = Condition(knob.name, tree, inside, outside)
    try:
        order = list(TopologicalSorter({name: c.knobs for name, c in found.items()}).static_order())
    except CycleError as error:
        circle = " -> ".join(error.args[1])
        raise SpaceError(f"conditions go in a circle: {circle}", hint="drop one of these conditions") from error
    return tuple(found[name] for name in order if name in found)
