"""Configs as columns: many configs at once between the unit cube, values, features and what constraints see."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import SpaceError
from trimtab.space.axis import LabelAxis, NumberAxis
from trimtab.space.condition import Condition
from trimtab.space.config import Config
from trimtab.space.evaluate import Column, holds
from trimtab.space.knob import Value

__all__ = ["Columns", "Encoding"]

Floats = NDArray[np.float64]

_MEMO = 512
"""Most configs that an encoding remembers."""


@dataclass(frozen=True, slots=True)
class Columns:
    """n configs: `values` (n, d) float64 and `bins` (n, d) int64, as `trimtab.space.axis` defines them."""

    values: Floats
    bins: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: NDArray[np.bool_] | NDArray[np.int64]) -> Columns:
        """The configs of some rows."""
        return Columns(self.values[rows], self.bins[rows])


class Encoding:
    """All axes of a space, in its order, and the conditions between them (in an order in which they can be decided)."""

    def __init__(self, axes: Sequence[NumberAxis | LabelAxis], conditions: Sequence[Condition]) -> None:
        self.axes = {axis.knob.name: axis for axis in axes}
        self._index = {name: i for i, name in enumerate(self.axes)}
        self._conditions = conditions
        self._defaults = {name: axis.find(axis.knob.default) for name, axis in self.axes.items()}
        self._memo: dict[Config, Columns] = {}

    def part(self, names: Iterable[str]) -> Encoding:
        """The axes of `names` and of all knobs that decide on their activity, as an encoding."""
        wanted, conditions = set(names), {condition.knob: condition for condition in self._conditions}
        todo = list(wanted)
        while todo:
            condition = conditions.get(todo.pop())
            new = set(condition.knobs) - wanted if condition is not None else set()
            wanted |= new
            todo += new
        return Encoding(
            [axis for name, axis in self.axes.items() if name in wanted],
            [condition for condition in self._conditions if condition.knob in wanted],
        )

    def of_points(self, points: Floats) -> Columns:
        """The canonical configs at points (n, d) of the unit cube; coordinates beyond it are clipped.

        Raises:
            SpaceError: wrong shape, or a coordinate is NaN.
        """
        points = np.asarray(points, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != len(self.axes):
            raise SpaceError(f"points of shape={points.shape} for n_dims={len(self.axes)}", hint="give an (n, d) array")
        if np.isnan(points).any():
            raise SpaceError("a coordinate of a point is NaN", hint="decode finite coordinates only")
        points = points.clip(0.0, 1.0)
        columns = self._empty(len(points))
        for i, axis in enumerate(self.axes.values()):
            columns.values[:, i], columns.bins[:, i] = axis.decode(points[:, i])
        return self.canonical(columns)

    def _empty(self, n: int) -> Columns:
        return Columns(np.empty((n, len(self.axes))), np.empty((n, len(self.axes)), dtype=np.int64))

    def of_configs(self, configs: Sequence[Mapping[str, Value]]) -> Columns:
        """The configs as they are, not made canonical.

        Raises:
            SpaceError: a config has not exactly the knobs of the space, or a value that is not legal.
        """
        for config in configs:
            if config.keys() != self.axes.keys():
                self.check_names(config)
        if len(configs) == 1:
            return self._of_one(configs[0])
        columns = self._empty(len(configs))
        for i, (name, axis) in enumerate(self.axes.items()):
            columns.values[:, i], columns.bins[:, i] = axis.find_all([config[name] for config in configs])
        return columns

    def _of_one(self, config: Mapping[str, Value]) -> Columns:
        """As a searcher asks and is told of them: an array for each knob would take most of the time.

        One that is asked for is soon canonical, encoded, checked and a model's input: it is remembered.
        """
        known = self._memo.get(config) if isinstance(config, Config) else None
        if known is not None:
            return known
        pairs = [axis.find(config[name]) for name, axis in self.axes.items()]
        values = np.array([[v for v, _ in pairs]], dtype=np.float64)
        found = Columns(values, np.array([[i for _, i in pairs]], dtype=np.int64))
        if isinstance(config, Config):
            found.values.flags.writeable = found.bins.flags.writeable = False
            if len(self._memo) >= _MEMO:
                self._memo.clear()
            self._memo[config] = found
        return found

    def check_names(self, values: Mapping[str, Value]) -> None:
        """Raises SpaceError unless `values` names exactly the knobs of the space."""
        for name in values:
            if name not in self.axes:
                raise unknown_knob(name, self.axes)
        missing = [name for name in self.axes if name not in values]
        if missing:
            raise SpaceError(f"no value for knob={missing[0]!r}", hint=f"missing: {', '.join(missing)}")

    def canonical(self, columns: Columns) -> Columns:
        """The configs with every inactive knob at its default."""
        return self._settled(columns)[0] if self._conditions else columns

    def inactive(self, columns: Columns) -> NDArray[np.bool_]:
        """(n, d) where a knob has no effect in a config."""
        return self._settled(columns)[1]

    def _settled(self, columns: Columns) -> tuple[Columns, NDArray[np.bool_]]:
        values, bins = columns.values.copy(), columns.bins.copy()
        now, inactive = Columns(values, bins), np.zeros(values.shape, dtype=np.bool_)
        for condition in self._conditions:
            env = {**condition.constants, **self.env(now, condition.knobs)}
            is_off = ~np.broadcast_to(holds(condition.tree, env), (len(now),))
            i = self._index[condition.knob]
            value, number = self._defaults[condition.knob]
            values[is_off, i] = value
            bins[is_off, i] = number
            inactive[:, i] = is_off
        return now, inactive

    def env(self, columns: Columns, names: Iterable[str]) -> dict[str, Column]:
        """What constraints see of the knobs `names`, one column each."""
        found: dict[str, Column] = {}
        for name in names:
            i = self._index[name]
            found[name] = self.axes[name].base(columns.values[:, i], columns.bins[:, i])
        return found

    def configs(self, columns: Columns) -> list[Config]:
        """The columns as configs."""
        objects = [axis.objects(columns.values[:, i], columns.bins[:, i]) for i, axis in enumerate(self.axes.values())]
        names = list(self.axes)
        if not names:
            return [Config({}) for _ in range(len(columns))]
        return [Config(dict(zip(names, row, strict=True))) for row in zip(*objects, strict=True)]

    def config_of(self, config: Mapping[str, Value]) -> Config:
        """`config` as one whose values are of its knobs' own types; not made canonical.

        Raises:
            SpaceError: as `of_configs`.
        """
        if config.keys() != self.axes.keys():
            self.check_names(config)
        return Config({name: axis.value_of(*axis.find(config[name])) for name, axis in self.axes.items()})

    def canonical_of(self, config: Mapping[str, Value]) -> Config:
        """The config with every inactive knob at its default.

        Raises:
            SpaceError: as `of_configs`.
        """
        return (
            self.configs(self.canonical(self.of_configs([config])))[0] if self._conditions else self.config_of(config)
        )

    def config_at(self, points: Floats) -> Config:
        """The canonical config at the only one of `points`, shape (1, d); coordinates beyond the cube are clipped.

        Raises:
            SpaceError: as `of_points`.
        """
        if self._conditions or points.shape != (1, len(self.axes)) or np.isnan(points).any():
            return self.configs(self.of_points(points))[0]
        place = (min(max(u, 0.0), 1.0) for u in points[0].tolist())
        return Config({n: a.value_of(*a.decode_one(u)) for (n, a), u in zip(self.axes.items(), place, strict=True)})

    def points(self, columns: Columns) -> Floats:
        """The configs' points (n, d) in the unit cube."""
        points = np.empty(columns.values.shape)
        for i, axis in enumerate(self.axes.values()):
            points[:, i] = axis.encode(columns.values[:, i], columns.bins[:, i])
        return points

    def features(self, columns: Columns) -> Floats:
        """The configs' features (n, f), knob after knob."""
        blocks = [axis.features(columns.values[:, i], columns.bins[:, i]) for i, axis in enumerate(self.axes.values())]
        return np.concatenate(blocks, axis=1) if blocks else np.empty((len(columns), 0))


def unknown_knob(name: str, known: Iterable[str]) -> SpaceError:
    """The error for a knob that a space does not have, with the closest one that it has."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known are: {', '.join(names[:20]) or 'none'}"
    return SpaceError(f"unknown knob={name!r}", hint=hint)
