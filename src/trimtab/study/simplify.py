"""Removes from the winner what it does not need: groups of changed knobs go back to their old values, halving groups that
matter, so that the user gets few settings and not ninety (DESIGN law 2, peers.md §4 point 3).

A removal stays when the config without it is not worse than the tolerance, by one full measurement. The result is not a
proof: the proof in pairs comes after it, and measures what is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimtab.records import Role, Status, Trial
from trimtab.space import Config
from trimtab.study.evaluate import Evaluator
from trimtab.study.explore import mean_loss
from trimtab.study.stage import Stage

__all__ = ["Dropped", "simplify"]

_MIN_TOLERANCE = 0.02
"""Loss (log-ratio) that a needless knob may seem to cost; twice the machine's noise when that is more."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """One knob put back to its old value, and what was seen without it."""

    knob: str
    reason: str


def evidence(stage: Stage, trials: list[Trial], winner: Config) -> dict[str, float]:
    """Changed knob -> how strongly trials nearer to the winner's value did better, as a t statistic; 0 when unknown.

    Nearness runs from 0 (the baseline's value) to 1 (the winner's) on the knob's own scale; the loss is regressed on it,
    one knob at a time. That is rough, and decides only in which order removals are tried.
    """
    rows = [t for t in trials if t.is_feasible and t.loss is not None and set(t.config) == set(winner)]
    losses = np.array([t.loss for t in rows], dtype=np.float64)
    points = np.array([stage.space.encode(t.config) for t in rows])
    start, end = stage.space.encode(stage.baseline), stage.space.encode(winner)
    index = {name: i for i, name in enumerate(stage.space.knobs)}
    return {
        name: _slope_t((points[:, index[name]] - start[index[name]]) / (end[index[name]] - start[index[name]]), losses)
        for name in winner.difference(stage.baseline)
    }


def _slope_t(nearness: NDArray[np.float64], losses: NDArray[np.float64]) -> float:
    x = np.clip(nearness, 0.0, 1.0)
    x, y = x - x.mean(), losses - losses.mean()
    spread = float(x @ x)
    if len(x) < 3 or spread == 0:
        return 0.0
    slope = float(x @ y) / spread
    rest = y - slope * x
    se = math.sqrt(float(rest @ rest) / (len(x) - 2) / spread)
    return -slope / se if se else 0.0


def simplify(
    stage: Stage, evaluator: Evaluator, winner: Config, *, may_go_on: Callable[[], bool]
) -> tuple[Config, list[Dropped]]:
    """The winner with as many knobs as possible back at their old values, and what was dropped."""
    tolerance = max(_MIN_TOLERANCE, 2 * evaluator.noise_sd)
    worth = evidence(stage, evaluator.trials, winner)
    changed = sorted(worth, key=lambda name: (worth[name], name))
    current, reference, dropped = winner, mean_loss(evaluator.trials, winner), list[Dropped]()
    groups = [changed[: len(changed) // 2], changed[len(changed) // 2 :]] if len(changed) > 1 else []
    while groups and may_go_on():
        group = groups.pop(0)
        without = _without(stage, current, group)
        if without == current:
            continue
        trial = evaluator.measure(without, Role.ABLATION) if without is not None else None
        if trial is not None and trial.loss is not None and _is_as_good(trial, reference + tolerance):
            change = math.expm1(reference - trial.loss)
            dropped += [
                Dropped(name, f"without them the gain changed by {change:+.1%}, within the noise") for name in group
            ]
            current = trial.config
        elif len(group) > 1:
            half = len(group) // 2
            groups += [group[:half], group[half:]]
    return current, dropped


def _is_as_good(trial: Trial, bound: float) -> bool:
    return trial.status is Status.OK and trial.is_feasible and trial.loss is not None and trial.loss <= bound


def _without(stage: Stage, config: Config, group: list[str]) -> Config | None:
    """`config` with `group` back at the baseline; None when that is the baseline itself or not feasible."""
    candidate = stage.space.canonical(config.replace({name: stage.baseline[name] for name in group}))
    return None if candidate == stage.baseline or not stage.space.is_feasible(candidate) else candidate
