"""A config that has failed once by its own fault is not proven, and not run again to see what a line or the advice is worth."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest

from tests.flow.test_ablate_statistics import of_three, rounded, worth_of
from tests.flow.test_study import BASELINE, TASK, answer, config, told
from trimtab.flow import Ask, Scorer, Steps, Study
from trimtab.flow.ablate import ablate, start_ablation
from trimtab.flow.finish import finish
from trimtab.flow.pairs import Purse
from trimtab.flow.prove import Proof, prove
from trimtab.flow.refine import Refined
from trimtab.flow.verdict import Outcome
from trimtab.records import Role, Status, Trial
from trimtab.space import Config, Knob, KnobKind, Space

CRASH = r"trial \d+ ended as crashed: it ran out of memory"


def crashed(ask: Ask) -> Trial:
    """It ended so, by the fault of its config."""
    return replace(answer(ask), status=Status.CRASHED, measurement=None, reason="it ran out of memory")


class TestALine:
    """Without which the config has crashed in the search."""

    @staticmethod
    def _case() -> tuple[Any, Config]:
        """Three lines that matter, of which the first was missing in a run that crashed."""
        case = rounded(of_three())
        without = case.ablation.full.replace({"k00": 0.0})
        trial = case.machine.measure(without, Role.SEARCH)
        vars(trial).update(status=Status.CRASHED, measurement=None, loss=None, reason="it ran out of memory")
        return case, without

    def test_is_needed_without_another_crash(self) -> None:
        case, without = self._case()
        ablation, n_before = start_ablation(case.task, case.machine, case.ablation.full), len(case.machine.trials)
        purse = Purse(case.task, case.machine, seconds=0, runs=40)
        case.machine.run(ablate(case.task, case.machine, ablation, purse))
        assert ablation.kept["k00"] == "needed"
        assert re.fullmatch(f"without it the config fails: {CRASH}", ablation.reasons["k00"])
        assert without not in {trial.config for trial in case.machine.trials[n_before:]}

    def test_has_no_worth_and_the_report_says_why(self) -> None:
        case, without = self._case()
        n_before = len(case.machine.trials)
        purse = Purse(case.task, case.machine, seconds=0, runs=40)
        worth = worth_of(case.machine, case.task, case.ablation, purse)
        assert re.fullmatch(f"without it: {CRASH}", worth["k00"].reason)
        assert (worth["k00"].without, worth["k00"].alone is None) == (None, False)
        assert worth["k01"].without is not None
        assert without not in {trial.config for trial in case.machine.trials[n_before:]}


def proof_of(winner: Config, *before: Config, advice: Config = BASELINE) -> tuple[Proof, list[tuple[Role, Config]]]:
    """Its proof after a run of each of `before`, and what was asked for in it; 9 crashes, 1 is slow and all others are fast."""
    task = replace(TASK, advice=advice, proof=replace(TASK.proof, advice=True))

    def flow(scorer: Scorer) -> Steps[Proof]:
        for each in (BASELINE, BASELINE, BASELINE, *before):
            yield Ask(config=each, role=Role.BASELINE if each == BASELINE else Role.SEARCH)
        return (yield from prove(task, scorer, winner))

    study, asked = Study(task, flow), list[tuple[Role, Config]]()
    while asks := study.next():
        for ask in asks:
            asked.append((ask.role, ask.config))
            value = 100.0 if ask.config == BASELINE else 200.0
            study.tell(crashed(ask) if ask.config["a"] == 9 else answer(ask, value + ask.number % 3))
    return study.result, asked[3 + len(before) :]


def test_a_winner_that_has_failed_before_is_refused_without_a_run() -> None:
    proof, asked = proof_of(config(9), config(9))
    assert (proof.is_better, proof.is_void, asked) == (False, False, [])
    assert re.fullmatch(r"trial 3 \(search\) ended as crashed: it ran out of memory", proof.failure)


def test_advice_that_fails_in_the_proof_fails_once() -> None:
    proof, asked = proof_of(config(3), advice=config(9))
    assert proof.is_better
    assert [role for role, _ in asked].count(Role.PROOF_ADVICE) == 1
    assert len(proof.pairs) >= 3
    assert (proof.advice_gain, proof.beside_advice) == (None, None)


def test_advice_that_has_failed_before_is_not_run_beside_the_winner() -> None:
    proof, asked = proof_of(config(3), config(9), advice=config(9))
    assert proof.is_better
    assert config(9) not in {each for _, each in asked}


@pytest.mark.parametrize("is_looked_at", [True, False], ids=["known as the best before", "looked at afterwards"])
def test_the_best_run_is_of_a_config_that_has_not_failed(is_looked_at: bool) -> None:
    """Others would be ended early beside what cannot be proven."""

    def flow(scorer: Scorer) -> Steps[None]:
        for each in (BASELINE, config(1), config(2), config(3), config(1), config(4)):
            yield Ask(config=each, role=Role.BASELINE if each == BASELINE else Role.SEARCH)

    study: Study[Any] = Study(TASK, flow)
    values = iter([100.0, 400.0, 150.0, 200.0, math.nan, 120.0])
    while asks := study.next():
        value = next(values)
        study.tell(answer(asks[0], value) if value == value else crashed(asks[0]))
        if is_looked_at and asks[0].number == 2:
            assert study.scorer.best_run is not None
            assert study.scorer.best_run.config == config(1)
    assert study.scorer.best_run is not None
    assert study.scorer.best_run.config == config(3)


def test_a_run_of_the_baseline_that_fails_does_not_rule_it_out() -> None:
    def flow(scorer: Scorer) -> Steps[None]:
        for _ in range(3):
            yield Ask(config=BASELINE, role=Role.BASELINE)

    study: Study[Any] = Study(TASK, flow)
    told(study, *study.next())
    study.tell(crashed(*study.next()))
    told(study, *study.next())
    assert study.scorer.best_run is not None
    assert study.scorer.best_run.config == BASELINE


SPACE_OF_TWO = Space([Knob(name=name, kind=KnobKind.INTEGER, low=0, high=9, default=0) for name in ("fast", "room")])
LARGER = SPACE_OF_TWO.default().replace({"fast": 1, "room": 1})
SMALLER = LARGER.replace({"room": 0})


def test_a_smaller_config_that_fails_gives_way_to_the_larger_one_however_fast_it_was() -> None:
    """Without the room that makes it a little slower it runs out of memory, which its first runs did not show."""
    task = replace(TASK, space=SPACE_OF_TWO, baseline=SPACE_OF_TWO.default(), advice=SPACE_OF_TWO.default())
    outcome = Outcome()

    def nothing() -> Steps[Refined | None]:
        yield from ()
        return None

    def flow(scorer: Scorer) -> Steps[None]:
        for each in (*[task.baseline] * 5, *[LARGER] * 3):
            yield Ask(config=each, role=Role.BASELINE if each == task.baseline else Role.REPEAT)
        yield from finish(task, scorer, outcome, Refined(LARGER), nothing)

    study = Study(task, flow)
    while asks := study.next():
        for ask in asks:
            value = 100.0 * 2.0 ** int(ask.config["fast"]) * 0.99 ** int(ask.config["room"])
            is_late = ask.config == SMALLER and ask.role is Role.PROOF_CANDIDATE
            study.tell(crashed(ask) if is_late else answer(ask, value * (1 + 0.01 * (ask.number % 3))))
    assert outcome.proof is not None
    assert outcome.proof.is_better
    assert outcome.candidate == LARGER
    assert outcome.ablation is not None
    assert "ran out of memory" in outcome.ablation.went_back
    assert not outcome.refused
