"""What constraints leave of each knob's range, and which constraints contradict each other.

Linear constraints are bounded exactly (`trimtab.space.programme`). All others are cut by shaving: a part of a
knob's range in which interval arithmetic shows a constraint to be false, whatever the other knobs are, is dropped.
Nothing feasible is ever cut. Conditions need no care here: constraints are about canonical configs, and an inactive
knob's default is one of its values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial

import numpy as np

from trimtab.space.axis import REGULAR, LabelAxis, NumberAxis
from trimtab.space.constraint import BoundConstraint
from trimtab.space.encoding import Encoding
from trimtab.space.expression import Node, names_in
from trimtab.space.interval import Interval, Possible, can_hold
from trimtab.space.lattice import Lattice
from trimtab.space.linear import Row, rows_of
from trimtab.space.programme import Programme

__all__ = ["Tightening"]

_ROUNDS = 4
_PARTS = 2**40
"""Into how many parts a continuum is divided for shaving."""


@dataclass(slots=True)
class _Domain:
    """What is left of an axis: levels low .. high of the regular range (none when low > high), and points or labels."""

    axis: NumberAxis | LabelAxis
    low: int
    high: int
    bins: list[int]

    @property
    def is_empty(self) -> bool:
        return self.low > self.high and not self.bins

    def value(self, level: int) -> float:
        """The knob's value at a level."""
        regular = self.axis.knob.range
        if isinstance(regular, Lattice):
            return float(regular.level(level))
        return regular.low + (regular.high - regular.low) * (level / _PARTS)

    def _base(self, values: Sequence[float], bins: Sequence[int]) -> Possible:
        column = self.axis.base(np.array(values, dtype=np.float64), np.array(bins, dtype=np.int64))
        if column.dtype.kind == "U":
            return frozenset(str(text) for text in np.asarray(column).tolist())
        return Interval(float(column.min()), float(column.max()))

    def of_bins(self, bins: Sequence[int]) -> Possible:
        """What points or labels are in constraints."""
        points = self.axis.points if isinstance(self.axis, NumberAxis) else range(len(self.axis.labels))
        return self._base([float(points[i]) for i in bins], bins)

    def of_levels(self, low: int, high: int) -> Possible:
        """What a part of the regular range is in constraints."""
        return self._base([self.value(low), self.value(high)], [REGULAR, REGULAR])

    def all(self) -> Possible:
        """What the whole domain is in constraints."""
        if self.low > self.high:
            return self.of_bins(self.bins)
        regular = self.of_levels(self.low, self.high)
        if not self.bins or not isinstance(regular, Interval):
            return regular
        points = self.of_bins(self.bins)
        if not isinstance(points, Interval):
            return regular
        return Interval(min(regular.low, points.low), max(regular.high, points.high))

    def shave(self, is_possible: Callable[[Possible], bool]) -> bool:
        """Drops what is not possible; returns whether anything was."""
        before = (self.low, self.high, len(self.bins))
        self.bins = [i for i in self.bins if is_possible(self.of_bins([i]))]
        if self.low <= self.high:
            if not is_possible(self.of_levels(self.low, self.high)):
                self.low, self.high = 0, -1
            else:
                self.low = self._first(self.low, self.high, lambda k: is_possible(self.of_levels(self.low, k)))
                self.high = -self._first(-self.high, -self.low, lambda k: is_possible(self.of_levels(-k, self.high)))
        return before != (self.low, self.high, len(self.bins))

    @staticmethod
    def _first(low: int, high: int, is_possible: Callable[[int], bool]) -> int:
        """The least k in low .. high for which `is_possible` holds; it holds for all k above it, and for `high`."""
        while low < high:
            middle = (low + high) // 2
            if is_possible(middle):
                high = middle
            else:
                low = middle + 1
        return low


def _domain(axis: NumberAxis | LabelAxis) -> _Domain:
    if isinstance(axis, LabelAxis):
        return _Domain(axis, 0, -1, list(range(len(axis.labels))))
    high = axis.regular.n - 1 if isinstance(axis.regular, Lattice) else _PARTS
    return _Domain(axis, 0, high, list(range(len(axis.points))))


class Tightening:
    """The constraints of a space, taken apart into rows and others."""

    def __init__(self, encoding: Encoding, constraints: Sequence[BoundConstraint]) -> None:
        self._axes = encoding.axes
        self._rows: list[Row] = []
        self._others: list[tuple[Node, dict[str, Possible]]] = []
        for constraint in constraints:
            self._take_apart(constraint)

    def _take_apart(self, constraint: BoundConstraint) -> None:
        numbers = {n: v for n, v in constraint.constants.items() if not isinstance(v, str)}
        exact = {name: Fraction(repr(float(value))) for name, value in numbers.items()}
        variables = [name for name in constraint.knobs if not constraint.types[name].is_text]
        outside: dict[str, Possible] = {
            name: frozenset({value}) if isinstance(value, str) else Interval(float(value), float(value))
            for name, value in constraint.constants.items()
        }
        for clause in constraint.clauses:
            rows = rows_of(clause, exact, variables)
            if rows is None:
                self._others.append((clause, outside))
            else:
                self._rows += rows

    @property
    def is_linear(self) -> bool:
        """Whether every constraint is, so that bounds are exact."""
        return not self._others

    @cached_property
    def programme(self) -> Programme:
        """The linear constraints."""
        return Programme(self._axes, self._rows)

    @cached_property
    def _domains(self) -> dict[str, _Domain]:
        domains = {name: _domain(axis) for name, axis in self._axes.items()}
        for _ in range(_ROUNDS):
            changes = [self._shave(clause, outside, domains) for clause, outside in self._others]
            if not any(changes) or any(domain.is_empty for domain in domains.values()):
                break
        return domains

    @staticmethod
    def _shave(clause: Node, outside: dict[str, Possible], domains: dict[str, _Domain]) -> bool:
        names = [name for name in dict.fromkeys(n.name for n in names_in(clause)) if name in domains]
        if any(domains[name].is_empty for name in names):
            return False
        env = {**outside, **{name: domains[name].all() for name in names}}
        has_changed = False
        for name in names:
            has_changed |= domains[name].shave(partial(_can_hold_with, clause, env, name))
            if domains[name].is_empty:
                return True
            env[name] = domains[name].all()
        return has_changed

    @cached_property
    def is_empty(self) -> bool:
        """Whether it is certain that nothing meets all constraints; False when it is not known."""
        if self._rows and self.programme.is_empty():
            return True
        if any(domain.is_empty for domain in self._domains.values()):
            return True
        return any(not can_hold(c, out) for c, out in self._others if not set(_names(c)) - set(out))

    @cached_property
    def ranges(self) -> dict[str, tuple[int | float, int | float]]:
        """What is left of the regular range of each knob of numbers, in its unit; all of it when nothing is."""
        found = {}
        for name, domain in self._domains.items():
            if isinstance(domain.axis, NumberAxis):
                low, high = self._range(name, domain)
                regular = domain.axis.regular
                found[name] = (
                    (low, high) if low <= high else (regular.nearest(regular.low), regular.nearest(regular.high))
                )
        return found

    def _range(self, name: str, domain: _Domain) -> tuple[int | float, int | float]:
        low, high = float(domain.low), float(domain.high)
        regular = domain.axis.knob.range
        if self._rows and name in self.programme.parts:
            levels = self.programme.levels(name)
            if levels is not None:
                scale = 1 if isinstance(regular, Lattice) else _PARTS
                low, high = max(low, levels[0] * scale), min(high, levels[1] * scale)
        if low > high:
            return 1, 0
        if isinstance(regular, Lattice):
            return regular.level(int(low)), regular.level(int(high))
        span = regular.high - regular.low
        return regular.nearest(regular.low + span * (low / _PARTS)), regular.nearest(
            regular.low + span * (high / _PARTS)
        )


def _can_hold_with(clause: Node, env: dict[str, Possible], name: str, part: Possible) -> bool:
    return can_hold(clause, {**env, name: part})


def _names(node: Node) -> list[str]:
    return [name.name for name in names_in(node)]


def smallest_conflict(
    constraints: Sequence[BoundConstraint], is_impossible: Callable[[Sequence[BoundConstraint]], bool]
) -> list[BoundConstraint]:
    """A part of `constraints` that is impossible while every smaller part of it is not (deletion filter: Chinneck &
    Dravnieks, Locating minimal infeasible constraint sets in linear programs, 1991)."""
    kept = list(constraints)
    for constraint in constraints:
        fewer = [c for c in kept if c is not constraint]
        if fewer and is_impossible(fewer):
            kept = fewer
    return kept
