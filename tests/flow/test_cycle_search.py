"""The search of a cycle: what is asked for under which context."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.flow.test_passes import measured
from trimtab.flow import Ask, Budget, SearchOptions, Study, Task
from trimtab.flow.cycle import cycling
from trimtab.records import Context, Cycle, Objective, Role, Status, StopKind, Trial, Verdict, Visit
from trimtab.space import Config, Knob, KnobKind, Space

pytestmark = pytest.mark.slow

SPACE = Space([Knob(name=name, kind=KnobKind.REAL, low=0.0, high=1.0, default=0.0) for name in "ab"])
ADVICE = Config({"a": 0.5, "b": 0.5})
CONTEXTS = [Context(f"hour {n}", 4) for n in range(5)]


def task_of(contexts: list[Context], searcher: str, n: int, *, is_proven: bool) -> Task:
    """Of a study with one trial a visit."""
    cycle = Cycle(visits=tuple(Visit(name=c.workload, context=c, iterations=1) for c in contexts))
    return Task(
        space=SPACE, baseline=SPACE.default(), advice=ADVICE, objective=Objective("throughput"), budget=Budget(trials=n),
        context=contexts[0], search=SearchOptions(searcher=searcher), is_proven=is_proven, cycle=cycle,
    )  # fmt: skip


def driven(study: Study[Any]) -> list[Ask]:
    """Measures all that is asked for; what it was."""
    asked = list[Ask]()
    while not study.is_over:
        for ask in study.next():
            asked.append(ask)
            assert ask.context is not None
            speed = 100.0 * math.exp(0.3 * float(ask.config["a"]) + 0.001 * (ask.number % 3))
            study.tell(
                Trial(
                    number=ask.number, role=ask.role, config=ask.config, context=ask.context, status=Status.OK,
                    measurement=measured(speed), cost_s={"measure": 5.0},
                )
            )  # fmt: skip
    return asked


def searched(searcher: str, n: int, began: Budget | None = None) -> tuple[list[Ask], list[str]]:
    """What a search asks for, and what it says; `began` is the budget that it had at first."""
    task, said = task_of(CONTEXTS, searcher, n, is_proven=False), list[str]()
    study: Study[Any] = Study(task, cycling(task, began), say=said.append)
    asked = driven(study)
    assert study.result.stop_kind is StopKind.UNPROVEN
    return [ask for ask in asked if ask.role is Role.SEARCH], said


def test_the_advice_is_tried_under_each_context_however_short_its_visits_are() -> None:
    """One config in five asks in a row is no searcher that has got stuck."""
    asked, said = searched("auto", 10)
    assert [ask.config for ask in asked[:5]] == [ADVICE] * 5
    assert [ask.context for ask in asked] == CONTEXTS * 2
    assert {ask.searcher for ask in asked} == {"contextual-gp"}
    assert ADVICE not in {ask.config for ask in asked[5:]}, "it is known by then"
    assert not [text for text in said if "over and over" in text]


def test_a_resume_with_another_budget_asks_for_what_is_on_record() -> None:
    """How many first configs a searcher spreads depends on how many it expects to make."""
    first, longer, resumed = searched("lhs", 10), searched("lhs", 20), searched("lhs", 20, Budget(trials=10))
    asked, of_longer, of_resumed = ([ask.config for ask in asks] for asks, _ in (first, longer, resumed))
    assert of_resumed[:10] == asked
    assert len(of_resumed) == 20
    assert of_longer[:10] != asked


def test_a_config_for_the_whole_cycle_is_kept_as_soon_as_it_is_proven() -> None:
    """The proofs of each context's own best follow."""
    task, kept = task_of(CONTEXTS[:2], "lhs", 6, is_proven=True), list[tuple[int, Verdict]]()
    flow = cycling(task, keep=lambda verdict: kept.append((len(study.scorer.trials), verdict)))
    study: Study[Verdict] = Study(task, flow)
    asked = driven(study)
    assert kept
    n_before, verdict = kept[0]
    assert (verdict.result, verdict.config) == ("better", study.result.config)
    assert verdict.cycle is not None
    reasons = {row.reason for row in verdict.cycle.contexts if not row.is_proven}
    assert reasons == {"it did not come to a proof"}, "a budget has nothing to do with it"
    n_proof = sum(ask.role is Role.PROOF_CANDIDATE for ask in asked[:n_before])
    assert n_proof == 2 * task.proof.min_pairs
