"""Rugged surfaces: a second family of synthetic problems, on which knobs interact, cross thresholds, and no rule gives advice.

They differ from `trimtab.testing.surfaces` in shape, so that a searcher tuned to one family shows on the other: 17 to 23 knobs
of drawn kinds, 6 to 9 of which matter; products of two knobs, thresholds, narrow bumps, a label with an optimum of its own for
each choice, and a region that crashes because several knobs together are too large. The baseline is as poor as vendors' defaults.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache

import numpy as np

from trimtab.space import Knob, KnobKind, Space
from trimtab.testing.surfaces import NOISE, Surface, least_loss

__all__ = ["make_rugged"]

Term = Callable[[Mapping[str, float]], float]

_LABELS = ("a", "b", "c")
_CRASHES = (0.12, 0.30)
"""Share of random configs that crash, drawn from this range."""

_N_STARTS = 24


def _knobs(rng: np.random.Generator) -> list[Knob]:
    kinds = rng.choice(
        ["log", "number", "special", "switch", "choice"], size=rng.integers(11, 18), p=[0.4, 0.2, 0.15, 0.15, 0.1]
    )
    order = rng.permutation(["log", "log", "log", "number", "special", "choice", *kinds])
    return [_knob(f"r{i:02d}", str(kind)) for i, kind in enumerate(order)]


def _knob(name: str, kind: str) -> Knob:
    if kind == "switch":
        return Knob(name=name, kind=KnobKind.BOOLEAN, default=False)
    if kind == "choice":
        return Knob(name=name, kind=KnobKind.CHOICE, choices=_LABELS, default="a")
    if kind == "special":
        return Knob(name=name, kind=KnobKind.INTEGER, low=1, high=64, default=4, special=(0,))
    if kind == "number":
        return Knob(name=name, kind=KnobKind.REAL, low=0.0, high=1.0, default=0.2)
    return Knob(name=name, kind=KnobKind.INTEGER, low=8, high=65536, log=True, default=32)


def _threshold(name: str, at: float, gain: float) -> Term:
    """A step down of `gain` beyond `at`, over a twentieth of the range."""
    return lambda u: -gain * min(1.0, max(0.0, (u[name] - at) / 0.05))


def _bump(name: str, at: float, width: float, gain: float) -> Term:
    return lambda u: -gain * math.exp(-0.5 * ((u[name] - at) / width) ** 2)


def _product(first: str, second: str, gain: float) -> Term:
    """Each is worth little without the other, and one of them alone costs."""
    return lambda u: gain * (0.3 * abs(u[first] - max(u[second], 0.0)) - max(u[first], 0.0) * max(u[second], 0.0))


def _saturation(name: str, end: float, gain: float) -> Term:
    return lambda u: -gain * min(1.0, max(0.0, u[name]) / end)


def _own_optimum(choice: str, name: str, places: tuple[float, ...], gains: tuple[float, ...]) -> Term:
    """Each label is best at another place of a number, and worth something there only."""

    def term(u: Mapping[str, float]) -> float:
        label = round(u[choice] * (len(_LABELS) - 1))
        return -gains[label] * math.exp(-0.5 * ((u[name] - places[label]) / 0.15) ** 2)

    return term


def _special(name: str, gain: float) -> Term:
    return lambda u: -gain if u[name] < 0 else 0.0


@cache
def make_rugged(seed: int, noise: float = NOISE) -> Surface:
    """A rugged surface, different for each seed; without advice and without constraints that are known."""
    rng = np.random.default_rng([seed, 71])
    space = Space(_knobs(rng))
    of = {kind: [n for n, k in space.knobs.items() if k.kind is kind and not k.special] for kind in KnobKind}
    logs = [str(n) for n in rng.permutation(of[KnobKind.INTEGER])]
    reals = [str(n) for n in rng.permutation(of[KnobKind.REAL])]
    choice = str(rng.choice(of[KnobKind.CHOICE]))
    special = str(rng.choice([n for n, k in space.knobs.items() if k.special]))
    gains = rng.uniform(0.05, 0.2), rng.uniform(0.2, 0.35), rng.uniform(0.2, 0.5)
    numbers = [str(n) for n in rng.permutation([*logs[3:], *reals])]
    terms = [
        _product(logs[0], logs[1], rng.uniform(0.4, 0.8)),
        _own_optimum(
            choice, logs[2], tuple(rng.permutation([0.2, 0.5, 0.8]).tolist()), tuple(rng.permutation(gains).tolist())
        ),
        _threshold(reals[0], rng.uniform(0.5, 0.75), rng.uniform(0.15, 0.4)),
        _special(special, float(rng.choice([-0.15, 0.1, 0.3]))),
    ]
    shapes = (
        lambda n: _saturation(n, rng.uniform(0.4, 0.8), rng.uniform(0.2, 0.5)),
        lambda n: _bump(n, rng.uniform(0.3, 0.8), rng.uniform(0.12, 0.25), rng.uniform(0.2, 0.4)),
        lambda n: _threshold(n, 0.85, -rng.uniform(0.4, 1.0)),
        lambda n: _threshold(n, rng.uniform(0.3, 0.7), rng.uniform(0.1, 0.3)),
    )  # fmt: skip
    terms += [shapes[int(rng.integers(len(shapes)))](name) for name in numbers[1:][: int(rng.integers(2, 5))]]
    faint = {name: float(rng.normal(0.0, 0.008)) for name in space.knobs}
    large = [logs[0], *(str(n) for n in rng.permutation(logs[1:])[:2])]
    surface = Surface(space, space.default(), (), terms, faint, lambda u: False, noise)
    surface.crashes = _too_large(surface, large, rng)
    surface.baseline_loss = surface.raw(surface.baseline)
    drawn = sorted(space.sample(400, rng), key=surface.loss)
    surface.optimum = least_loss(surface, [surface.baseline, *drawn[:_N_STARTS]])
    return surface


def _too_large(surface: Surface, names: list[str], rng: np.random.Generator) -> Callable[[Mapping[str, float]], bool]:
    """Crashes where the sizes of `names` together pass a limit that a drawn share of random configs passes."""

    def size(u: Mapping[str, float]) -> float:
        return sum(math.exp(5.0 * max(u[name], 0.0)) for name in names)

    drawn = [size(surface.units(config)) for config in surface.space.sample(500, rng)]
    limit = float(np.quantile(drawn, 1.0 - rng.uniform(*_CRASHES)))
    return lambda u: size(u) > limit
