"""Designs: which configs to measure so that knobs can be ranked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np
import scipy  # its stats, most of a second to load, come on first use
from numpy.typing import NDArray

from trimtab.errors import UsageError
from trimtab.importance.hadamard import plackett_burman
from trimtab.importance.ranking import LEAST_CONFIGS
from trimtab.space import Config, Knob, Space, Value
from trimtab.units import counted

__all__ = [
    "DESIGNS",
    "Design",
    "join_designs",
    "least_runs",
    "lhs_design",
    "make_design",
    "one_at_a_time",
    "sard_design",
    "sobol_design",
    "two_levels",
]

DESIGNS = ("sard", "lhs", "sobol", "one-at-a-time")
"""Names that `make_design` takes."""

_RUNS_PER_KNOB = 3
_LEAST_DEFAULT = 30
"""Size of a sample when none is asked for: three configs a knob, 30 at least."""
_LATIN_DRAWS = 20
"""Hypercubes drawn, of which the one with the least correlation between knobs is taken."""

_FREE = (
    "Main effects are free of two-factor interactions; the interactions themselves are aliased with each other and "
    "cannot be separated."
)
_ALIASED = (
    "Without fold-over the main effect of each knob is aliased with interactions of two others: a strong pair can pass for "
    "a third knob."
)
"""What a two-level design shows, with fold-over and without."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Configs to measure, in the order in which they should be.

    Attributes:
        kind: one of `DESIGNS`.
        configs: all valid, canonical and feasible; a config may come twice where infeasible rows were repaired.
        notes: what people should know (aliasing, repaired rows, ...), one sentence each.
    """

    kind: str
    configs: tuple[Config, ...]
    notes: tuple[str, ...] = ()


def join_designs(batches: Sequence[Design]) -> Design:
    """One design of all `batches`, the first first; what the last says of its aliasing holds for them together."""
    earlier = (note for each in batches[:-1] for note in each.notes if note not in (_FREE, _ALIASED))
    return Design(
        kind=batches[-1].kind,
        configs=tuple(config for each in batches for config in each.configs),
        notes=tuple(dict.fromkeys((*batches[-1].notes, *earlier))),
    )


def make_design(
    kind: str,
    space: Space,
    baseline: Config,
    runs: int | None = None,
    seed: int = 1,
    *,
    before: Sequence[Config] = (),
) -> Design:
    """The design `kind` of at most `runs` configs; None: as many as it needs (samples: three a knob, at least 30).

    `sard` gives up its fold-over where `runs` are too few for both halves; `one-at-a-time` tries as many levels of
    each knob as `runs` allow. With `before`, the configs of earlier batches, it is a further batch: `sard` makes up for a
    fold-over that is missing, and then takes the knobs in another order; `one-at-a-time` tries levels between those that were
    tried, and the same ones again where there are no others. A sample is another one by its seed.

    Raises:
        UsageError: unknown kind, no knob that can vary, or too few runs for the design.
    """
    if kind not in DESIGNS:
        raise UsageError(f"unknown design={kind!r}", hint=f"use one of: {', '.join(DESIGNS)}")
    if kind == "sard":
        n = len(_with_two_levels(space))
        size = len(plackett_burman(n))
        _require_runs(kind, runs, size, f"{_of(n)} {size} runs, {2 * size} with fold-over")
        return sard_design(space, baseline, fold_over=runs is None or runs >= 2 * size, n_halves=len(before) // size)
    varying = _varying(space)
    if kind == "one-at-a-time":
        _require_runs(kind, runs, len(varying), f"{_of(len(varying))} a run each")
        return one_at_a_time(space, baseline, 2 if runs is None else runs // len(varying), before)
    if runs is None:
        runs = max(_LEAST_DEFAULT, _RUNS_PER_KNOB * len(varying))
    return (lhs_design if kind == "lhs" else sobol_design)(space, baseline, runs, seed)


def least_runs(kind: str, space: Space) -> int:
    """The fewest runs that a design `kind` (one of `DESIGNS`) can have.

    Raises:
        UsageError: no knob that can vary.
    """
    if kind == "sard":
        return len(plackett_burman(len(_with_two_levels(space))))
    return len(_varying(space)) if kind == "one-at-a-time" else LEAST_CONFIGS


def _of(n_knobs: int) -> str:
    return f"{counted(n_knobs, 'knob')} {'needs' if n_knobs == 1 else 'need'}"


def _require_runs(kind: str, runs: int | None, least: int, why: str) -> None:
    if runs is not None and runs < least:
        raise UsageError(f"runs={runs} are too few for design={kind!r}", hint=f"ask for {least} or more: {why}")


def _varying(space: Space) -> list[str]:
    names = [name for name in space.knobs if space.n_levels(name) > 1]
    if not names:
        raise UsageError(
            f"n_knobs={len(space.knobs)}, of which none has two values",
            hint="open knobs that can vary, or their ranges",
        )
    return names


def two_levels(knob: Knob) -> tuple[Value, Value]:
    """The low and the high level of a knob: the ends of its useful range, or its first and last label.

    Special values are left out.
    """
    if not knob.is_numeric:
        return knob.labels[0], knob.labels[-1]
    if knob.low is None or knob.high is None:
        raise UsageError(f"knob={knob.name!r} has no range", hint="give it low and high")
    return knob.clip(knob.low), knob.clip(knob.high)


def _with_two_levels(space: Space) -> list[str]:
    """The knobs of which a two-level design has both levels; a number with one ordinary value beside special ones is none."""
    names = [name for name in _varying(space) if len(set(two_levels(space.knobs[name]))) == 2]
    if not names:
        raise UsageError(
            f"n_knobs={len(space.knobs)}, of which none has two levels",
            hint="open the ranges of knobs, or use design lhs",
        )
    return names


def sard_design(space: Space, baseline: Config, *, fold_over: bool = True, n_halves: int = 0) -> Design:
    """A Plackett-Burman design: every knob low in half of the runs and high in the other, independently of all others.

    With fold-over every run is followed by its mirror image, so that interactions of two knobs cannot pass for the
    effect of one. Runs: the next size above the number of knobs, usually a multiple of 4, twice that with fold-over.
    Of a design that goes on, `n_halves` were made before (runs without fold-over are one half): first comes the mirror image
    of the last, if that is missing; each further pair has the knobs on other columns, so other pairs of knobs are aliased.

    Source: B. Debnath, D. Lilja, M. Mokbel, "SARD: A statistical approach for ranking database tuning parameters",
    ICDE Workshops 2008.

    Raises:
        UsageError: no knob can vary.
        SpaceError: nothing is feasible.
    """
    names = _with_two_levels(space)
    halves = [_half(len(names), number) for number in range(n_halves, n_halves + 1 + fold_over)]
    signs = np.stack(halves, axis=1).reshape(-1, len(names))
    levels = [two_levels(space.knobs[name]) for name in names]
    rows = [
        baseline.replace({name: pair[int(sign > 0)] for name, pair, sign in zip(names, levels, row, strict=True)})
        for row in signs
    ]
    configs, notes = _feasible(space, rows)
    is_folded = (n_halves + 1 + fold_over) % 2 == 0
    return Design(kind="sard", configs=configs, notes=(*_sard_notes(space, names, is_folded), *notes))


def _half(n_columns: int, number: int) -> NDArray[np.int64]:
    """Signs (size, n_columns) of the half of that number: every second is the mirror image of the one before."""
    signs, pair = plackett_burman(n_columns), number // 2
    order = np.random.default_rng([pair, 31]).permutation(signs.shape[1]) if pair else np.arange(signs.shape[1])
    return signs[:, order[:n_columns]] * (-1 if number % 2 else 1)


def _sard_notes(space: Space, names: Sequence[str], fold_over: bool) -> list[str]:
    notes = [_FREE if fold_over else _ALIASED]
    untried = [name for name in names if len(space.knobs[name].choices) > 2]
    if untried:
        notes.append(f"Only the first and the last choice are tried of: {', '.join(untried)}.")
    special = [name for name in names if space.knobs[name].special]
    if special:
        notes.append(f"Special values are not tried of: {', '.join(special)}.")
    left = [name for name in space.knobs if name not in names]
    if left:
        notes.append(f"Held at the baseline, having one value only: {', '.join(left)}.")
    return notes


def _feasible(space: Space, rows: Sequence[Config]) -> tuple[tuple[Config, ...], list[str]]:
    """The rows as feasible, canonical configs, and what had to be changed."""
    configs, n_repaired = [], 0
    for row in rows:
        config = space.canonical(row)
        if not space.is_feasible(config):
            config, n_repaired = space.repair(config), n_repaired + 1
        configs.append(config)
    notes = []
    if n_repaired:
        notes.append(
            f"{n_repaired} of {len(rows)} runs broke a constraint of the space and were moved to the nearest feasible "
            "config, so some knobs are not at the value that the design asks for."
        )
    n_again = len(configs) - len(set(configs))
    if n_again:
        notes.append(f"An earlier config comes again in {n_again} of {counted(len(rows), 'run')}.")
    return tuple(configs), notes


def _require_sample(kind: str, space: Space, runs: int) -> None:
    _varying(space)
    _require_runs(kind, runs, LEAST_CONFIGS, "fewer rank nothing")


def lhs_design(space: Space, baseline: Config, runs: int, seed: int = 1) -> Design:
    """A Latin hypercube of `runs` configs: each knob's axis is met once in each of `runs` equal parts.

    The least correlated of 20 hypercubes. `baseline` is not used: every knob varies.

    Raises:
        UsageError: fewer than 8 runs, or no knob can vary.
        SpaceError: nothing is feasible.
    """
    _require_sample("lhs", space, runs)
    rng = np.random.default_rng([seed, runs])
    cubes = [_latin(runs, space.n_dims, rng) for _ in range(_LATIN_DRAWS if space.n_dims > 1 else 1)]
    configs, notes = _feasible(space, space.decode_many(min(cubes, key=_worst_correlation)))
    return Design(kind="lhs", configs=configs, notes=tuple(notes))


def _latin(n: int, d: int, rng: np.random.Generator) -> Floats:
    cells = rng.permuted(np.tile(np.arange(n), (d, 1)), axis=1).T
    return np.asarray((cells + rng.random((n, d))) / n)


def _worst_correlation(points: Floats) -> float:
    if points.shape[1] < 2:
        return 0.0
    return float(np.abs(np.triu(np.corrcoef(points, rowvar=False), 1)).max())


def sobol_design(space: Space, baseline: Config, runs: int, seed: int = 1) -> Design:
    """`runs` points of a scrambled Sobol sequence. `baseline` is not used: every knob varies.

    Raises:
        UsageError: fewer than 8 runs, or no knob can vary.
        SpaceError: nothing is feasible.
    """
    _require_sample("sobol", space, runs)
    engine = scipy.stats.qmc.Sobol(space.n_dims, scramble=True, seed=np.random.default_rng([seed, 7]))
    points = engine.random_base2(max(0, math.ceil(math.log2(runs))))[:runs]
    configs, notes = _feasible(space, space.decode_many(points))
    if runs & (runs - 1):
        notes.append(f"runs={runs} is not a power of 2, so the points are not perfectly balanced.")
    return Design(kind="sobol", configs=configs, notes=tuple(notes))


def one_at_a_time(space: Space, baseline: Config, levels: int = 2, before: Sequence[Config] = ()) -> Design:
    """The baseline with one knob changed, for each knob and up to `levels` of its values, spread evenly.

    Interactions cannot be seen. Values that the constraints do not allow are left out rather than repaired. Values tried by the
    configs `before` come again only where no knob has another one.

    Raises:
        UsageError: `levels` below 1, or no knob can vary.
    """
    if levels < 1:
        raise UsageError(f"levels={levels} of a one-at-a-time design", hint="try at least 1 value of each knob")
    start = space.canonical(baseline)
    configs: list[Config] = []
    skipped = []
    for name in _varying(space):
        tried = {config[name] for config in before} - {start[name]}
        own = start[name]
        values = _between(space, name, own, tried, levels) if before else iter(_spread(space, name, own, levels))
        allowed, is_whole = _allowed(space, start, name, values, levels)
        configs += allowed
        if not is_whole:
            skipped.append(name)
    if before and not configs:
        again = one_at_a_time(space, baseline, levels)
        return replace(
            again, notes=(*again.notes, "No knob has a value that was not tried: earlier ones are measured again.")
        )
    notes = ["Interactions cannot be seen: each knob is changed while all others stay at the baseline."]
    if skipped:
        notes.append(
            f"Some values are not allowed, or have no effect, with the baseline's other values: {', '.join(skipped)}."
        )
    return Design(kind="one-at-a-time", configs=tuple(configs), notes=tuple(notes))


def _ordinary(space: Space, name: str, limit: int) -> list[Value]:
    """About `limit` values of a knob in their order, without special ones."""
    knob = space.knobs[name]
    return [v for v in space.levels(name, limit) if not (knob.is_numeric and v in knob.special)]


def _allowed(space: Space, start: Config, name: str, values: Iterator[Value], most: int) -> tuple[list[Config], bool]:
    """`start` with the first of `values` that change something and are feasible, at most so many; and whether all before were."""
    found: list[Config] = []
    is_whole = True
    for value in values:
        config = space.canonical(start.replace({name: value}))
        if config == start or not space.is_feasible(config):
            is_whole = False
            continue
        found.append(config)
        if len(found) == most:
            break
    return found, is_whole


def _between(space: Space, name: str, own: Value, tried: Set[Value], levels: int) -> Iterator[Value]:
    """The values that were not `tried`, each as far as can be from those and from the ones before."""
    every = _ordinary(space, name, 8 * (levels + len(tried)) + 8)
    known = [place for value in (own, *tried) if (place := _nearest_place(every, value)) is not None]
    while len(set(known)) < len(every):
        gaps = [min((abs(place - each) for each in known), default=place) for place in range(len(every))]
        known.append(int(np.argmax(gaps)))
        yield every[known[-1]]


def _nearest_place(every: Sequence[Value], value: Value) -> int | None:
    """Where `value`, or the number nearest to it, is among `every`; None for a label that is none of them."""
    if value in every or isinstance(value, str):
        return every.index(value) if value in every else None
    gaps = [math.inf if isinstance(each, str) else abs(each - value) for each in every]
    return int(np.argmin(gaps)) if gaps else None


def _spread(space: Space, name: str, own: Value, levels: int) -> list[Value]:
    """Up to `levels` values other than `own`, both ends first."""
    every = _ordinary(space, name, 4 * levels + 8)
    others = [value for value in every if value != own]
    if len(others) <= levels:
        return others
    if levels == 1:
        # The end that is farther from the baseline shows most.
        return [others[-1] if _is_low(every, own) else others[0]]
    places = np.unique(np.linspace(0, len(others) - 1, levels).round().astype(int))
    return [others[place] for place in places]


def _is_low(every: Sequence[Value], own: Value) -> bool:
    """Whether `own` lies in the lower half of the values `every`."""
    below = [v for v in every if not isinstance(v, str) and not isinstance(own, str) and v < own]
    return 2 * (every.index(own) if own in every else len(below)) < len(every)
