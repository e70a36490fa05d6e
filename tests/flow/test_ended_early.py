"""Runs that ended before their time, or missed a constraint: what is said of them, and that none is the best so far."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from trimtab.flow import Budget, Task
from trimtab.flow.plays import PlayPhase, Tried
from trimtab.flow.score import Scorer
from trimtab.records import Context, Objective, Play, Role, Status, Trial
from trimtab.space import Config, Knob, KnobKind, Space

SPACE = Space([Knob(name="cache", kind=KnobKind.INTEGER, low=1, high=8, default=2)])
TASK = Task(
    space=SPACE, baseline=SPACE.default(), advice=SPACE.default(), objective=Objective("throughput"),
    budget=Budget(trials=40), context=Context(workload="w", clients=1),
)  # fmt: skip
STANDBYS = "stopped: the standbys are 9 s behind, more than 5 s"


def _trial(cache: int, status: Status, speed: float | None, role: Role = Role.SEARCH, reason: str = "") -> Trial:
    return Trial(
        number=cache, role=role, config=Config({"cache": cache}), context=TASK.context, status=status, reason=reason,
        loss=None if speed is None else -math.log(speed),
    )  # fmt: skip


def test_a_run_that_a_guard_has_ended_is_not_the_best_so_far() -> None:
    scorer = Scorer(TASK)
    scorer.trials += [_trial(4, Status.STOPPED_EARLY, 3.0, reason=STANDBYS)]
    assert scorer.best_gain is None
    scorer.trials += [_trial(5, Status.OK, 1.5)]
    assert scorer.best_gain is not None
    assert math.isclose(scorer.best_gain, 1.5)


def test_a_config_that_has_crashed_once_is_not_the_best_so_far_however_fast_it_was_before() -> None:
    scorer = Scorer(TASK)
    scorer.trials += [_trial(5, Status.OK, 1.5), _trial(8, Status.OK, 3.0)]
    assert scorer.best_gain == pytest.approx(3.0)
    scorer.trials += [_trial(8, Status.CRASHED, None, reason="out of memory")]
    assert scorer.best_gain == pytest.approx(1.5)


def test_a_play_that_ended_early_says_why() -> None:
    trial = _trial(8, Status.STOPPED_EARLY, None, Role.PLAY, reason=f"{STANDBYS}\nand a line of a log")
    play = Play(name="large", settings={"cache": 8}, reason="It is larger.")
    tried = Tried(play=play, config=trial.config, beside=TASK.baseline, held=(), trial=trial, is_kept=False)
    summary = PlayPhase(plan=(play,), tried=[tried]).summary(TASK, Scorer(TASK))
    assert [row.note for row in summary.tried] == [f"ended early: {STANDBYS}"]


@pytest.mark.parametrize("par", [math.inf, 0.0], ids=["the baseline misses it", "the baseline meets it"])
def test_a_play_that_misses_a_constraint_with_the_baseline_is_compared_all_the_same(
    par: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Scorer, "par", par)
    scorer = Scorer(TASK)
    for n in range(3):
        scorer.track.add(10.0 * n, 1000.0 + n, 5.0)
    scorer.trials += [replace(_trial(2, Status.OK, 1.0, Role.BASELINE), number=n, excess=3.0) for n in range(3)]
    trial = replace(_trial(8, Status.OK, 2.0, Role.PLAY), excess=0.9)
    scorer.trials += [trial]
    play = Play(name="large", settings={"cache": 8}, reason="It is larger.")
    tried = Tried(play=play, config=trial.config, beside=TASK.baseline, held=(), trial=trial, is_kept=True)
    (row,) = PlayPhase(plan=(play,), tried=[tried]).summary(TASK, scorer).tried
    assert row.note == "a constraint of the objective was missed"
    if par == 0.0:
        assert (row.verdict, row.worth) == ("failed", None)
        return
    assert row.verdict != "failed"
    assert row.worth is not None
    assert math.isclose(row.worth.estimate, 2.0)
