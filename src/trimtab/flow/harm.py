"""Harm: what the runs of the search show already of what a proof would refuse a config for.

A config that is faster and lets its slowest clients wait longer is refused in its proof (see `acceptance`), and the time of that
proof is lost. Its runs before have shown it: where they do, another config is brought to the proof.
"""

from __future__ import annotations

import math

import numpy as np

from trimtab.flow.acceptance import GUARDED, metrics_beside
from trimtab.flow.losses import full_runs
from trimtab.flow.prove import acceptance_rule
from trimtab.flow.score import Scorer
from trimtab.flow.task import Task
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

    The baseline's runs say how much it varies (Student's t, one-sided 95 %). False where they are too few, and where the baseline
    misses a constraint of the objective: other metrics do not count then.
    """
    if scorer.par == math.inf:
        return False
    before, after = (_metrics(full_runs(scorer.trials, each)) for each in (task.baseline, config))
    if len(before) < _LEAST_BASELINES or not after:
        return False
    rule = acceptance_rule(task, scorer, config)
    allowed = math.log1p(max(rule.tolerance, rule.least))
    return any(_surely_worse(name, before, after) > allowed for name in GUARDED if name != task.objective.metric)


def _metrics(trials: list[Trial]) -> list[dict[str, float]]:
    return [metrics_beside(trial.measurement) for trial in trials if trial.measurement is not None]


def _surely_worse(name: str, before: list[dict[str, float]], after: list[dict[str, float]]) -> float:
    """log of how many times worse the metric is at least; -inf where a run does not have it."""
    if not all(name in metrics for metrics in (*before, *after)):
        return -math.inf
    sign = -1.0 if name == "throughput" else 1.0
    found, tried = (sign * np.log([metrics[name] for metrics in runs]) for runs in (before, after))
    error = float(found.std(ddof=1)) * math.sqrt(1 / len(found) + 1 / len(tried))
    return float(tried.mean() - found.mean()) - t_quantile(_SURE, len(found) - 1) * error
