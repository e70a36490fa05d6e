"""What was measured of one config so far: its losses (log-ratios against the drift-corrected baseline) over all its runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from trimtab.flow.score import BASELINE_ROLES
from trimtab.records import Status, Trial
from trimtab.space import Config

__all__ = ["burden", "burdens", "fresh_losses", "fresh_mean", "mean_loss"]


def fresh_losses(trials: Sequence[Trial], config: Config) -> list[float]:
    """Losses of the full measurements of `config` that did not choose it; of its only one when it was not measured again."""
    losses = _losses(trials, config)
    return losses[1:] or losses


def fresh_mean(trials: Sequence[Trial], config: Config) -> float:
    """Their mean; inf when there is none."""
    return _mean(fresh_losses(trials, config))


def mean_loss(trials: Sequence[Trial], config: Config) -> float:
    """Mean loss over all full measurements of `config`; inf when there is none."""
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
    return [
        t.loss for t in trials if t.config == config and t.status is Status.OK and t.is_feasible and t.loss is not None
    ]


def _mean(losses: Sequence[float]) -> float:
    return sum(losses) / len(losses) if losses else math.inf
