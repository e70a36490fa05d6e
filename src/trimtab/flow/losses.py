"""What was measured of one config so far: its losses (log-ratios against the drift-corrected baseline) over all its runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from trimtab.records import BASELINE_ROLES, Objective, Status, Trial
from trimtab.space import Config

__all__ = [
    "acceptable_means",
    "burden",
    "burdens",
    "failed_run",
    "fresh_losses",
    "fresh_mean",
    "full_runs",
    "is_met_on_average",
    "mean_loss",
]


def acceptable_means(objective: Objective, trials: Sequence[Trial]) -> dict[Config, float]:
    """Mean loss over the full measurements of every config that may be proven: none of its runs has failed by its own fault, and
    on average they meet the constraints of `objective`."""
    by_config: dict[Config, list[Trial]] = {}
    for trial in trials:
        by_config.setdefault(trial.config, []).append(trial)
    found = {
        config: _losses(runs, config)
        for config, runs in by_config.items()
        if not any(trial.status.is_config_fault for trial in runs) and is_met_on_average(objective, runs, config)
    }
    return {config: _mean(losses) for config, losses in found.items() if losses}


def failed_run(trials: Sequence[Trial], config: Config) -> Trial | None:
    """The latest run of `config` that failed by its own fault; None: there is none. What has failed once is not proven, and is
    not run once more only to see what a line is worth."""
    return next((trial for trial in reversed(trials) if trial.config == config and trial.status.is_config_fault), None)


def is_met_on_average(objective: Objective, trials: Sequence[Trial], config: Config) -> bool:
    """Whether the full runs of `config` meet the constraints of `objective` on average, since one run may miss what the next one
    meets."""
    measurements = [trial.measurement for trial in full_runs(trials, config)]
    return objective.is_met_by([measurement for measurement in measurements if measurement is not None])


def full_runs(trials: Sequence[Trial], config: Config) -> list[Trial]:
    """Those of `config` that were measured in full, whether they met the constraints of the objective or not."""
    return [trial for trial in trials if trial.config == config and trial.status is Status.OK]


def fresh_losses(trials: Sequence[Trial], config: Config) -> list[float]:
    """Losses of the full measurements of `config` that did not choose it; of its only one when it was not measured again."""
    losses = _losses(trials, config)
    return losses[1:] or losses


def fresh_mean(trials: Sequence[Trial], config: Config) -> float:
    """Their mean; inf when there is none."""
    return _mean(fresh_losses(trials, config))


def mean_loss(trials: Sequence[Trial], config: Config) -> float:
    """Mean loss over all full measurements of `config`; inf when there is none that met the constraints of the objective."""
    return _mean(_losses(trials, config))


def burden(trials: Sequence[Trial], config: Config) -> float:
    """Mean of `burdens`; inf when there is none."""
    return _mean(burdens(trials, config))


def burdens(trials: Sequence[Trial], config: Config) -> list[float]:
    """Losses of the full measurements of `config`, each with what it missed of the objective's constraints; the baseline's own
    loss is 0."""
    return [
        (0.0 if t.role in BASELINE_ROLES else t.loss or 0.0) + t.excess
        for t in trials
        if t.config == config and t.status is Status.OK
    ]


def _losses(trials: Sequence[Trial], config: Config) -> list[float]:
    """Of all its full measurements, once one of them has met the constraints: a run that misses them by chance counts as well,
    or a lucky one would stand alone."""
    full = full_runs(trials, config)
    losses = [t.loss for t in full if t.loss is not None and math.isfinite(t.loss)]
    return losses if any(t.is_feasible for t in full) else []


def _mean(losses: Sequence[float]) -> float:
    return sum(losses) / len(losses) if losses else math.inf
