"""Planted truth: spaces of 30 and 200 knobs, five of which matter, and how many samples it takes to find the five."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trimtab.importance import RankProblem, lhs_design, rank_knobs, sard_design
from trimtab.importance.consensus import default_rankers
from trimtab.importance.sard import SardRanker
from trimtab.records import Context, Role, Status, Trial
from trimtab.space import Config, Knob, KnobKind, Space, Value

NOISE = 0.05
"""Standard deviation of a measured loss: 5 % of the performance."""
SIZES = (0.35, 0.28, 0.22, 0.17, 0.13)
"""What each of the five moves the loss between its worst and its best value, all else equal."""
INTERACTION = 0.25
"""What the pair moves it beyond the sum of its two."""
TOP = 6
N_BOOTSTRAP = 20
LADDERS = {30: (40, 60, 80, 100), 200: (75, 150, 250, 400)}
"""Samples tried by the number of knobs; the last is the goal."""
SPACES = {30: 10, 200: 5}
"""Spaces by the number of knobs."""

_CHOICES = ("a", "b", "c", "d")


@dataclass(frozen=True, slots=True)
class Planted:
    """A space, the five that matter, and the loss without noise."""

    space: Space
    five: tuple[str, ...]
    loss: Callable[[Config], float]


def _knob(i: int) -> Knob:
    name = f"k{i:03d}"
    kinds: Sequence[Mapping[str, Any]] = (
        {"kind": KnobKind.INTEGER, "low": 16, "high": 16384, "log": True, "default": 64},
        {"kind": KnobKind.REAL, "low": 0.0, "high": 10.0, "default": 2.0},
        {"kind": KnobKind.BOOLEAN, "default": False},
        {"kind": KnobKind.INTEGER, "low": 10, "high": 500, "default": 50, "special": (0,)},
        {"kind": KnobKind.CHOICE, "choices": _CHOICES, "default": "b"},
        {"kind": KnobKind.INTEGER, "low": 1, "high": 64, "default": 8},
    )
    return Knob(name=name, **kinds[i % len(kinds)])


def _unit(knob: Knob, value: Value) -> float:
    if isinstance(value, str):
        return knob.choices.index(value) / (len(knob.choices) - 1)
    if isinstance(value, bool) or value in knob.special:
        return float(value)
    low, high = float(knob.low or 0.0), float(knob.high or 1.0)
    return math.log(value / low) / math.log(high / low) if knob.log else (value - low) / (high - low)


def _shape(knob: Knob, rng: np.random.Generator) -> Callable[[float], float]:
    """0 to 1 over the knob's unit: a line, a saturation, a valley or a step for numbers, a table for labels."""
    if not knob.is_numeric:
        levels = rng.permutation(np.linspace(0.0, 1.0, len(knob.labels)))
        return lambda u: float(levels[round(u * (len(levels) - 1))])
    at = float(rng.uniform(0.3, 0.7))
    shapes: list[Callable[[float], float]] = [
        lambda u: u,
        lambda u: max(0.0, 1.0 - u / at),
        lambda u: min(1.0, abs(u - at) / 0.5),
        lambda u: float(u > at),
    ]
    return shapes[int(rng.integers(len(shapes)))]


def plant(n_knobs: int, seed: int) -> Planted:
    """Five knobs of any kinds drawn by `seed`; the first two numeric ones among them interact."""
    rng = np.random.default_rng([seed, n_knobs, 91])
    space = Space([_knob(i) for i in range(n_knobs)])
    knobs = list(space.knobs.values())
    drawn = [knobs[int(i)] for i in rng.permutation(n_knobs)]
    numeric = [knob for knob in drawn if knob.is_numeric][:2]
    five = [*numeric, *[knob for knob in drawn if knob not in numeric][:3]]
    sizes = rng.permutation(SIZES)
    shapes = [_shape(knob, rng) for knob in five]

    def loss(config: Config) -> float:
        units = [_unit(knob, config[knob.name]) for knob in five]
        mains = sum(size * shape(u) for size, shape, u in zip(sizes, shapes, units, strict=True))
        return float(mains + INTERACTION * 2.0 * (units[0] - 0.5) * (units[1] - 0.5))

    return Planted(space, tuple(knob.name for knob in five), loss)


def trials_of(planted: Planted, configs: Sequence[Config], seed: int, role: Role = Role.DESIGN) -> list[Trial]:
    """The configs measured, with noise."""
    rng, start = np.random.default_rng([seed, 92]), planted.loss(planted.space.default())
    return [
        Trial(number=i, role=role, config=config, context=Context("planted", 1), status=Status.OK, loss_se=NOISE,
              loss=planted.loss(config) - start + float(rng.normal(0.0, NOISE)))
        for i, config in enumerate(configs)
    ]  # fmt: skip


def problem_of(planted: Planted, configs: Sequence[Config], seed: int) -> RankProblem:
    """The problem of ranking them."""
    return RankProblem(
        space=planted.space, baseline=planted.space.default(), trials=trials_of(planted, configs, seed), seed=seed,
        n_bootstrap=N_BOOTSTRAP,
    )  # fmt: skip


def places(names: Sequence[str], five: Sequence[str]) -> int:
    """The place of the last of the five."""
    return 1 + max(names.index(name) for name in five)


def one(n_knobs: int, n_samples: int, seed: int) -> dict[str, int]:
    """By ranker, and for the consensus: the place of the last of the five."""
    planted = plant(n_knobs, seed)
    configs = lhs_design(planted.space, planted.space.default(), n_samples, seed).configs
    problem = problem_of(planted, configs, seed)
    found = rank_knobs(problem, default_rankers(problem))
    by_ranker = {ranking.ranker: places(ranking.names, planted.five) for ranking in found.rankings}
    return {**by_ranker, "consensus": places(found.names, planted.five)}


def designed(n_knobs: int, seed: int) -> dict[str, int]:
    """SARD's design with fold-over: its runs and the place of the last of the five."""
    planted = plant(n_knobs, seed)
    configs = sard_design(planted.space, planted.space.default()).configs
    ranking = SardRanker().rank(problem_of(planted, configs, seed))
    return {"runs": len(configs), "place": places(ranking.names, planted.five)}


def part(say: Callable[[str], None]) -> dict[str, Any]:
    """The whole part of `results.json`."""
    rows = []
    for n_knobs, ladder in LADDERS.items():
        for n_samples in ladder:
            runs = []
            for seed in range(1, SPACES[n_knobs] + 1):
                runs.append(one(n_knobs, n_samples, seed))
                say(f"planted {n_knobs} knobs, {n_samples} samples, seed {seed}: {runs[-1]}")
            by_ranker = {ranker: [run[ranker] for run in runs] for ranker in runs[0]}
            rows.append({"knobs": n_knobs, "samples": n_samples, "last_place": by_ranker})
    sard = [
        {"knobs": n_knobs, "runs": [designed(n_knobs, seed) for seed in range(1, SPACES[n_knobs] + 1)]}
        for n_knobs in LADDERS
    ]
    return {
        "noise": NOISE, "sizes": list(SIZES), "interaction": INTERACTION, "top": TOP,
        "rows": rows, "sard": sard,
    }  # fmt: skip
