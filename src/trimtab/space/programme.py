"""Mixed-integer programmes over the linear constraints of a space, solved by HiGHS.

They stand in place of the Omega test with which Active Harmony bounded dependent parameters (seed 000, section 5.6).
Notation: x a knob in base units, and

    x = unit * (low * r + step * k) + sum(point_i * p_i),   r + sum(p_i) = 1,   0 <= k <= (n - 1) * r

with r, p_i in {0, 1}: a knob is on level k of its regular range, or on one of its special values and extra points.
A range of more than a million levels, and a continuum, has k = (n - 1) * f with a real f in [0, 1] instead: the
solver's tolerances are absolute, and a unit interval keeps them small against the range.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from trimtab.space.axis import LabelAxis, NumberAxis
from trimtab.space.lattice import Lattice
from trimtab.space.linear import Row
from trimtab.units import unit_ratio

__all__ = ["Programme"]

Floats = NDArray[np.float64]

_MOST_INTEGER_LEVELS = 2**20
_ROUNDING = 1e-12
"""Of a relaxed range: the solver's error, from which an exact bound is told."""
_OPTIMAL, _INFEASIBLE = 0, 2


@dataclass(frozen=True, slots=True)
class _Part:
    """Where a knob is among the variables: `level` (k, f or the boolean), `regular` (r) and `points` (p_i)."""

    axis: NumberAxis | LabelAxis
    level: int
    n: float
    """How far `level` goes: n - 1 levels, or 1 when relaxed."""
    is_relaxed: bool
    regular: int | None
    points: tuple[int, ...]
    terms: Mapping[int, Fraction]
    constant: Fraction


class Failure(Enum):
    """Why there is no solution."""

    EMPTY = "nothing satisfies all rows"
    UNKNOWN = "the solver gave up"


@dataclass(frozen=True, slots=True)
class Solution:
    """Values of the variables; `goal` is the proven bound on what was minimised."""

    values: Floats
    goal: float


class Programme:
    """Rows over the axes of some knobs."""

    def __init__(self, axes: Mapping[str, NumberAxis | LabelAxis], rows: Sequence[Row]) -> None:
        self._lower: list[float] = []
        self._upper: list[float] = []
        self._is_integer: list[bool] = []
        self._rows: list[tuple[Mapping[int, float], float, float]] = []
        names = dict.fromkeys(name for row in rows for name in row.form.coefficients)
        self.parts = {name: self._part(axes[name]) for name in names}
        for row in rows:
            self._add_row(row)

    def copied(self) -> Programme:
        """A programme with the same rows, to which more can be added."""
        other = copy(self)
        other._lower, other._upper = self._lower.copy(), self._upper.copy()
        other._is_integer, other._rows = self._is_integer.copy(), self._rows.copy()
        return other

    def limit(self, terms: Mapping[int, float], low: float, high: float) -> None:
        """Adds the row low <= sum(terms) <= high."""
        self._rows.append((terms, low, high))

    def variable(self, upper: float, is_integer: bool) -> int:
        """Adds a variable in 0 .. upper and gives its number."""
        self._lower.append(0.0)
        self._upper.append(upper)
        self._is_integer.append(is_integer)
        return len(self._lower) - 1

    def _part(self, axis: NumberAxis | LabelAxis) -> _Part:
        if isinstance(axis, LabelAxis):
            level = self.variable(1.0, True)
            return _Part(axis, level, 1.0, False, None, (), {level: Fraction(1)}, Fraction(0))
        ratio, _ = unit_ratio(axis.knob.unit)
        low, reach, top = _extent(axis)
        is_relaxed = top is None
        n = 1.0 if top is None else float(top)
        level = self.variable(n, not is_relaxed)
        slope = reach * ratio / (1 if top is None else max(1, top))
        if not axis.points:
            return _Part(axis, level, n, is_relaxed, None, (), {level: slope}, low * ratio)
        regular = self.variable(1.0, True)
        points = tuple(self.variable(1.0, True) for _ in axis.points)
        terms = {level: slope, regular: low * ratio}
        for variable, value in zip(points, axis.points, strict=True):
            terms[variable] = Fraction(repr(value)) * (1 if value in axis.knob.special else ratio)
        self.limit({regular: 1.0, **dict.fromkeys(points, 1.0)}, 1.0, 1.0)
        self.limit({level: 1.0, regular: -n}, -math.inf, 0.0)
        return _Part(axis, level, n, is_relaxed, regular, points, terms, Fraction(0))

    def _add_row(self, row: Row) -> None:
        terms: dict[int, Fraction] = {}
        constant = row.form.constant
        for name, factor in row.form.coefficients.items():
            part = self.parts[name]
            constant += factor * part.constant
            for variable, coefficient in part.terms.items():
                terms[variable] = terms.get(variable, Fraction(0)) + factor * coefficient
        self._rows.append(_scaled(terms, -constant, row.is_strict, all(self._is_integer[v] for v in terms)))

    def solve(self, goal: Mapping[int, float], fixed: Mapping[int, float] | None = None) -> Solution | Failure:
        """The least of sum(goal * variable), `fixed` variables held."""
        n = len(self._lower)
        objective = np.zeros(n)
        for variable, weight in goal.items():
            objective[variable] = weight
        lower, upper = np.array(self._lower), np.array(self._upper)
        for variable, value in (fixed or {}).items():
            lower[variable] = upper[variable] = value
        cells = [(i, variable, c) for i, (row, _, _) in enumerate(self._rows) for variable, c in row.items()]
        matrix = csr_array(
            ([c for _, _, c in cells], ([i for i, _, _ in cells], [v for _, v, _ in cells])), shape=(len(self._rows), n)
        )
        limits = LinearConstraint(matrix, [low for _, low, _ in self._rows], [high for _, _, high in self._rows])
        result = milp(
            objective,
            integrality=np.array(self._is_integer, dtype=np.int64),
            bounds=Bounds(lower, upper),
            constraints=[limits],
            options={"mip_rel_gap": 0.0, "time_limit": 5.0},
        )
        if result.status == _INFEASIBLE:
            return Failure.EMPTY
        if result.status != _OPTIMAL or result.x is None:
            return Failure.UNKNOWN
        bound = getattr(result, "mip_dual_bound", None)
        return Solution(np.asarray(result.x), float(result.fun if bound is None else min(bound, result.fun)))

    def is_empty(self) -> bool:
        """Whether it is certain that nothing satisfies all rows."""
        return any(not row and high < 0 for row, _, high in self._rows) or (
            bool(self.parts) and self.solve({}) is Failure.EMPTY
        )

    def levels(self, name: str) -> tuple[float, float] | None:
        """The least and greatest position of a knob's regular range among all solutions, as level numbers.

        As parts of 1 when the range is a continuum. None: no solution has the knob on its regular range, or not known.
        """
        part = self.parts[name]
        fixed = {} if part.regular is None else {part.regular: 1.0}
        down, up = self.solve({part.level: 1.0}, fixed), self.solve({part.level: -1.0}, fixed)
        if isinstance(down, Failure) or isinstance(up, Failure):
            return None
        if not part.is_relaxed:
            return math.ceil(down.goal - 1e-6), math.floor(1e-6 - up.goal)
        low, high = max(0.0, down.goal - _ROUNDING), min(1.0, _ROUNDING - up.goal)
        if not isinstance(part.axis, NumberAxis) or not isinstance(part.axis.regular, Lattice):
            return low, high
        last = part.axis.regular.n - 1
        return math.ceil(low * last), math.floor(high * last)

    def nearest(self, target: Mapping[str, tuple[float, int]], u: Mapping[str, float]) -> dict[str, tuple[float, int]]:
        """The pairs of a solution with the least L1 distance from `target` in the cube; empty when there is none.

        `target` has pairs and `u` their positions. Distances along a log scale are taken along its two secants.
        """
        if not self.parts:
            return {}
        solution = _Distance(self, target, u).solve()
        if isinstance(solution, Failure):
            return {}
        return {name: _pair(part, solution.values) for name, part in self.parts.items()}


class _Distance:
    """A programme with variables for how far each knob moves."""

    def __init__(self, programme: Programme, target: Mapping[str, tuple[float, int]], u: Mapping[str, float]) -> None:
        self._programme = programme.copied()
        self._goal: dict[int, float] = {}
        for name, part in programme.parts.items():
            self._measure(part, target[name], u[name])

    def solve(self) -> Solution | Failure:
        return self._programme.solve(self._goal)

    def _measure(self, part: _Part, pair: tuple[float, int], u: float) -> None:
        axis, (value, number) = part.axis, pair
        if isinstance(axis, LabelAxis):
            self._goal[part.level] = 0.5 - number
            return
        ends = axis.encode(np.array([axis.regular.low, axis.regular.high]), np.array([-1, -1]))
        first, last = float(ends[0]), float(ends[1])
        for i, variable in enumerate(part.points):
            centre = float(axis.encode(np.zeros(1), np.array([i]))[0])
            self._goal[variable] = abs(centre - u)
        if number >= 0:
            if part.regular is not None:
                self._goal[part.regular] = first - u
            self._goal[part.level] = (last - first) / max(part.n, 1.0)
            return
        self._move(part, _level_of(part, value), first, last, u)

    def _move(self, part: _Part, level: float, first: float, last: float, u: float) -> None:
        up = self._programme.variable(math.inf, False)
        down = self._programme.variable(math.inf, False)
        self._goal[up] = (last - u) / (part.n - level) if level < part.n else 0.0
        self._goal[down] = (u - first) / level if level > 0 else 0.0
        terms = {part.level: 1.0, up: -1.0, down: 1.0}
        if part.regular is None:
            self._programme.limit(terms, level, level)
        else:
            self._programme.limit({**terms, part.regular: -level}, 0.0, 0.0)


def _extent(axis: NumberAxis) -> tuple[Fraction, Fraction, int | None]:
    """Low end and length of the regular range in knob units, and the last level's number; None when it is relaxed."""
    regular = axis.regular
    if isinstance(regular, Lattice):
        reach = Fraction((regular.n - 1) * regular.step_n, regular.scale)
        is_small = regular.n <= _MOST_INTEGER_LEVELS
        return Fraction(regular.low_n, regular.scale), reach, regular.n - 1 if is_small else None
    low, high = Fraction(repr(regular.low)), Fraction(repr(regular.high))
    return low, high - low, None


def _level_of(part: _Part, value: float) -> float:
    regular = part.axis.regular if isinstance(part.axis, NumberAxis) else None
    if isinstance(regular, Lattice):
        level = regular.index(value)
        return level / (regular.n - 1) if part.is_relaxed else float(level)
    if regular is None or regular.high == regular.low:
        return 0.0
    return (value - regular.low) / (regular.high - regular.low)


def _pair(part: _Part, values: Floats) -> tuple[float, int]:
    axis, level = part.axis, float(values[part.level])
    if isinstance(axis, LabelAxis):
        return float(round(level)), round(level)
    for i, variable in enumerate(part.points):
        if values[variable] > 0.5:
            return float(axis.points[i]), i
    regular = axis.regular
    if isinstance(regular, Lattice):
        k = round(level * (regular.n - 1)) if part.is_relaxed else round(level)
        return float(regular.level(min(max(k, 0), regular.n - 1))), -1
    return regular.nearest(regular.low + level * (regular.high - regular.low)), -1


def _scaled(
    terms: Mapping[int, Fraction], limit: Fraction, is_strict: bool, is_integer: bool
) -> tuple[dict[int, float], float, float]:
    """sum(terms) <= limit for the solver: with whole coefficients if all variables are whole, else the largest being 1.

    In whole numbers the limit is moved to the middle between two possible sums, far from the solver's tolerances.
    """
    terms = {variable: c for variable, c in terms.items() if c}
    if not terms:
        is_met = limit > 0 or (limit == 0 and not is_strict)
        return {}, -math.inf, 0.0 if is_met else -1.0
    if not is_integer:
        largest = max(abs(c) for c in terms.values())
        return {variable: float(c / largest) for variable, c in terms.items()}, -math.inf, float(limit / largest)
    common = math.lcm(*(c.denominator for c in terms.values()))
    whole = {variable: int(c * common) for variable, c in terms.items()}
    divisor = math.gcd(*whole.values())
    exact = limit * common / divisor
    last = math.ceil(exact) - 1 if is_strict else math.floor(exact)
    # Divided again by the largest, so that tolerances are relative to it.
    largest_whole = max(abs(c) // divisor for c in whole.values())
    size = largest_whole if largest_whole > _MOST_INTEGER_LEVELS else 1
    return {v: c / divisor / size for v, c in whole.items()}, -math.inf, (last + 0.5) / size
