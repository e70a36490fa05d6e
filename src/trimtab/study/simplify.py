"""Removes from the winner what it does not need: groups of changed knobs go back to their old values, halving groups that
matter, so that the user gets few settings and not ninety (DESIGN law 2, peers.md §4 point 3).

A removal stays when the config without it is not worse than the tolerance, by one full measurement. The result is not a
proof: the proof in pairs comes after it, and measures what is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

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


def evidence(trials: list[Trial], knob: str, new: object, old: object) -> float:
    """How much better trials with `new` did than trials with `old`, in units of standard error; 0 when unknown."""
    groups: dict[bool, list[float]] = {True: [], False: []}
    for trial in trials:
        if trial.is_feasible and trial.loss is not None and knob in trial.config and trial.config[knob] in (new, old):
            groups[trial.config[knob] == new].append(trial.loss)
    with_new, with_old = groups[True], groups[False]
    if len(with_new) < 2 or len(with_old) < 2:
        return 0.0
    mean_new, mean_old = sum(with_new) / len(with_new), sum(with_old) / len(with_old)
    squares = sum((x - mean_new) ** 2 for x in with_new) + sum((x - mean_old) ** 2 for x in with_old)
    variance = squares / (len(with_new) + len(with_old) - 2)
    se = math.sqrt(variance * (1 / len(with_new) + 1 / len(with_old)))
    return (mean_old - mean_new) / se if se else 0.0


def simplify(
    stage: Stage, evaluator: Evaluator, winner: Config, *, may_go_on: Callable[[], bool]
) -> tuple[Config, list[Dropped]]:
    """The winner with as many knobs as possible back at their old values, and what was dropped."""
    tolerance = max(_MIN_TOLERANCE, 2 * evaluator.noise_sd)
    changed = sorted(
        winner.difference(stage.baseline),
        key=lambda name: (evidence(evaluator.trials, name, winner[name], stage.baseline[name]), name),
    )
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
                Dropped(name, f"the gain changed by {change:+.1%} without it, within the noise") for name in group
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
