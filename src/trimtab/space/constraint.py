"""Constraint: a condition over knobs that every config of a space must meet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import SpaceError
from trimtab.space.axis import base_value, format_base
from trimtab.space.condition import as_column, constant_type, require_condition
from trimtab.space.evaluate import Column, evaluate, excess, holds
from trimtab.space.expression import COMPARISONS, Binary, Node, Type, check, conjuncts, names_in, parse
from trimtab.space.interval import Interval, Possible, can_hold, span
from trimtab.space.knob import Knob, Value
from trimtab.space.rename import renamed
from trimtab.units import Dimension, unit_ratio

__all__ = ["BoundConstraint", "Constraint", "type_of"]

Mask = NDArray[np.bool_]

_ORDERED = frozenset({"<=", "<", ">=", ">"})
_CONTRARY = {"<=": ">", "<": ">=", ">=": "<", ">": "<=", "==": "!=", "!=": "=="}


def type_of(knob: Knob) -> Type:
    """The type of a knob's name in a constraint."""
    return Type(is_text=knob.is_text, dimension=unit_ratio(knob.unit)[1])


@dataclass(frozen=True, slots=True)
class Constraint:
    """What must hold between knobs, as text: "shared_buffers + 40 * work_mem <= 1GiB".

    A knob's name means its value in bytes, seconds or as a bare number; its special values mean their bare number;
    booleans are 1 and 0, choices texts. Numbers may carry units. `docs/reference/space.md` has the whole language.

    Attributes:
        text: the condition.
        name: what messages call it; "" for the text itself.
        constants: further names with their values in base units (a memory budget, a number of clients, knobs that are
            not in the space). A knob of the space goes before a constant of the same name.
        hint: what to do when no config meets it; "" for the general advice.

    Raises:
        SpaceError: the text is not in the language.
    """

    text: str
    name: str = ""
    constants: Mapping[str, Value] = field(default_factory=dict, hash=False)
    hint: str = field(default="", compare=False)
    tree: Node = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tree", parse(self.text))

    @property
    def label(self) -> str:
        """What messages call it."""
        return self.name or self.text

    @property
    def names(self) -> tuple[str, ...]:
        """The names in the text, each once, in order."""
        return tuple(dict.fromkeys(name.name for name in names_in(self.tree)))

    def renamed(self, rename: Callable[[str], str]) -> Constraint:
        """The same under other names, its constants too; called what it was called, after the new names."""
        text = renamed(self.text, rename)
        name = rename(self.name) if self.name and self.name != self.text else ""
        return Constraint(text, name, {rename(each): value for each, value in self.constants.items()}, self.hint)

    def without_constants(self, names: Collection[str]) -> Constraint:
        """The same without its own values of `names`, which come from elsewhere."""
        kept = {name: value for name, value in self.constants.items() if name not in names}
        return self if len(kept) == len(self.constants) else replace(self, constants=kept)

    def bind(self, knobs: Mapping[str, Knob], fixed: Mapping[str, Value] | None = None) -> BoundConstraint:
        """The constraint over `knobs`; names that are none are taken from `constants`, then from `fixed`.

        Raises:
            SpaceError: an unknown name, arithmetic on texts, sizes beside durations, or a text or arithmetic in place of a
                condition.
        """
        constants = {**(fixed or {}), **self.constants}
        types = {**{n: constant_type(v) for n, v in constants.items()}, **{n: type_of(k) for n, k in knobs.items()}}
        if check(self.tree, types, self.text).is_text:
            raise SpaceError(f"{self.text!r} is a text and no condition", hint='compare it, as in: method == "ring"')
        require_condition(self.text)
        inside = tuple(name for name in self.names if name in knobs)
        outside = {name: constants[name] for name in self.names if name not in knobs}
        return BoundConstraint(self, inside, outside, types, tuple(conjuncts(self.tree)))

    def is_met(self, values: Mapping[str, Value], knobs: Mapping[str, Knob]) -> bool:
        """Whether the constraint holds for `values`, which count in the units of `knobs`.

        Raises:
            SpaceError: the text has a name that is neither in `knobs` nor a constant.
        """
        bound = self.bind(knobs)
        env = {name: as_column(base_value(knobs[name], values[name])) for name in bound.knobs}
        return bool(bound.mask(env))


@dataclass(frozen=True, slots=True)
class BoundConstraint:
    """A constraint whose names are resolved. `clauses` are the parts of the conjunction at the top of its tree."""

    constraint: Constraint
    knobs: tuple[str, ...]
    constants: Mapping[str, Value]
    types: Mapping[str, Type]
    clauses: tuple[Node, ...]

    def _full(self, env: Mapping[str, Column]) -> dict[str, Column]:
        return {**{name: as_column(value) for name, value in self.constants.items()}, **env}

    def mask(self, env: Mapping[str, Column]) -> Mask:
        """Where it holds; `env` has the knobs' columns."""
        return holds(self.constraint.tree, self._full(env))

    def excess(self, env: Mapping[str, Column]) -> NDArray[np.float64]:
        """How far from met, summed over the clauses; 0 where met."""
        full = self._full(env)
        return np.asarray(sum(excess(clause, full) for clause in self.clauses))

    def explain(self, env: Mapping[str, Column], shown: Mapping[str, str]) -> str:
        """Why a single config does not meet it, with numbers; `shown` has the knobs' values as text. "" when it is
        met."""
        full = self._full(env)
        broken = next((clause for clause in self.clauses if not holds(clause, full).all()), None)
        if broken is None:
            return ""
        values = ", ".join(f"{name}={shown[name]}" for name in self.knobs)
        return f"{self.constraint.label}: {self._sides(broken, full)}" + (f" ({values})" if values else "")

    def _sides(self, clause: Node, env: Mapping[str, Column]) -> str:
        if not isinstance(clause, Binary) or clause.op not in COMPARISONS:
            return "is false"
        left, right = (np.asarray(evaluate(side, env)).ravel()[0] for side in (clause.left, clause.right))
        if isinstance(left, str):
            return f"{left} {_CONTRARY[clause.op]} {right}"
        if np.isnan(left) or np.isnan(right):
            return "it divides by zero"
        first, second = self._formatted(clause, float(left), float(right))
        return f"{first} {_CONTRARY[clause.op]} {second}"

    def _formatted(self, clause: Binary, left: float, right: float) -> tuple[str, str]:
        """Two numbers in the units of the sides of `clause`, with as many digits as it takes to see them differ."""
        types = [check(side, self.types, self.constraint.text) for side in (clause.left, clause.right)]
        dimension = next((t.dimension for t in types if t.dimension is not Dimension.NUMBER), Dimension.NUMBER)
        first, second = format_base(left, dimension), format_base(right, dimension)
        return (f"{left:.17g}", f"{right:.17g}") if first == second else (first, second)

    @property
    def outside(self) -> dict[str, Possible]:
        """The constants as what they can be: one value each."""
        return {
            name: frozenset({value}) if isinstance(value, str) else Interval(float(value), float(value))
            for name, value in self.constants.items()
        }

    def shortfall(self, domains: Mapping[str, Possible]) -> str:
        """How near the sides of a clause that cannot hold come to each other while the knobs lie in `domains`.

        "" when interval arithmetic does not show it, or the clause compares no sizes.
        """
        env = {**self.outside, **domains}
        for clause in self.clauses:
            if not isinstance(clause, Binary) or clause.op not in _ORDERED or can_hold(clause, env):
                continue
            left, right = span(clause.left, env), span(clause.right, env)
            if not isinstance(left, Interval) or not isinstance(right, Interval):
                continue
            if clause.op in ("<=", "<"):
                first, second = self._formatted(clause, left.low, right.high)
                return f"the left side is at least {first}, the right side at most {second}"
            first, second = self._formatted(clause, left.high, right.low)
            return f"the left side is at most {first}, the right side at least {second}"
        return ""
