"""Mixed-integer programmes over the linear constraints of a space, solved by HiGHS.

They stand in place of the Omega test with which Active Harmony bounded dependent parameters (Zhou, Extensions of an
empirical automated tuning framework, 2013, chapter 5).
Notation: x a knob in base units, and

    x = origin * r + stride * k + sum(point_i * p_i),   r + sum(p_i) = 1,   0 <= k <= n * r

with r, p_i in {0, 1}: a knob is on level k of what is left of its regular range (`Domain`), or on one of its special
values and extra points. Where more than a million levels are left, and on a continuum, k = n * f with a real f in [0, 1]
instead: the solver's tolerances are absolute, and a unit interval keeps them small against the range.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

import numpy as np
import scipy  # its solver, a quarter of a second to load, comes on first use
from numpy.typing import NDArray

from trimtab.space.axis import REGULAR, LabelAxis
from trimtab.space.domain import PARTS, Domain
from trimtab.space.lattice import Lattice
from trimtab.space.linear import Row
from trimtab.space.solver_output import not_printed

__all__ = ["Programme"]

Floats = NDArray[np.float64]

_MOST_LEVELS = 2**20
_ERROR = 1e-5
"""The solver's error: of a relaxed range, or of a level. Its own tolerances are 1e-6."""
_OPTIMAL, _INFEASIBLE = 0, 2


@dataclass(frozen=True, slots=True)
class _Part:
    """Where a knob is among the variables: `level` (k, f or the boolean), `regular` (r) and `points` (p_i by bin)."""

    domain: Domain
    level: int
    n: int
    """Levels above the lowest one that is left."""
    is_relaxed: bool
    regular: int | None
    points: Mapping[int, int]
    terms: Mapping[int, Fraction]
    constant: Fraction

    @property
    def reach(self) -> float:
        """How far `level` goes."""
        return 1.0 if self.is_relaxed else float(self.n)


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
    """Rows over what is left of some knobs; none of the domains is empty."""

    def __init__(self, domains: Mapping[str, Domain], rows: Sequence[Row]) -> None:
        self._lower: list[float] = []
        self._upper: list[float] = []
        self._is_integer: list[bool] = []
        self._rows: list[tuple[Mapping[int, float], float, float]] = []
        names = dict.fromkeys(name for row in rows for name in row.form.coefficients)
        self.parts = {name: self._part(domains[name]) for name in names}
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

    def _part(self, domain: Domain) -> _Part:
        if isinstance(domain.axis, LabelAxis):
            level = self.variable(float(max(domain.bins)), True)
            self._lower[level] = float(min(domain.bins))
            return _Part(domain, level, 1, False, None, {}, {level: Fraction(1)}, Fraction(0))
        n = max(0, domain.high - domain.low)
        is_relaxed = n > _MOST_LEVELS
        level = self.variable(1.0 if is_relaxed else float(n), not (is_relaxed or domain.is_continuum))
        origin = domain.origin + domain.low * domain.stride
        slope = domain.stride * (n if is_relaxed else 1)
        if not domain.bins:
            return _Part(domain, level, n, is_relaxed, None, {}, {level: slope}, origin)
        regular = self.variable(float(domain.has_levels), True)
        points = {i: self.variable(1.0, True) for i in domain.bins}
        terms = {level: slope, regular: origin, **{variable: domain.exact(i) for i, variable in points.items()}}
        part = _Part(domain, level, n, is_relaxed, regular, points, terms, Fraction(0))
        self.limit({regular: 1.0, **dict.fromkeys(points.values(), 1.0)}, 1.0, 1.0)
        self.limit({level: 1.0, regular: -part.reach}, -math.inf, 0.0)
        return part

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
        matrix = scipy.sparse.csr_array(
            ([c for _, _, c in cells], ([i for i, _, _ in cells], [v for _, v, _ in cells])), shape=(len(self._rows), n)
        )
        limits = scipy.optimize.LinearConstraint(
            matrix, [low for _, low, _ in self._rows], [high for _, _, high in self._rows]
        )
        with not_printed():
            result = scipy.optimize.milp(
                objective,
                integrality=np.array(self._is_integer, dtype=np.int64),
                bounds=scipy.optimize.Bounds(lower, upper),
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

    def levels(self, name: str) -> tuple[int, int] | Failure:
        """The least and greatest level of a knob's regular range among all solutions; never too tight.

        EMPTY: no solution has the knob on its regular range.
        """
        part = self.parts[name]
        if not part.domain.has_levels:
            return Failure.EMPTY
        fixed = {} if part.regular is None else {part.regular: 1.0}
        down, up = self.solve({part.level: 1.0}, fixed), self.solve({part.level: -1.0}, fixed)
        if isinstance(down, Failure) or isinstance(up, Failure):
            return Failure.EMPTY if Failure.EMPTY in (down, up) else Failure.UNKNOWN
        scale, error = (part.n, _ERROR * part.n) if part.is_relaxed else (1, _ERROR)
        low, high = math.ceil(down.goal * scale - error), math.floor(error - up.goal * scale)
        return part.domain.low + max(0, low), part.domain.low + min(part.n, high)

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
        axis, (value, number) = part.domain.axis, pair
        if isinstance(axis, LabelAxis):
            self._goal[part.level] = 0.5 - number
            return
        regular = axis.regular
        ends = axis.encode(np.array([regular.low, regular.high]), np.array([REGULAR, REGULAR]))
        first, last = float(ends[0]), float(ends[1])
        for i, variable in part.points.items():
            self._goal[variable] = abs(float(axis.encode(np.zeros(1), np.array([i]))[0]) - u)
        levels = _level_of(part.domain, regular.high)
        # One unit of `level` is so many levels, `start` of which lie below what is left of the range.
        unit, start = (part.n if part.is_relaxed else 1), part.domain.low
        if number != REGULAR:
            slope = (last - first) / max(levels, 1.0)
            if part.regular is not None:
                self._goal[part.regular] = first + slope * start - u
            self._goal[part.level] = slope * unit
            return
        own = _level_of(part.domain, value)
        up, down = self._programme.variable(math.inf, False), self._programme.variable(math.inf, False)
        self._goal[up] = unit * (last - u) / (levels - own) if own < levels else 0.0
        self._goal[down] = unit * (u - first) / own if own > 0 else 0.0
        place = (own - start) / unit
        terms = {part.level: 1.0, up: -1.0, down: 1.0}
        if part.regular is None:
            self._programme.limit(terms, place, place)
        else:
            self._programme.limit({**terms, part.regular: -place}, 0.0, 0.0)


def _level_of(domain: Domain, value: float) -> float:
    """The number of a value's level in its domain."""
    regular = domain.axis.knob.range
    if isinstance(regular, Lattice):
        return float(regular.index(value))
    return (value - regular.low) / (regular.high - regular.low) * PARTS if regular.high > regular.low else 0.0


def _pair(part: _Part, values: Floats) -> tuple[float, int]:
    domain, level = part.domain, float(values[part.level])
    if isinstance(domain.axis, LabelAxis):
        return float(round(level)), round(level)
    for i, variable in part.points.items():
        if values[variable] > 0.5:
            return float(domain.axis.points[i]), i
    k = min(max(round(level * (part.n if part.is_relaxed else 1)), 0), part.n)
    return float(domain.value_of_level(domain.low + k)), REGULAR


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
    size = largest_whole if largest_whole > _MOST_LEVELS else 1
    return {v: c / divisor / size for v, c in whole.items()}, -math.inf, (last + 0.5) / size
