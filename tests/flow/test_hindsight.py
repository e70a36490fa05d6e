"""A machine that becomes faster while it is tuned: what was tried on the way is not taken for better than it is."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tests.flow.test_invalidate import begun
from tests.flow.test_parallel import trial_of
from tests.flow.test_passes import additive, measured
from trimtab.flow import Study
from trimtab.records import Role, Trial, Verdict

Speed = Callable[[float], float]
"""Of the machine, after so many seconds."""


def told(study: Study[Verdict], speed: Speed, n: int, rng: np.random.Generator, spent_s: float = 0.0) -> list[Trial]:
    """The next `n` trials, each of ten seconds, on such a machine."""
    trials: list[Trial] = []
    while len(trials) < n and not study.is_over:
        for ask in study.next():
            trial = trial_of(ask, rng)
            assert trial.measurement is not None
            value = trial.measurement.throughput.estimate * speed(spent_s + 10 * len(trials))
            trials.append(study.tell(replace(trial, measurement=measured(value), cost_s={"measure": 10.0})))
    return trials


def warming(at_s: float) -> float:
    """Nearly twice as fast after three minutes."""
    return 1.0 - 0.5 * math.exp(-at_s / 60)


def test_a_gain_that_was_the_machine_s_is_taken_back_once_the_baseline_shows_it() -> None:
    study, rng = begun("random"), np.random.default_rng(3)
    trials = told(study, warming, 40, rng)
    as_given = [trial.loss or 0.0 for trial in trials if trial.role is Role.SEARCH]
    in_hindsight = [trial.loss or 0.0 for trial in study.scorer.trials if trial.role is Role.SEARCH]
    truth = [-additive(trial.config) for trial in trials if trial.role is Role.SEARCH]
    errors = [np.abs(np.subtract(losses, truth))[:4].mean() for losses in (as_given, in_hindsight)]
    assert study.scorer.n_changed > 0
    assert errors[1] < 0.6 * errors[0]


def test_a_steady_machine_changes_nothing() -> None:
    study, rng = begun("random"), np.random.default_rng(3)
    trials = told(study, lambda at_s: 1.0, 30, rng)
    assert study.scorer.n_changed == 0
    assert [trial.loss for trial in study.scorer.trials] == [trial.loss for trial in trials]


def test_the_same_trials_told_once_more_give_the_same() -> None:
    """A study that is resumed is told trials with the losses that they had then."""
    first, rng = begun("random"), np.random.default_rng(3)
    trials = told(first, warming, 25, rng)
    again = begun("random")
    for trial in trials:
        again.next()
        again.tell(trial)
    assert first.scorer.n_changed > 0
    assert [trial.loss for trial in again.scorer.trials] == [trial.loss for trial in first.scorer.trials]
    assert [ask.config for ask in again.next()] == [ask.config for ask in first.next()]
