"""A machine that becomes faster while it is tuned: what was tried on the way is not taken for better than it is."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.flow.test_invalidate import begun
from tests.flow.test_parallel import trial_of
from tests.flow.test_passes import additive, measured, task
from trimtab.flow import Budget, Scorer, Settled, Study
from trimtab.flow.plays import PlayPhase, planned
from trimtab.flow.tuning import tuning
from trimtab.records import Context, Play, Role, Trial, Verdict, in_hindsight

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


def test_the_record_of_a_study_says_the_same_as_the_study_did() -> None:
    """What a report works out afterwards from the losses as they were given."""
    study, rng = begun("random"), np.random.default_rng(3)
    trials = told(study, warming, 40, rng)
    given = [trial.loss for trial in trials]
    judged = in_hindsight(study.scorer.task.objective, trials)
    assert [trial.loss for trial in judged] != given
    assert [trial.loss for trial in judged] == pytest.approx([trial.loss for trial in study.scorer.trials], abs=0.02)


def test_contexts_are_judged_apart_and_nothing_is_judged_where_there_is_no_baseline() -> None:
    """Else the slower of two workloads would be drift."""
    study, rng = begun("random"), np.random.default_rng(3)
    trials = told(study, lambda at_s: 1.0, 12, rng)
    objective, other = study.scorer.task.objective, Context("other", 2)
    slower = [
        replace(trial, context=other, measurement=measured(objective.value(trial.measurement).estimate / 3))
        for trial in trials
        if trial.measurement is not None
    ]
    mixed = [each for pair in zip(trials, slower, strict=True) for each in pair]
    assert in_hindsight(objective, mixed) == mixed
    unknown = [replace(trial, role=Role.SEARCH) for trial in trials]
    assert in_hindsight(objective, unknown) == unknown
    assert in_hindsight(objective, []) == []


@pytest.mark.parametrize(("speed", "n"), [(warming, 4), (lambda at_s: 1.0, 3)])
def test_a_play_that_brings_surprisingly_much_on_a_machine_that_becomes_faster_has_the_baseline_confirm_it(
    speed: Speed, n: int
) -> None:
    """Before the next one, and once. A short study measures it no more often between its plays."""
    chosen = task(budget=Budget(seconds=400.0))
    plays = [Play(name=name, settings={name: 1.0}, worth=0.1) for name in ("late", "a", "b", "boot")]
    study = Study(chosen, tuning(chosen, lambda scorer: Settled(plays=planned(chosen, plays, scorer))))
    trials = told(study, speed, 20, np.random.default_rng(3))
    last = max(i for i, trial in enumerate(trials) if trial.role is Role.PLAY)
    assert sum(trial.role is Role.BASELINE for trial in trials[:last]) == n
    assert sum(trial.role is Role.PLAY for trial in trials) >= 3


def test_a_play_that_only_seemed_to_help_is_expected_to_help_no_more() -> None:
    """`b` does nothing; the machine became faster meanwhile."""
    chosen = task(budget=Budget(trials=40))
    plays = [Play(name="nothing", settings={"b": 1.0}, worth=0.1), Play(name="speed", settings={"a": 1.0}, worth=0.1)]
    phases = list[PlayPhase]()

    def settle(scorer: Scorer) -> Settled:
        phases.append(planned(chosen, plays, scorer))
        return Settled(plays=phases[0])

    study, rng = Study(chosen, tuning(chosen, settle)), np.random.default_rng(3)
    told(study, warming, 30, rng)
    assert [each.play.name for each in phases[0].tried if each.is_kept] == ["nothing", "speed"]
    assert set(phases[0].prior(chosen).knobs) == {"a", "b"}
    assert set(phases[0].prior(chosen, study.scorer).knobs) == {"a"}
    worths = {row.play: row.worth.estimate for row in phases[0].summary(chosen, study.scorer).tried if row.worth}
    assert worths["nothing"] < 1.05
    assert worths["speed"] == pytest.approx(1.35, abs=0.1)
