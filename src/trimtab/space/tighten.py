"""What constraints leave of each knob's range, and which constraints contradict each other.

Linear constraints are cut and bounded exactly (`trimtab.space.programme`). All others are cut by shaving: a part of a
knob's range in which interval arithmetic shows a constraint to be false, whatever the other knobs are, is dropped.
Nothing feasible is ever cut. Conditions need no care here: constraints are about canonical configs, and an inactive
knob's default is one of its values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property, partial

from trimtab.space.axis import NumberAxis
from trimtab.space.constraint import BoundConstraint
from trimtab.space.domain import Domain, domain_of
from trimtab.space.encoding import Encoding
from trimtab.space.expression import Node, names_in
from trimtab.space.interval import Possible, can_hold
from trimtab.space.lattice import Continuum
from trimtab.space.linear import Row, rows_of
from trimtab.space.programme import Failure, Programme

__all__ = ["Tightening"]

_ROUNDS = 4


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
        outside = constraint.outside
        for clause in constraint.clauses:
            rows = rows_of(clause, exact, variables)
            if rows is None:
                self._others.append((clause, outside))
            else:
                self._rows += rows

    @cached_property
    def _domains(self) -> dict[str, Domain]:
        domains = {name: domain_of(axis) for name, axis in self._axes.items()}
        for _ in range(_ROUNDS):
            changes = [_cut(row, domains) for row in self._rows]
            changes += [_shave(clause, outside, domains) for clause, outside in self._others]
            if not any(changes) or any(domain.is_empty for domain in domains.values()):
                break
        return domains

    @cached_property
    def programme(self) -> Programme | None:
        """The linear constraints; None when nothing meets all constraints, or none is linear."""
        if not self._rows or any(domain.is_empty for domain in self._domains.values()):
            return None
        return Programme(self._domains, self._rows)

    @cached_property
    def is_empty(self) -> bool:
        """Whether it is certain that nothing meets all constraints; False when it is not known."""
        if any(domain.is_empty for domain in self._domains.values()):
            return True
        if self.programme is not None and self.programme.is_empty():
            return True
        return any(not can_hold(c, out) for c, out in self._others if not set(_names(c)) - set(out))

    @cached_property
    def is_thin(self) -> bool:
        """Whether an equation ties a real number to others: next to no point that is drawn meets it."""
        # One that gives a real number its value has left a range of just that, in which points are drawn.
        equations = [row.form.coefficients for row in self._rows if row.is_half and len(row.form.coefficients) > 1]
        tied = {name for names in equations for name in names}
        axes = [self._axes[name] for name in tied]
        return any(isinstance(axis, NumberAxis) and isinstance(axis.regular, Continuum) for axis in axes)

    @cached_property
    def ranges(self) -> dict[str, tuple[int | float, int | float]]:
        """What is left of the regular range of each knob of numbers, in its unit; all of it when nothing is."""
        found = {}
        for name, domain in self._domains.items():
            if isinstance(domain.axis, NumberAxis):
                whole = domain_of(domain.axis)
                low, high = self._levels(name, domain)
                if low > high:
                    low, high = whole.low, whole.high
                found[name] = domain.value_of_level(low), domain.value_of_level(high)
        return found

    def _levels(self, name: str, domain: Domain) -> tuple[int, int]:
        # A single row bounds its knobs exactly by itself; the programme is for what several do together.
        if len(self._rows) > 1 and self.programme is not None and name in self.programme.parts and domain.has_levels:
            levels = self.programme.levels(name)
            if levels is Failure.EMPTY:
                return 1, 0
            if not isinstance(levels, Failure):
                return levels
        return domain.low, domain.high


def _cut(row: Row, domains: dict[str, Domain]) -> bool:
    """Drops from each knob what the row forbids whatever the others are; returns whether anything was dropped."""
    names = row.form.coefficients
    if any(domains[name].is_empty for name in names):
        return False
    least = {name: domains[name].least(factor) for name, factor in names.items()}
    slack = -row.form.constant - sum(least.values())
    has_changed = False
    for name, factor in names.items():
        has_changed |= domains[name].cut(factor, slack + least[name], row.is_strict)
    return has_changed


def _shave(clause: Node, outside: dict[str, Possible], domains: dict[str, Domain]) -> bool:
    """As `_cut`, for any constraint."""
    names = [name for name in dict.fromkeys(_names(clause)) if name in domains]
    if any(domains[name].is_empty for name in names):
        return False
    env = {**outside, **{name: domains[name].whole() for name in names}}
    has_changed = False
    for name in names:
        has_changed |= domains[name].shave(partial(_can_hold_with, clause, env, name))
        if domains[name].is_empty:
            return True
        env[name] = domains[name].whole()
    return has_changed


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
