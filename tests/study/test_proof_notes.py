"""What a study says of its proof before it begins."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes import FakeStudy
from trimtab.flow import Budget, ProofOptions, SearchOptions, Task
from trimtab.records import Context, Cycle, Objective, Visit
from trimtab.space import Knob, KnobKind, Space
from trimtab.study.proof_notes import proof_notes

CYCLE = Cycle(visits=(Visit(name="day", context=Context("day", 60), iterations=3),))


def _notes(*, cycle: Cycle | None = None, search: SearchOptions | None = None, **proof: Any) -> list[str]:
    space = Space([Knob(name="a", kind=KnobKind.BOOLEAN, default=False)])
    task = Task(
        space=space, baseline=space.default(), advice=space.default(), objective=Objective("throughput"),
        budget=Budget(trials=9), context=Context("any", 1), cycle=cycle, search=search or SearchOptions(),
        proof=ProofOptions(**proof),
    )  # fmt: skip
    return list(proof_notes(task))


def test_a_study_of_two_pairs_says_that_it_can_prove_nothing() -> None:
    assert _notes(min_pairs=2, max_pairs=2) == [
        "proof.max_pairs=2: this study can prove nothing, because a proof needs 3 pairs or more; raise it to 3 at least, better 6"
    ]
    assert _notes(min_pairs=2, max_pairs=3) == _notes() == []


@pytest.mark.parametrize(
    ("asked", "missing"),
    [
        (
            {},
            "at most 8 pairs under each of them (proof.max_pairs=24), no proof of the advice (proof.advice='near'), no ablation "
            "(proof.ablate=true)",
        ),
        ({"max_pairs": 8, "advice": True, "ablate": False}, "no proof of the advice (proof.advice=true)"),
        (
            {"max_pairs": 12, "min_pairs": 10, "advice": False, "ablate": False},
            "at most 10 pairs under each of them (proof.max_pairs=12)",
        ),
        (
            {"max_pairs": 8, "advice": False, "ablate": False, "search": SearchOptions(options={"temper": "prudent"})},
            "no temper (search.temper='prudent')",
        ),
    ],
)
def test_a_cycle_says_what_it_leaves_out(asked: dict[str, Any], missing: str) -> None:
    assert _notes(cycle=CYCLE, **asked) == [f"a study over a cycle of contexts has {missing}"]


def test_a_cycle_says_nothing_of_what_it_has() -> None:
    named = SearchOptions(searcher="named", options={"temper": "bold"})
    assert _notes(cycle=CYCLE, max_pairs=8, advice=False, ablate=False, search=named) == []


@pytest.mark.slow
def test_it_is_said_before_anything_is_measured(fake: FakeStudy) -> None:
    fake.text = fake.text.replace("12 trials", "2 trials") + "[proof]\nmin_pairs = 2\nmax_pairs = 2\nablate = false\n"
    fake.tune()
    said = [index for index, line in enumerate(fake.listener.phases) if line.startswith("proof.max_pairs=2: ")]
    assert len(said) == 1
    assert said[0] < fake.listener.phases.index("preparing the data")
