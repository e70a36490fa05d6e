"""A line of the winner without which it was no worse in the blocks of its proof goes, where they prove the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.flow.test_study import TASK, answer
from trimtab.flow import Ask, Scorer, Steps, Study, Task
from trimtab.flow.ablate import Ablation, drop_line, start_ablation
from trimtab.flow.pairs import Duel, Purse
from trimtab.flow.prove import Proof, Prover
from trimtab.flow.worth import WorthDuels
from trimtab.records import Role
from trimtab.space import Config, Knob, KnobKind, Space

SPACE = Space([Knob(name=name, kind=KnobKind.INTEGER, low=0, high=9, default=0) for name in ("fast", "idle")])
WINNER = SPACE.default().replace({"fast": 1, "idle": 1})
OF_TWO = replace(TASK, space=SPACE, baseline=SPACE.default(), advice=SPACE.default())
UNSTEADY = (1.0, 1.08, 0.92, 1.03, 0.97)
"""By what the runs of one config differ."""

Found = tuple[Ablation, tuple[Duel, Proof] | None]


def proven(idle: float, *, first: int = 3, runs: int = 40, task: Task = OF_TWO) -> Found:
    """After the proof of the winner, whose line `fast` makes it twice and `idle` that many times as fast.

    Before it come `first` runs of the baseline; the purse of the smaller configs holds `runs`, those of the proof among them.
    """

    def flow(scorer: Scorer) -> Steps[Found]:
        for _ in range(first):
            yield Ask(config=task.baseline, role=Role.BASELINE)
        ablation = start_ablation(task, scorer, WINNER)
        duels = WorthDuels(task, scorer, ablation).beside_the_proof
        purse = Purse(task, scorer, seconds=0.0, runs=runs)
        prover = Prover(task, scorer, WINNER, duels=duels, purse=purse)
        yield from prover.run(lambda: prover.is_decided)
        assert prover.conclude().is_better
        return ablation, prover.smaller(0.02)

    study: Study[Any] = Study(task, flow)
    seen: dict[Config, int] = {}
    while asks := study.next():
        for ask in asks:
            n = seen[ask.config] = seen.get(ask.config, -1) + 1
            # Not in step with the others: a pair's difference is as noisy as its runs.
            place = n + 2 * int(ask.config["idle"])
            value = 100.0 * 2.0 ** int(ask.config["fast"]) * idle ** int(ask.config["idle"])
            study.tell(answer(ask, value * UNSTEADY[place % len(UNSTEADY)]))
    found: Found = study.result
    return found


@pytest.mark.parametrize("idle", [0.95, 0.97])
def test_goes(idle: float) -> None:
    ablation, smaller = proven(idle)
    assert smaller is not None
    duel, proof = smaller
    assert (proof.is_better, duel.ratio.estimate <= 1, duel.ratio.high > 1.02) == (True, True, True)
    assert proof.gain is not None
    assert proof.gain.ratio.estimate == pytest.approx(2.0, rel=0.1)
    drop_line(OF_TWO, ablation, duel)
    assert ablation.current == WINNER.replace({"idle": 0})
    assert [(drop.knob, drop.verdict) for drop in ablation.dropped] == [("idle", "not_told_apart")]
    assert ablation.dropped[0].reason.endswith("not told apart from nothing, and the simpler config is preferred")


def test_stays_where_it_seems_to_bring_something() -> None:
    assert proven(1.1)[1] is None


@pytest.mark.parametrize(("n_pairs", "is_proven"), [(2, False), (3, True)])
def test_has_no_fewer_pairs_than_any_other_config_that_is_proven(n_pairs: int, is_proven: bool) -> None:
    """Two show that it is twice as fast, and could not show that its clients wait longer."""
    _, smaller = proven(0.75, first=7, runs=4 * n_pairs)
    assert (smaller is not None) is is_proven
    if smaller is not None:
        assert len(smaller[1].pairs) == n_pairs


def test_a_line_that_harms_has_as_many_pairs_as_prove_the_config_without_it() -> None:
    _, smaller = proven(0.75, first=7)
    assert smaller is not None
    duel, proof = smaller
    assert duel.ratio.high < 1
    assert len(proof.pairs) >= OF_TWO.proof.min_pairs


@pytest.mark.parametrize(
    "advised", [{"fast": 1, "idle": 2}, {"fast": 1, "idle": 0}], ids=["another one", "the smaller config"]
)
def test_is_compared_with_the_advice_of_the_same_blocks(advised: dict[str, int]) -> None:
    advice = OF_TWO.baseline.replace(advised)
    _, smaller = proven(0.9, task=replace(OF_TWO, advice=advice, proof=replace(OF_TWO.proof, advice=True)))
    assert smaller is not None
    duel, proof = smaller
    if duel.challenger == advice:
        assert (proof.advice_gain, proof.beside_advice) == (None, None)
        return
    assert proof.advice_gain is not None
    assert proof.beside_advice is not None
    assert proof.advice_gain.ratio.estimate == pytest.approx(2.0 * 0.9**2, rel=0.1)
    assert proof.beside_advice.n_pairs == len(proof.pairs)
