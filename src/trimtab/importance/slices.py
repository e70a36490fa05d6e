"""Slices: how the objective answers to one knob, all others being as they are in the trials."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import UsageError
from trimtab.importance.ranking import RankProblem
from trimtab.importance.resample import HIGH, LOW, draw_counts
from trimtab.importance.samples import Samples, samples_of
from trimtab.importance.surrogate import Surrogate
from trimtab.space import Space, Value

__all__ = ["Dependence", "Slice", "slice_of"]

Array = NDArray[np.float64]

_LEVELS = 15
_MOST_ROWS = 60
"""Samples over which a curve is averaged; more change nothing that can be seen."""
_MOST_RESAMPLES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Partial dependence of the loss on one knob.

    Attributes:
        knob: its name.
        values: the grid, in the knob's own unit and in the order of its axis (special values first).
        mean, low, high: expected loss (log-ratio against the baseline, less is better; the tail of very bad configs is
            compressed) at each of `values`, averaged over the other knobs' values in the trials, with its 90 % bootstrap
            interval.
        points: (value, loss as measured) of every config measured, repeats averaged.
        gain: what the best of `values` gains over the baseline's value, by `mean`.
        gain_low: lower end of its 90 % interval (0: no gain is proven).
        best: the value of `values` with the least `mean`.
    """

    knob: str
    values: tuple[Value, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    points: tuple[tuple[Value, float], ...]
    best: Value
    gain: float
    gain_low: float


class Dependence:
    """The surrogates behind slices: one of all samples and one of each resample, made once for all knobs.

    Args:
        problem: at most 20 of its resamples are used.

    Raises:
        UsageError: as `samples_of`.
    """

    def __init__(self, problem: RankProblem, samples: Samples | None = None) -> None:
        self.samples = samples_of(problem) if samples is None else samples
        self.space: Space = problem.space
        self._baseline = problem.space.canonical(problem.baseline)
        rng = np.random.default_rng([problem.seed, 31])
        n = len(self.samples)
        self.surrogates = [Surrogate(self.samples, self.samples.weights, rng)]
        for _ in range(min(problem.n_bootstrap, _MOST_RESAMPLES)):
            counts = draw_counts(self.samples, rng)
            self.surrogates.append(Surrogate(self.samples, self.samples.weights * counts, rng))
        self.rows = np.sort(rng.permutation(n)[:_MOST_ROWS])
        self._inactive = self.space.inactive(self.samples.configs)

    def features_of(self, knob: str, values: Sequence[Value]) -> tuple[NDArray[np.bool_], Array]:
        """The mask (f,) of the knob's features, and its features (v, w) at `values`, also where it has no effect."""
        own = self.samples.owner == list(self.space.knobs).index(knob)
        configs = [self._baseline.replace({knob: value}) for value in values]
        return own, self.space.features(configs, as_given=True)[:, own]

    def curves(self, knob: str, values: Sequence[Value]) -> Array:
        """(s, v) mean expected loss of each surrogate at each of `values`, over the samples in which the knob has an effect."""
        own, blocks = self.features_of(knob, values)
        is_off = self._inactive[self.rows, list(self.space.knobs).index(knob)]
        base = self.samples.x[self.rows if is_off.all() else self.rows[~is_off]]
        x = np.tile(base, (len(values), 1))
        x[:, own] = np.repeat(blocks, len(base), axis=0)
        return np.array([s.predict(x).reshape(len(values), len(base)).mean(axis=1) for s in self.surrogates])

    def slice_of(self, knob: str) -> Slice:
        """The slice of `knob`.

        Raises:
            UsageError: the space has no such knob.
        """
        if knob not in self.space.knobs:
            close = difflib.get_close_matches(knob, list(self.space.knobs), n=1)
            raise UsageError(f"no slice of unknown knob={knob!r}", hint=f"did you mean {close[0]}?" if close else None)
        values, own = self.grid(knob), self._baseline[knob]
        curves = self.curves(knob, [*values, own])
        grid, at_own = curves[:, :-1], curves[:, -1]
        best = int(np.argmin(grid[0]))
        low, high = np.percentile(grid, [LOW, HIGH], axis=0)
        samples = self.samples
        points = [(config[knob], float(loss)) for config, loss in zip(samples.configs, samples.losses, strict=True)]
        return Slice(
            knob=knob, values=values, mean=_floats(grid[0]), low=_floats(np.minimum(low, grid[0])),
            high=_floats(np.maximum(high, grid[0])), points=tuple(points), best=values[best],
            gain=float(at_own[0] - grid[0, best]),
            gain_low=max(0.0, float(np.percentile(at_own - grid[:, best], LOW))),
        )  # fmt: skip

    def grid(self, knob: str, limit: int = _LEVELS) -> tuple[Value, ...]:
        """About `limit` values of a knob, spread evenly over its axis, special values among them."""
        values = self.space.levels(knob, limit)
        special = self.space.knobs[knob].special
        return (*(v for v in special if v not in values), *values)


def _floats(values: Array) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


def slice_of(problem: RankProblem, knob: str) -> Slice:
    """The slice of `knob`; for several knobs of one problem `Dependence` is faster.

    Source: J. Friedman, "Greedy Function Approximation", Annals of Statistics 29 (2001), §8.2 (partial dependence).

    Raises:
        UsageError: as `samples_of`, or the space has no such knob.
    """
    return Dependence(problem).slice_of(knob)
