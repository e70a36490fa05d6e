"""A gain that noise nearly hides is proven before settings are taken from it; a clear one after."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.flow.test_study import TASK, answer
from trimtab.flow import Ask, Budget, Scorer, Steps, Stopped, Study, Task
from trimtab.flow.finish import finish
from trimtab.flow.prove import Proof, prove
from trimtab.flow.refine import Refined
from trimtab.flow.verdict import Outcome
from trimtab.records import Role
from trimtab.space import Config, Knob, KnobKind, Space

NAMES = [f"k{i}" for i in range(12)]
SPACE = Space([Knob(name=name, kind=KnobKind.INTEGER, low=0, high=9, default=0) for name in NAMES])
WINNER = SPACE.default().replace(dict.fromkeys(NAMES, 1))
N_REPEATS = 4

Ended = tuple[Outcome, list[Role]]


def finished(gain: float, n_needed: int, noise: float, seconds: float, seed: int = 0) -> Ended:
    """How a config of twelve settings, of which `n_needed` make it `gain` times as fast together, comes to its end; and the roles
    of all runs, of five seconds each."""
    task = replace(TASK, space=SPACE, baseline=SPACE.default(), advice=SPACE.default(), budget=Budget(seconds=seconds))
    outcome = Outcome()

    def nothing() -> Steps[Refined | None]:
        yield from ()
        return None

    def flow(scorer: Scorer) -> Steps[Outcome]:
        for _ in range(5):
            yield Ask(config=task.baseline, role=Role.BASELINE)
        for _ in range(N_REPEATS):
            yield Ask(config=WINNER, role=Role.REPEAT)
        with suppress(Stopped):
            yield from finish(task, scorer, outcome, Refined(WINNER), nothing)
        return outcome

    study: Study[Any] = Study(task, flow)
    rng, roles = np.random.default_rng(seed), list[Role]()
    while asks := study.next():
        for ask in asks:
            roles.append(ask.role)
            n_set = sum(int(ask.config[name]) for name in NAMES[:n_needed])
            study.tell(answer(ask, 100.0 * gain ** (n_set / n_needed) * float(np.exp(rng.normal(0.0, noise)))))
    return outcome, roles


def test_what_noise_nearly_hides_is_proven_as_it_is() -> None:
    outcome, roles = finished(1.2, 12, 0.09, seconds=300.0, seed=1)
    assert outcome.proof is not None
    assert outcome.proof.is_better
    assert outcome.candidate == WINNER
    assert Role.ABLATION not in roles[: roles.index(Role.PROOF_CANDIDATE)]


def test_a_clear_gain_is_made_smaller_before_its_proof() -> None:
    outcome, roles = finished(2.5, 2, 0.06, seconds=400.0)
    assert outcome.proof is not None
    assert outcome.proof.is_better
    assert outcome.candidate is not None
    assert {"k0", "k1"} <= set(outcome.candidate.difference(SPACE.default())) < set(NAMES)
    assert Role.ABLATION in roles[: roles.index(Role.PROOF_CANDIDATE)]


@pytest.mark.parametrize("is_proven", [True, False])
def test_where_time_is_left_settings_go_after_the_proof_if_the_smaller_config_is_proven_too(
    is_proven: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def smaller(task: Task, scorer: Scorer, config: Config, *, n_before: int) -> Steps[Proof]:
        assert n_before == 1, "each further proof has half the error"
        proof = yield from prove(task, scorer, config, n_before=n_before)
        return replace(proof, is_better=is_proven)

    monkeypatch.setattr("trimtab.flow.finish.is_clear", lambda *_: False)
    monkeypatch.setattr("trimtab.flow.finish.prove", smaller)
    outcome, roles = finished(1.8, 2, 0.06, seconds=800.0)
    assert outcome.proof is not None
    assert outcome.proof.is_better
    assert outcome.candidate is not None
    assert outcome.ablation is not None
    lines = set(outcome.candidate.difference(SPACE.default()))
    assert {"k0", "k1"} <= lines
    assert (lines < set(NAMES)) is is_proven
    assert bool(outcome.ablation.went_back) is not is_proven
    assert set(outcome.worth) == lines
    assert Role.PROOF_CANDIDATE in roles[: roles.index(Role.ABLATION)]


def test_a_study_that_is_stopped_while_settings_go_has_proven_the_larger_config(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stopped(*_: object, **__: object) -> Steps[Proof]:
        yield from ()
        raise Stopped("enough")

    monkeypatch.setattr("trimtab.flow.finish.is_clear", lambda *_: False)
    monkeypatch.setattr("trimtab.flow.finish.prove", stopped)
    outcome, roles = finished(1.8, 2, 0.06, seconds=800.0)
    assert Role.ABLATION in roles
    assert outcome.candidate == WINNER
    assert outcome.proof is not None
    assert outcome.proof.is_better
    assert outcome.ablation is not None
    assert (outcome.ablation.current, outcome.ablation.dropped) == (WINNER, [])
    assert outcome.ablation.went_back
