"""A line of the winner without which it was no worse in the blocks of its proof goes, where they prove the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.flow.test_study import TASK, answer
from trimtab.flow import Ask, Scorer, Steps, Study
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


def proven(idle: float) -> Found:
    """After the proof of the winner, whose line `fast` makes it twice and `idle` that many times as fast."""

    def flow(scorer: Scorer) -> Steps[Found]:
        for _ in range(3):
            yield Ask(config=OF_TWO.baseline, role=Role.BASELINE)
        ablation = start_ablation(OF_TWO, scorer, WINNER)
        duels = WorthDuels(OF_TWO, scorer, ablation).beside_the_proof
        purse = Purse(OF_TWO, scorer, seconds=0.0, runs=40)
        prover = Prover(OF_TWO, scorer, WINNER, duels=duels, purse=purse)
        yield from prover.run(lambda: prover.is_decided)
        assert prover.conclude().is_better
        return ablation, prover.smaller(0.02)

    study: Study[Any] = Study(OF_TWO, flow)
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


@pytest.mark.parametrize("idle", [0.9, 0.93])
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
