"""Ranks by the effects of a two-level design.

| symbol | meaning |
| --- | --- |
| signs | (n, d) -1 at a knob's low level, 1 at its high level, in between where a run was repaired |
| effect | what the loss changes from low to high, all else being averaged |
| PSE | Lenth's pseudo standard error of an effect |

Sources: B. Debnath, D. Lilja, M. Mokbel, "SARD", ICDE Workshops 2008; D. Montgomery, E. Runger, "Foldovers of 2^(k-p)
Resolution IV Experimental Designs", J. Quality Technology 28 (1996) (main effects from pairs); R. Lenth, "Quick and Easy
Analysis of Unreplicated Factorials", Technometrics 31 (1989), eq. 2 and 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy  # its stats, most of a second to load, come on first use
from numpy.typing import NDArray

from trimtab.errors import SpaceError, UsageError
from trimtab.importance.designs import two_levels
from trimtab.importance.ranking import LEAST_CONFIGS, Ranking, RankProblem
from trimtab.importance.resample import knob_ranks, overlap_verdict, shares
from trimtab.importance.samples import rounding_of, usable_trials
from trimtab.records import Role, Trial
from trimtab.space import Knob, Space, Value
from trimtab.units import counted

__all__ = ["SardRanker", "has_two_levels"]

Array = NDArray[np.float64]

_SHARE_AT_LEVELS = 0.8
"""A run belongs to a design while so many of the knobs that differ are at one of their two levels; others were repaired."""
_SHARE_UNTOUCHED = 1 / 3
"""So many of a design's runs are wholly at their levels: in a sample of switches and numbers, next to none are."""
_SHARE_MIRRORED = 2 / 3
"""Of the columns, in which both of a mirrored pair have a level, at least; in the others one has no effect in one of them."""
_LEAST_BALANCE = 0.2
"""A knob is at each of its levels in half of a design's runs; failures and repairs may move that so far."""
_LENTH_KNOBS = 5
"""Fewer effects give no pseudo standard error; the trials' own errors are taken instead."""
_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class _Runs:
    """The runs of a design: `signs` (n, d), mean losses (n,), their standard errors (n,), and which knobs have two levels."""

    names: tuple[str, ...]
    signs: Array
    losses: Array
    errors: Array
    n_trials: int
    n_repaired: int


class SardRanker:
    """Squared main effects of a two-level design; takes part only where there is one.

    `effects` are signed, from low to high, in units of the loss (negative: high is better).
    """

    name: ClassVar[str] = "sard"

    def rank(self, problem: RankProblem) -> Ranking:
        """See `Ranker`. Takes the trials in which knobs are at one of two levels each, and leaves all others.

        Raises:
            UsageError: as `usable_trials`; no two-level design among the trials, or too few of its runs were measured.
        """
        trials, notes = usable_trials(problem)
        runs = _runs(problem.space, trials)
        if runs is None:
            raise UsageError(
                f"no two-level design among n_trials={len(trials)} measured trials",
                hint="measure one: trimtab rank STUDY --design sard; or use another ranker",
            )
        effects, how = _effects(runs)
        notes += _run_notes(runs, len(trials), problem)
        notes.append(how)
        error = _standard_error(effects, runs)
        effects[np.abs(effects) <= rounding_of(runs.losses)] = 0.0
        every = dict.fromkeys(problem.space.knobs, 0.0)
        every.update(zip(runs.names, effects.tolist(), strict=True))
        names, point = tuple(every), np.array(list(every.values()))
        is_known = np.array([name in runs.names for name in names])
        rng = np.random.default_rng([problem.seed, 23])
        noise = rng.normal(0.0, error, (problem.n_bootstrap, len(names))) * is_known
        draws = np.array([shares(draw**2) for draw in np.vstack([point, point + noise])])
        knobs = knob_ranks(names, shares(point**2), draws)
        verdict = _noise_verdict(effects, error) or overlap_verdict(knobs)
        return Ranking(
            ranker=self.name, knobs=knobs, n_trials=runs.n_trials, verdict=verdict, notes=tuple(notes), effects=every
        )


def has_two_levels(problem: RankProblem) -> bool:
    """Whether the trials hold a two-level design that can be ranked."""
    try:
        trials, _ = usable_trials(problem)
    except UsageError:
        return False
    return _runs(problem.space, trials) is not None


def _position(knob: Knob, value: Value, levels: tuple[Value, Value]) -> float:
    """-1 at the low level, 1 at the high level, NaN at neither."""
    if value == levels[0]:
        return -1.0
    return 1.0 if value == levels[1] else float("nan")


def _runs(space: Space, trials: Sequence[Trial]) -> _Runs | None:
    """The design among `trials`: by the ends of the ranges, else by whatever two values design trials have."""
    ends = {name: two_levels(knob) for name, knob in space.knobs.items()}
    return _runs_at(space, trials, ends) or _runs_at(space, trials, _own_levels(space, trials))


def _own_levels(space: Space, trials: Sequence[Trial]) -> dict[str, tuple[Value, Value]]:
    """The two values of each knob that has two values among the design's trials; others are left out."""
    made = [trial for trial in trials if trial.role is Role.DESIGN]
    found: dict[str, tuple[Value, Value]] = {}
    n_varied = 0
    for name in space.knobs:
        order = {value: place for place, value in enumerate(space.knobs[name].labels)}
        values = {trial.config[name] for trial in made}
        n_varied += len(values) > 1
        if len(values) == 2:
            # A label that the server has and the range has not comes last, as on its axis.
            low, high = sorted(values, key=lambda value: (order.get(value, len(order)), value))  # type: ignore[arg-type]
            found[name] = (low, high)
    # A sample of the space has two values of every boolean; that makes no design.
    return found if len(found) == n_varied else {}


def _runs_at(space: Space, trials: Sequence[Trial], levels: dict[str, tuple[Value, Value]]) -> _Runs | None:
    varied = {name for name in levels if any(trial.config[name] != trials[0].config[name] for trial in trials)}
    names = [name for name, pair in levels.items() if pair[0] != pair[1] and name in varied]
    if not names or not trials:
        return None
    signs = np.array([[_position(space.knobs[n], t.config[n], levels[n]) for n in names] for t in trials])
    # What has no effect in a run is at neither level there, and nothing has moved it: it counts as the middle.
    signs[_inactive(space, trials, names)] = 0.0
    is_run = np.isfinite(signs).mean(axis=1) >= _SHARE_AT_LEVELS
    if np.isfinite(signs).all(axis=1).sum() < _SHARE_UNTOUCHED * max(1, is_run.sum()):
        return None
    signs, kept = signs[is_run], [t for t, is_in in zip(trials, is_run, strict=True) if is_in]
    low, high = (signs == -1.0).mean(axis=0), (signs == 1.0).mean(axis=0)
    at_both = [i for i in range(len(names)) if min(low[i], high[i]) >= _LEAST_BALANCE]
    if not at_both:
        return None
    names, signs = [names[i] for i in at_both], signs[:, at_both]
    # What was moved off its level counts as the middle: neither low nor high.
    n_repaired = int((~np.isfinite(signs)).any(axis=1).sum())
    signs = np.nan_to_num(signs, nan=0.0)
    rows, place = np.unique(signs, axis=0, return_inverse=True)
    place = place.reshape(-1)
    design = np.hstack([np.ones((len(rows), 1)), rows])
    if len(rows) < max(LEAST_CONFIGS, len(names) + 1) or np.linalg.matrix_rank(design) <= len(names):
        return None
    losses = np.array([t.loss for t in kept], dtype=np.float64)
    errors = np.nan_to_num(np.array([t.loss_se or 0.0 for t in kept], dtype=np.float64), nan=0.0, posinf=0.0)
    count = np.bincount(place)
    return _Runs(
        names=tuple(names), signs=rows, losses=np.bincount(place, losses) / count,
        errors=np.sqrt(np.bincount(place, errors**2)) / count, n_trials=len(kept), n_repaired=n_repaired,
    )  # fmt: skip


def _inactive(space: Space, trials: Sequence[Trial], names: Sequence[str]) -> NDArray[np.bool_]:
    """(n, d) where the knob of a column has no effect in the trial of a row, by its condition."""
    found = np.zeros((len(trials), len(space.knobs)), dtype=np.bool_)
    if any(knob.condition is not None for knob in space.knobs.values()):
        for row, trial in enumerate(trials):
            with suppress(SpaceError):  # a value outside the ranges, as a study of other ranges may have
                found[row] = space.inactive([trial.config])[0]
    columns = {name: column for column, name in enumerate(space.knobs)}
    return found[:, [columns[name] for name in names]]


def _run_notes(runs: _Runs, n_measured: int, problem: RankProblem) -> list[str]:
    notes = []
    if n_measured > runs.n_trials:
        notes.append(
            f"Left out, no run of the two-level design: {counted(n_measured - runs.n_trials, 'measured trial')}."
        )
    if runs.n_repaired:
        notes.append(
            f"A constraint moved {counted(runs.n_repaired, 'run')} off the design's levels; effects of the knobs concerned mix."
        )
    left = [name for name in problem.space.knobs if name not in runs.names]
    if left:
        notes.append(f"Not at both levels in the design, so not ranked: {', '.join(left)}.")
    return notes


def _mirror_pairs(signs: Array) -> list[tuple[int, int]]:
    """Pairs of runs that are each other's mirror image in all columns in which both have a level, which are most."""
    size = np.abs(signs)
    n_shared, agreement = size @ size.T, signs @ signs.T
    is_mirror = (agreement == -n_shared) & (n_shared >= _SHARE_MIRRORED * signs.shape[1])
    found, free = list[tuple[int, int]](), set(range(len(signs)))
    for i in range(len(signs)):
        others = [j for j in np.flatnonzero(is_mirror[i]).tolist() if j in free and j > i]
        if i in free and others:
            j = max(others, key=lambda other: n_shared[i, other])
            found.append((i, j))
            free -= {i, j}
    return found


def _effects(runs: _Runs) -> tuple[Array, str]:
    """(d,) signed effects from low to high, and how they were found."""
    pairs = _mirror_pairs(runs.signs)
    if pairs:
        first, second = (np.array(side) for side in zip(*pairs, strict=True))
        odd = (runs.signs[first] - runs.signs[second]) / 2
        if np.linalg.matrix_rank(odd) == odd.shape[1]:
            half = (runs.losses[first] - runs.losses[second]) / 2
            slopes = np.asarray(np.linalg.lstsq(odd, half, rcond=None)[0], dtype=np.float64)
            lost = len(runs.signs) - 2 * len(pairs)
            how = "Main effects are free of two-factor interactions (fold-over)."
            halved = ((runs.signs[first] == 0) != (runs.signs[second] == 0)).any(axis=0)
            if halved.any():
                names = ", ".join(name for name, is_half in zip(runs.names, halved, strict=True) if is_half)
                how = f"{how[:-1]}, except for those of {names}, which some runs have at neither level."
            if lost:
                how += f" Left out, without a mirror image: {counted(lost, 'run')}."
            return 2.0 * slopes, how
    design = np.hstack([np.ones((len(runs.signs), 1)), runs.signs])
    slopes = np.asarray(np.linalg.lstsq(design, runs.losses, rcond=None)[0][1:], dtype=np.float64)
    how = "Main effects are aliased with two-factor interactions: the design has no fold-over, or too many mirror runs failed."
    return 2.0 * slopes, how


def _standard_error(effects: Array, runs: _Runs) -> float:
    """Of one effect: Lenth's where there are enough effects, never below what the trials' own errors give."""
    own = 2.0 * float(np.sqrt(np.mean(runs.errors**2) / len(runs.losses)))
    if len(effects) < _LENTH_KNOBS:
        return own
    size = np.abs(effects)
    middle = 1.5 * float(np.median(size))
    return max(own, 1.5 * float(np.median(size[size <= 2.5 * middle])))


def _noise_verdict(effects: Array, error: float) -> str:
    """Whether the largest effect could be chance (Lenth's simultaneous margin of error)."""
    d = len(effects)
    if error <= 0.0 or d < _LENTH_KNOBS:
        return ""
    margin = float(scipy.stats.t.ppf((1.0 + _CONFIDENCE ** (1.0 / d)) / 2.0, d / 3.0)) * error
    largest = float(np.max(np.abs(effects)))
    if largest >= margin:
        return ""
    return (
        f"not enough data to tell: the largest effect={largest:.3f} is below the margin of error={margin:.3f} of "
        f"{d} effects"
    )
