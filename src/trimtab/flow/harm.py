"""Harm: what the runs of the search show already of what a proof would refuse a config for.

A config that is faster and lets its slowest clients wait longer is refused in its proof (see `acceptance`), and the time of that
proof is lost. Its runs before have shown it: where they do, another config is brought to the proof.
"""

from __future__ import annotations

import math

from trimtab.flow.acceptance import GUARDED, metrics_beside
from trimtab.flow.losses import full_runs
from trimtab.flow.prove import acceptance_rule
from trimtab.flow.score import Scorer
from trimtab.flow.task import Task
from trimtab.measure import BaselineTrack
from trimtab.measure.quantile import t_quantile
from trimtab.records import Trial
from trimtab.space import Config

__all__ = ["is_harmful"]

_LEAST_BASELINES = 3
"""Runs of the baseline that tell how much a metric varies."""

_SURE = 0.95
"""One-sided, of each metric."""


def is_harmful(task: Task, scorer: Scorer, config: Config) -> bool:
    """Whether the full runs of `config` show, in the mean, a metric beside the objective that is worse than a proof lets pass.

    Each is compared with the baseline at its time, whose runs say how much the metric varies (Student's t, one-sided 95 %).
    False where they are too few, and where the baseline misses a constraint of the objective: other metrics do not count then.
    """
    if scorer.par == math.inf:
        return False
    before, after = (_metrics(full_runs(scorer.trials, each)) for each in (task.baseline, config))
    if len(before) < _LEAST_BASELINES or not after:
        return False
    rule = acceptance_rule(task, scorer, config)
    allowed = math.log1p(max(rule.tolerance, rule.least))
    return any(_surely_worse(name, before, after) > allowed for name in GUARDED if name != task.objective.metric)


def _metrics(trials: list[Trial]) -> dict[int, dict[str, float]]:
    """By trial number, which stands for the time."""
    return {trial.number: metrics_beside(trial.measurement) for trial in trials if trial.measurement is not None}


def _surely_worse(name: str, before: dict[int, dict[str, float]], after: dict[int, dict[str, float]]) -> float:
    """log of how many times worse the metric is at least; -inf where a run does not have it."""
    if not all(name in metrics for metrics in (*before.values(), *after.values())):
        return -math.inf
    track = BaselineTrack()
    for number, metrics in before.items():
        track.add(number, metrics[name])
    levels = [track.at(number) for number in after]
    sign = -1.0 if name == "throughput" else 1.0
    worse = [sign * math.log(metrics[name] / level) for metrics, (level, _) in zip(after.values(), levels, strict=True)]
    noise = track.summary()
    of_baseline = max(se / level for level, se in levels)  # runs near each other in time share it
    error = math.hypot(noise.noise_sd / math.sqrt(len(worse)), of_baseline)
    return sum(worse) / len(worse) - t_quantile(_SURE, max(1.0, noise.noise_df)) * error
