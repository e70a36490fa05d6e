"""Space: the knobs that may change and the constraints over them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import SpaceError
from trimtab.space.axis import axis_of
from trimtab.space.condition import ordered_conditions
from trimtab.space.config import Config
from trimtab.space.constraint import Constraint, type_of
from trimtab.space.encoding import Encoding, unknown_knob
from trimtab.space.feasible import Feasibility
from trimtab.space.knob import Knob, Value
from trimtab.space.repair import approach, pull

__all__ = ["Constraint", "Space"]

Floats = NDArray[np.float64]
_BATCHES = 20


class Space:
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
            twice = next(knob.name for i, knob in enumerate(knobs) if knob.name in {k.name for k in knobs[:i]})
            raise SpaceError(f"knob={twice!r} is given twice", hint="give each knob once")
        self.constraints = tuple(constraints)
        self.also_legal = {name: tuple(values) for name, values in (also_legal or {}).items()}
        self.fixed = dict(fixed or {})
        for name in self.also_legal:
            if name not in self.knobs:
                raise unknown_knob(name, self.knobs)
        types = {name: type_of(knob) for name, knob in self.knobs.items()}
        axes = [axis_of(knob, self.also_legal.get(knob.name, ())) for knob in knobs]
        self._encoding = Encoding(axes, ordered_conditions(knobs, types, self.fixed))
        self._feasibility = Feasibility(self._encoding, [c.bind(self.knobs, self.fixed) for c in self.constraints])

    @property
    def n_dims(self) -> int:
        return len(self.knobs)

    def default(self) -> Config:
        return self.canonical(Config({name: knob.default for name, knob in self.knobs.items()}))

    def validate(self, values: Mapping[str, Value]) -> Config:
        return self._encoding.configs(self._encoding.of_configs([values]))[0]

    def canonical(self, config: Config) -> Config:
        columns = self._encoding.of_configs([config])
        return self._encoding.configs(self._encoding.canonical(columns))[0]

    def is_feasible(self, config: Config) -> bool:
        columns = self._encoding.canonical(self._encoding.of_configs([config]))
        return bool(self._feasibility.mask(columns)[0])

    def violations(self, config: Config) -> tuple[str, ...]:
        return self._feasibility.explain(config)

    def require_feasible(self) -> None:
        if not self.is_feasible(self.default()):
            _ = self._anchor

    @cached_property
    def _anchor(self) -> Floats:
        return self._feasibility.anchor(self.encode(self.default())[None, :])

    def repair(self, config: Config) -> Config:
        config = self.canonical(config)
        if self.is_feasible(config):
            return config
        target = self.encode(config)
        point = approach(self._feasibility, target, pull(self._feasibility, target, self._anchor))
        return self.decode(point)

    def bounds(self) -> Mapping[str, tuple[float, float]]:
        return {n: (k.low, k.high) for n, k in self.knobs.items() if k.low is not None and k.high is not None}

    def encode(self, config: Config) -> Floats:
        return np.asarray(self._encoding.points(self._encoding.of_configs([config]))[0])

    def decode(self, point: Floats) -> Config:
        return self.decode_many(np.asarray(point)[None, :])[0]

    def decode_many(self, points: Floats) -> list[Config]:
        return self._encoding.configs(self._encoding.of_points(points))

    def snap(self, points: Floats) -> Floats:
        return self._encoding.points(self._encoding.of_points(points))

    def features(self, configs: Sequence[Config]) -> Floats:
        return self._encoding.features(self._encoding.canonical(self._encoding.of_configs(configs)))

    def features_of_points(self, points: Floats) -> Floats:
        return self._encoding.features(self._encoding.of_points(points))

    def feasible_mask(self, points: Floats) -> NDArray[np.bool_]:
        return self._feasibility.feasible_points(points)

    def sample(self, n: int, rng: np.random.Generator) -> list[Config]:
        found: list[Config] = []
        for _ in range(_BATCHES):
            points = rng.random((max(n, 16), self.n_dims))
            found += self.decode_many(points[self.feasible_mask(points)])
            if len(found) >= n:
                return found[:n]
        return found + [self.repair(c) for c in self.decode_many(rng.random((n - len(found), self.n_dims)))]

    def size(self) -> float:
        return math.prod(axis.n_values for axis in self._encoding.axes.values())

    def neighbours(self, config: Config, rng: np.random.Generator, n: int, *, radius: float) -> list[Config]:
        if not self.n_dims:
            return []
        centre, found = self.encode(config), {config: None}
        for _ in range(_BATCHES):
            points = np.repeat(centre[None, :], 4 * n, axis=0)
            for point in points:
                chosen = rng.choice(self.n_dims, size=min(self.n_dims, int(rng.integers(1, 4))), replace=False)
                point[chosen] = np.clip(point[chosen] + radius * rng.standard_normal(len(chosen)), 0.0, 1.0)
            found.update(dict.fromkeys(self.decode_many(points[self.feasible_mask(points)])))
            if len(found) > n:
                break
        return list(found)[1 : n + 1]
