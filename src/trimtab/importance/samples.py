"""Samples: the measured trials of a problem as arrays, with everything that is wrong with them said."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import SpaceError, UsageError
from trimtab.importance.ranking import LEAST_CONFIGS, RankProblem, TooFewError
from trimtab.records import Trial
from trimtab.space import Config, Space
from trimtab.units import counted

__all__ = ["Samples", "is_flat", "rounding_of", "samples_of", "usable_trials"]

Array = NDArray[np.float64]

_ROUNDING = 1e-12
"""Of 1 (losses are log-ratios), or of the largest loss."""

_NAMES_SHOWN = 8
_TAIL_START = 2.0
"""Losses above the median by more than so many spreads are compressed, so that a few disasters are not all that counts."""

_MOST_RUNS = 3
"""Most runs of one config that count: the noise that more of them take away is small beside what a model leaves unexplained, and
the many of the baseline and of a proven winner would hide all other configs (docs/measurements/importance.md)."""


@dataclass(frozen=True, slots=True)
class Samples:
    """n different configs of d knobs with f features.

    Attributes:
        space: of the study.
        configs: the n configs, canonical.
        x: (n, f) features in [0, 1] (`Space.features`).
        points: (n, d) places in the unit cube.
        owner: (f,) which knob each feature belongs to.
        losses: (n,) mean loss of each config as measured.
        y: (n,) the same with the tail of very bad configs compressed.
        weights: (n,) how many trials each mean is of, three at most.
        varied: (d,) whether the knob has more than one value among the configs.
        degrees: (f,) 0 for a feature that never varies, 1 for one with two values, 2 for what varies gradually.
        n_trials: measured trials behind them.
        notes: what was left out or cannot be ranked.
    """

    space: Space
    configs: tuple[Config, ...]
    x: Array
    points: Array
    owner: NDArray[np.int64]
    losses: Array
    y: Array
    weights: Array
    varied: NDArray[np.bool_]
    degrees: NDArray[np.int64]
    n_trials: int
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.y)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the d knobs."""
        return tuple(self.space.knobs)


def rounding_of(losses: Array) -> float:
    """A difference between `losses` that is no larger is none."""
    return _ROUNDING * max(1.0, float(np.abs(losses).max()))


def is_flat(y: Array, weights: Array) -> bool:
    """Whether the values (n,) that count differ by rounding only, which a model must not explain."""
    counted = y[weights > 0]
    return bool(np.ptp(counted) <= rounding_of(counted))


def usable_trials(problem: RankProblem) -> tuple[list[Trial], list[str]]:
    """The trials with a finite loss, each once, and notes on the others.

    Raises:
        UsageError: no knobs, trials of another space.
        TooFewError: no trials, or none that was measured.
    """
    if not problem.space.knobs:
        raise UsageError("the space has no knobs to rank", hint="open knobs in the study file ([target] knobs)")
    if not problem.trials:
        raise TooFewError("no trials to rank knobs from: n_trials=0", hint=_MORE)
    for trial in problem.trials:
        _require_same_knobs(problem.space, trial)
    trials = list({(t.number, t.config, t.status, t.loss, t.started_at): t for t in problem.trials}.values())
    notes = []
    if len(trials) < len(problem.trials):
        notes.append(f"{counted(len(problem.trials) - len(trials), 'trial')} given twice: counted once.")
    measured = [t for t in trials if t.status.is_measured]
    found = [t for t in measured if t.loss is not None and math.isfinite(t.loss)]
    if not found:
        statuses = Counter(t.status.value for t in trials)
        seen = ", ".join(f"{status}={count}" for status, count in sorted(statuses.items()))
        raise TooFewError(
            f"none of n_trials={len(trials)} has a finite loss ({seen})", hint=_MORE if measured else _FAILED
        )
    if len(measured) < len(trials):
        notes.append(
            f"{len(trials) - len(measured)} of {counted(len(trials), 'trial')} failed: no value of the objective."
        )
    if len(found) < len(measured):
        notes.append(f"Left out, without a finite loss: {counted(len(measured) - len(found), 'measured trial')}.")
    return found, notes


_MORE = "measure some first: trimtab tune STUDY, or trimtab rank STUDY --design lhs --runs N"
_FAILED = (
    "see why they failed (trimtab report NAME --trials); narrow the ranges or drop the knob that breaks the target"
)


def _require_same_knobs(space: Space, trial: Trial) -> None:
    if trial.config.keys() == space.knobs.keys():
        return
    strange = sorted(set(trial.config) - set(space.knobs))
    missing = sorted(set(space.knobs) - set(trial.config))
    parts = [f"{word}={_listed(names)}" for word, names in (("unknown", strange), ("missing", missing)) if names]
    raise UsageError(
        f"trial number={trial.number} is of another space: {', '.join(parts)}",
        hint="rank trials of one study, or of studies with the same knobs; ranks of another study can be checked instead",
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(names[:_NAMES_SHOWN]) + more


def samples_of(problem: RankProblem) -> Samples:
    """The measured trials of `problem`; repeats of a config are one sample with their mean.

    Raises:
        UsageError: as `usable_trials`; no knob varies.
        TooFewError: as `usable_trials`; fewer than `LEAST_CONFIGS` different configs.
    """
    if "samples" not in problem.memo:
        problem.memo["samples"] = _made(problem)
    found: Samples = problem.memo["samples"]
    return found


def _made(problem: RankProblem) -> Samples:
    trials, notes = usable_trials(problem)
    means, n_strange = _by_config(problem.space, trials)
    if n_strange:
        notes.append(f"Left out, with values outside the space's ranges: {counted(n_strange, 'trial')}.")
    if len(means) < LEAST_CONFIGS:
        raise TooFewError(
            f"n_configs={len(means)} different measured configs are too few to rank n_knobs={len(problem.space.knobs)}: "
            f"at least {LEAST_CONFIGS} are needed",
            hint=_MORE,
        )
    n_trials = sum(len(losses) for losses in means.values())
    if n_trials > len(means):
        notes.append(f"Averaged with the first run of their config: {counted(n_trials - len(means), 'repeat')}.")
    found = _arrays(problem.space, means)
    return replace(found, notes=(*notes, *_unvaried_notes(problem.space, found.varied)))


def _by_config(space: Space, trials: Sequence[Trial]) -> tuple[dict[Config, list[float]], int]:
    """Losses by canonical config, and how many trials have illegal values."""
    found: dict[Config, list[float]] = {}
    n_strange = 0
    for trial in trials:
        try:
            config = space.canonical(trial.config)
        except SpaceError:
            n_strange += 1
            continue
        found.setdefault(config, []).append(float(trial.loss or 0.0))
    return found, n_strange


def _arrays(space: Space, means: dict[Config, list[float]]) -> Samples:
    # In the order of the configs' text, so that the order of the trials does not matter.
    configs = sorted(means, key=repr)
    losses = np.array([float(np.mean(means[config])) for config in configs])
    owner = np.concatenate([np.full(part.stop - part.start, i) for i, part in enumerate(space.feature_slices.values())])
    x = space.features(configs)
    weights = np.array([min(len(means[config]), _MOST_RUNS) for config in configs], dtype=np.float64)
    degrees = np.array([min(len(np.unique(column)), 3) - 1 for column in x.T], dtype=np.int64)
    varied = np.zeros(space.n_dims, dtype=np.bool_)
    np.logical_or.at(varied, owner, degrees > 0)
    if not varied.any():
        raise UsageError(
            f"no knob varies among n_configs={len(configs)} configs",
            hint="measure configs that differ in the space's knobs",
        )
    return Samples(
        space=space, configs=tuple(configs), x=x, points=np.array([space.encode(config) for config in configs]),
        owner=owner, losses=losses, y=_tamed(losses), weights=weights,
        varied=varied, degrees=degrees, n_trials=sum(map(len, means.values())), notes=(),
    )  # fmt: skip


def _unvaried_notes(space: Space, varied: NDArray[np.bool_]) -> list[str]:
    still = [name for name, is_varied in zip(space.knobs, varied, strict=True) if not is_varied]
    constant = [name for name in still if space.n_levels(name) <= 1]
    never = [name for name in still if space.n_levels(name) > 1]
    notes = []
    if constant:
        notes.append(f"Constant, so not ranked: {_listed(constant)}.")
    if never:
        notes.append(f"Never varied in these trials, so nothing is known of: {_listed(never)}.")
    return notes


def _tamed(losses: Array) -> Array:
    """The losses with what lies far above the middle compressed (logarithmically, without a kink)."""
    middle = float(np.median(losses))
    spread = float(np.subtract(*np.percentile(losses, [75, 25])))
    if spread <= 0.0:
        return losses.copy()
    start = middle + _TAIL_START * spread
    over = np.maximum(losses - start, 0.0)
    return np.asarray(np.minimum(losses, start) + spread * np.log1p(over / spread))
