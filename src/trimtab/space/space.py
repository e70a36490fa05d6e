"""Space: the knobs that may change and the constraints over them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import SpaceError
from trimtab.space.axis import NumberAxis, axis_of, base_value
from trimtab.space.condition import ordered_conditions
from trimtab.space.config import Config
from trimtab.space.constraint import BoundConstraint, Constraint, type_of
from trimtab.space.domain import domain_of
from trimtab.space.encoding import Columns, Encoding, unknown_knob
from trimtab.space.feasible import Feasibility
from trimtab.space.knob import Knob, Value
from trimtab.space.repair import linear_solutions, nearest_feasible
from trimtab.space.sampling import Frame, draw, drawn, near, stretched
from trimtab.space.tighten import Tightening, smallest_conflict

__all__ = ["Space"]

Floats = NDArray[np.float64]

_NEAR_BATCHES = 12
"""Attempts at neighbours; the radius doubles with each that brings too few."""


class Space:
    """Knobs and constraints; immutable, so it may be shared by threads that do not share generators.

    Legal values of a knob are its useful range (on its step), its special values, its default, and `also_legal`: a
    server's running value is legal however odd it is. Reals without a step are held to few digits. A config is
    *valid* when it has exactly the space's knobs with legal values, *canonical* when inactive knobs are at their
    defaults, and *feasible* when its canonical form meets every constraint.

    The unit cube has one coordinate a knob; `trimtab.space.axis` describes its layout. Whatever comes out of a space
    (decoded, drawn, repaired) is valid and canonical.

    Args:
        knobs: in the order of the cube's coordinates.
        constraints: what every config must meet.
        also_legal: further legal values by knob.
        fixed: values in base units (see `base_value`) of names that are not knobs of this space, for constraints and
            conditions that speak of them. Names of knobs of the space are ignored. A condition that speaks of a
            name that is known nowhere is taken as true.

    Raises:
        SpaceError: a knob given twice, a condition or constraint that is wrong, or a range too wide to be searched.
    """

    def __init__(
        self,
        knobs: Sequence[Knob],
        constraints: Sequence[Constraint] = (),
        *,
        also_legal: Mapping[str, Sequence[Value]] | None = None,
        fixed: Mapping[str, Value] | None = None,
    ) -> None:
        self.knobs: Mapping[str, Knob] = {knob.name: knob for knob in knobs}
        if len(self.knobs) < len(knobs):
            twice = next(
                knob.name for i, knob in enumerate(knobs) if knob in knobs[:i] or self.knobs[knob.name] != knob
            )
            raise SpaceError(f"knob={twice!r} is given twice", hint="give each knob once")
        self.constraints = tuple(constraints)
        self.also_legal = {name: tuple(values) for name, values in (also_legal or {}).items()}
        self.fixed = {name: value for name, value in (fixed or {}).items() if name not in self.knobs}
        for name in self.also_legal:
            if name not in self.knobs:
                raise unknown_knob(name, self.knobs)
        types = {name: type_of(knob) for name, knob in self.knobs.items()}
        axes = [axis_of(knob, self.also_legal.get(knob.name, ())) for knob in knobs]
        self._encoding = Encoding(axes, ordered_conditions(knobs, types, self.fixed))
        self._feasibility = Feasibility(self._encoding, [c.bind(self.knobs, self.fixed) for c in self.constraints])

    @property
    def n_dims(self) -> int:
        """Coordinates of the cube: the number of knobs."""
        return len(self.knobs)

    def default(self) -> Config:
        """Every knob at its built-in value; valid, not always feasible."""
        return self.canonical(Config({name: knob.default for name, knob in self.knobs.items()}))

    def validate(self, values: Mapping[str, Value]) -> Config:
        """`values` as a config, each of its knob's own type; not made canonical.

        Raises:
            SpaceError: unknown or missing knob, wrong type, out of range, or off step; the message says what is legal.
        """
        return self._encoding.config_of(values)

    def canonical(self, config: Mapping[str, Value]) -> Config:
        """The config with every inactive knob at its default.

        Raises:
            SpaceError: as `validate`.
        """
        return self._encoding.canonical_of(config)

    def fit(self, values: Mapping[str, Value], otherwise: Config) -> Config:
        """`values` of another space as a config of this one; valid and canonical, perhaps not feasible.

        Foreign knobs are dropped and numbers brought into range; what is missing, or no value of its knob, is that of
        `otherwise`. Defaults and what else is legal stay as they are, outside the useful range too.

        Raises:
            SpaceError: as `validate`, for `otherwise`.
        """
        return self.canonical({name: self._fitted(name, values, otherwise[name]) for name in self.knobs})

    def _fitted(self, name: str, values: Mapping[str, Value], otherwise: Value) -> Value:
        knob = self.knobs[name]
        value = knob.cast(values.get(name))
        if value is None or knob.contains(value) or value in self._encoding.axes[name].extra:
            return otherwise if value is None else value
        if knob.is_numeric and not isinstance(value, str | bool):
            value = knob.clip(value)
        return value if knob.contains(value) else otherwise

    def is_feasible(self, config: Mapping[str, Value]) -> bool:
        """Whether every constraint is met.

        Raises:
            SpaceError: as `validate`.
        """
        columns = self._encoding.canonical(self._encoding.of_configs([config]))
        return bool(self._feasibility.mask(columns)[0])

    def violations(self, config: Mapping[str, Value]) -> tuple[str, ...]:
        """One line for each constraint that is not met, with both sides in units; empty when feasible.

        Raises:
            SpaceError: as `validate`.
        """
        return self._feasibility.explain(config)

    @cached_property
    def _tightening(self) -> Tightening:
        return Tightening(self._encoding, self._feasibility.constraints)

    @cached_property
    def _anchor(self) -> Floats | None:
        """A point that decodes to a feasible config; None when none was found."""
        return self._anchor_of(self._feasibility)

    def _anchor_of(self, feasibility: Feasibility) -> Floats | None:
        if not self.n_dims:
            return np.empty(0) if feasibility.mask(self._encoding.of_configs([{}]))[0] else None
        corners = stretched(np.repeat([[0.0], [0.5], [1.0]], self.n_dims, axis=1), self._frames)
        known = np.vstack([self.encode(self.default()), corners])
        columns = self._encoding.of_points(known)
        solutions, is_known = linear_solutions(self._tightening, columns, known, list(self.knobs))
        return feasibility.anchor(np.vstack([known, solutions[is_known]]))

    def require_feasible(self) -> None:
        """Raises SpaceError when no config meets all constraints, naming a smallest set of them in contradiction.

        When nothing can be proven but a search finds no feasible config, that is an error as well, and the message
        says so.
        """
        if self._anchor is not None:
            return
        constraints = self._feasibility.constraints
        if self._tightening.is_empty:
            conflict = smallest_conflict(constraints, lambda some: Tightening(self._encoding, some).is_empty)
            verdict = "no config meets" if len(conflict) == 1 else "these constraints contradict each other:"
        else:
            conflict = smallest_conflict(constraints, self._is_unsatisfied)
            verdict = "no config was found that meets"
        texts = "; ".join(_described(bound.constraint) for bound in conflict)
        if len(conflict) > 1:
            raise SpaceError(f"{verdict} {texts}", hint="loosen one of them, or widen the ranges of their knobs")
        only = conflict[0]
        shortfall = only.shortfall({name: domain_of(self._encoding.axes[name]).whole() for name in only.knobs})
        because = f": {shortfall}" if shortfall else ""
        hint = only.constraint.hint or "loosen it, or widen the ranges of its knobs"
        raise SpaceError(f"{verdict} {texts}{because}", hint=hint)

    def _is_unsatisfied(self, constraints: Sequence[BoundConstraint]) -> bool:
        return self._anchor_of(Feasibility(self._encoding, constraints)) is None

    def repair(self, config: Mapping[str, Value]) -> Config:
        """A feasible config near `config` in the cube (L1); the canonical `config` itself when that is feasible.

        The nearest one when all constraints are linear and no knob in them has a log scale, round values or a condition.

        Raises:
            SpaceError: as `validate`, and as `require_feasible`.
        """
        columns = self._encoding.canonical(self._encoding.of_configs([config]))
        if self._feasibility.mask(columns)[0]:
            return self._encoding.configs(columns)[0]
        return self._moved(columns)[0]

    def _moved(self, columns: Columns) -> list[Config]:
        """Feasible configs near those of `columns`, which are not."""
        self.require_feasible()
        assert self._anchor is not None  # or that would have raised
        points = nearest_feasible(self._feasibility, self._tightening, columns, self._anchor)
        return self._encoding.configs(self._encoding.of_points(points))

    def bounds(self) -> Mapping[str, tuple[int | float, int | float]]:
        """(low, high) that the constraints leave of each numeric knob's useful range, in the knob's unit.

        Exact for linear constraints over knobs without conditions and round values; never too tight for others. The whole
        useful range when no feasible config has the knob on it (but on a special value), or when nothing is feasible.
        """
        return dict(self._tightening.ranges)

    def subspace(self, names: Sequence[str], values: Mapping[str, Value] | None = None) -> Space:
        """The space of the knobs `names`, all others held at `values` (default: their defaults).

        Raises:
            SpaceError: an unknown name.
        """
        for name in names:
            if name not in self.knobs:
                raise unknown_knob(name, self.knobs)
        held = {**self.default(), **(values or {})}
        others = {name: base_value(k, held[name]) for name, k in self.knobs.items() if name not in names}
        return Space(
            [self.knobs[name] for name in self.knobs if name in names],
            [constraint.without_constants(others) for constraint in self.constraints],
            also_legal={name: extra for name, extra in self.also_legal.items() if name in names},
            fixed={**self.fixed, **others},
        )

    def encode(self, config: Mapping[str, Value]) -> Floats:
        """The config's point (d,); `decode` of it is exactly the canonical config.

        Raises:
            SpaceError: as `validate`.
        """
        return np.asarray(self._encoding.points(self._encoding.of_configs([config]))[0])

    def decode(self, point: Floats) -> Config:
        """The config at a point (d,); coordinates beyond [0, 1] are clipped.

        Raises:
            SpaceError: wrong shape, or NaN.
        """
        return self.decode_many(np.asarray(point, dtype=np.float64).reshape(1, -1))[0]

    def decode_many(self, points: Floats) -> list[Config]:
        """The configs at points (n, d), as `decode`."""
        if len(points) == 1:  # as searchers ask: arrays of one would take most of the time
            return [self._encoding.config_at(np.asarray(points, dtype=np.float64))]
        return self._encoding.configs(self._encoding.of_points(points))

    def feasible_configs(self, points: Floats) -> list[Config]:
        """The configs at points (n, d), as `decode`; each that breaks a constraint is moved as by `repair`, all at once."""
        configs, mask = self.decode_many(points), self.feasible_mask(points)
        if not mask.all():
            moved = iter(self._moved(self._encoding.of_points(points[~mask])))
            configs = [config if ok else next(moved) for config, ok in zip(configs, mask, strict=True)]
        return configs

    def snap(self, points: Floats) -> Floats:
        """The points (n, d) or (d,) at which the configs lie that `points` decode to; idempotent."""
        rows = np.atleast_2d(np.asarray(points, dtype=np.float64))
        return self._encoding.points(self._encoding.of_points(rows)).reshape(np.shape(points))

    def levels(self, name: str, limit: int = 1000) -> tuple[Value, ...]:
        """Legal values of a knob in the order of its axis: all if they are at most `limit`, else about so many,
        spread evenly.

        Raises:
            SpaceError: unknown knob.
        """
        if name not in self.knobs:
            raise unknown_knob(name, self.knobs)
        axis = self._encoding.axes[name]
        return tuple(dict.fromkeys(axis.objects(*axis.decode(axis.levels(limit)))))

    def n_levels(self, name: str) -> float:
        """How many legal values a knob has; infinite for a real without a step."""
        return self._encoding.axes[name].n_values

    def size(self) -> float:
        """How many valid configs there are, feasible or not, canonical or not; infinite when a knob is continuous."""
        return math.prod(float(axis.n_values) for axis in self._encoding.axes.values())

    @property
    def feature_slices(self) -> Mapping[str, slice]:
        """Which columns of `features` belong to each knob."""
        found, start = {}, 0
        for name, axis in self._encoding.axes.items():
            found[name] = slice(start, start + axis.n_features)
            start += axis.n_features
        return found

    @property
    def bins(self) -> tuple[Floats, NDArray[np.int64]]:
        """Where on each coordinate (d,) nearness begins to mean something, and how many equal bins lie before (d,).

        The bins are special values and extra points of a number, or the labels of a choice (which begins at 1).
        """
        axes = self._encoding.axes.values()
        return np.array([axis.share for axis in axes]), np.array([axis.n_bins for axis in axes], dtype=np.int64)

    def inactive(self, configs: Sequence[Mapping[str, Value]]) -> NDArray[np.bool_]:
        """(n, d) where a knob has no effect in a config, by its condition.

        Raises:
            SpaceError: as `validate`.
        """
        return self._encoding.inactive(self._encoding.of_configs(configs))

    def features(self, configs: Sequence[Mapping[str, Value]], *, as_given: bool = False) -> Floats:
        """Inputs for models, (n, f) from 0 to 1, of the canonical configs; `feature_slices` tells what is what.

        `as_given`: of the configs as they are, whether their knobs are active or not.

        A number is its place in the useful range on its scale (0.5 while special, clipped when outside) with one
        indicator for each special value and each legal value outside the range; a choice is one-hot; booleans and
        ordinals are one column.

        Raises:
            SpaceError: as `validate`.
        """
        columns = self._encoding.of_configs(configs)
        return self._encoding.features(columns if as_given else self._encoding.canonical(columns))

    def features_of_points(self, points: Floats) -> Floats:
        """`features(decode_many(points))` without making configs."""
        return self._encoding.features(self._encoding.of_points(points))

    def snapped(self, points: Floats) -> tuple[Floats, Floats]:
        """`snap(points)` and `features_of_points(points)` of points (n, d), decoded once: (n, d) and (n, f)."""
        columns = self._encoding.of_points(points)
        return self._encoding.points(columns), self._encoding.features(columns)

    def feasible_mask(self, points: Floats) -> NDArray[np.bool_]:
        """Which of the points (n, d) decode to feasible configs, (n,)."""
        return self._feasibility.feasible_points(points)

    @cached_property
    def _frames(self) -> list[Frame]:
        ranges = self._tightening.ranges if self.constraints else {}
        frames: list[Frame] = []
        for name, axis in self._encoding.axes.items():
            if name in ranges and isinstance(axis, NumberAxis):
                frames.append((axis.share, *axis.frame(*ranges[name])))
            else:
                frames.append((0.0, 0.0, 1.0))
        return frames

    def sample(self, n: int, rng: np.random.Generator) -> list[Config]:
        """n feasible configs, uniform in the cube (of what `bounds` leaves); may repeat. Deterministic from `rng`.

        Drawn and rejected; where almost everything is rejected, the rest are drawn and repaired, and all where an equation ties
        real numbers.

        Raises:
            SpaceError: as `require_feasible`.
        """
        if n <= 0:
            return []
        self.require_feasible()
        if not self.n_dims:
            return [Config({})] * n
        configs: list[Config] = []
        if not self.constraints:
            configs = self.decode_many(drawn(n, rng, self.n_dims))
        elif not self._tightening.is_thin:
            configs = self.decode_many(draw(n, rng, self._frames, self.feasible_mask))
        if len(configs) == n:
            return configs
        rest = stretched(rng.random((n - len(configs), self.n_dims)), self._frames)
        return configs + self.feasible_configs(rest)

    def neighbours(
        self, config: Mapping[str, Value], rng: np.random.Generator, n: int, *, radius: float
    ) -> list[Config]:
        """Up to n different feasible configs that differ from `config` in few knobs; fewer where there are not so many.

        Numbers move by normal steps of `radius` (of their axis), now and then to a special value; choices to any other. Where an
        equation ties real numbers, others make up for what one gains.

        Raises:
            SpaceError: as `validate`.
        """
        columns = self._encoding.canonical(self._encoding.of_configs([config]))
        own, centre = self._encoding.configs(columns)[0], self._encoding.points(columns)[0]
        found: dict[Config, None] = {}
        shares = np.array([axis.share for axis in self._encoding.axes.values()])
        is_thin = bool(self.constraints) and self._tightening.is_thin
        for _ in range(_NEAR_BATCHES if self.n_dims else 0):
            points = near(centre, 3 * n, rng, radius, shares)
            # In a thin space others have to give what one knob takes.
            points = points if is_thin else points[self.feasible_mask(points)]
            found.update(dict.fromkeys(self.feasible_configs(points) if is_thin else self.decode_many(points)))
            found.pop(own, None)
            if len(found) >= n:
                break
            radius = min(1.0, 2 * radius)
        return list(found)[:n]


def _described(constraint: Constraint) -> str:
    return f"{constraint.name} ({constraint.text})" if constraint.name else constraint.text
