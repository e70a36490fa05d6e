"""The proof over a cycle: when more pairs would still change its answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tests.flow.test_passes import measured
from trimtab.flow import Budget, ProofOptions, Study, Task
from trimtab.flow.acceptance import Acceptance, AcceptanceRule, Sample
from trimtab.flow.ask import Ask, Steps
from trimtab.flow.baseline import measure_baseline
from trimtab.flow.context_score import ContextScorer, task_under, under
from trimtab.flow.cycle_proof import CycleProof, _is_decided, _proofs_of_shared, _shared
from trimtab.flow.cycle_verdict import CycleRun, cycle_verdict
from trimtab.flow.prove import Proof, _conclude, _Pairs
from trimtab.flow.score import Scorer
from trimtab.records import Context, Cycle, Objective, Role, Status, Trial, Visit
from trimtab.space import Config, Knob, KnobKind, Space

RULE = AcceptanceRule(metric="throughput", is_maximised=True, noise_sd=0.09, needs_gain=True)
STEADY, ODD = (15.0, 15.1, 14.9), (15.0, 11.25, 15.0)


def proof_of(baselines: Sequence[float], candidate: float = 36.0) -> Proof:
    """What pairs of these runs of the baseline show under one context."""
    pairs = _Pairs(Acceptance(RULE))
    for i, value in enumerate(baselines):
        pairs.add(Sample(value=value), Sample(value=candidate + i / 10))
    return _conclude(pairs, is_maximised=True, delta=RULE.delta, failure="")


def is_decided(*proofs: Proof) -> bool:
    cycle: Any = SimpleNamespace(
        contexts=list(range(len(proofs))), names=list("abcdef"[: len(proofs)]), share=lambda context: 1 / len(proofs)
    )
    task: Any = SimpleNamespace(proof=ProofOptions())
    return _is_decided(task, cycle, proofs)


def test_one_odd_run_of_the_baseline_under_one_context_does_not_end_the_proof() -> None:
    """A quarter of it was stolen: three pairs vary by more than 20 %."""
    odd = proof_of(ODD)
    assert [row.name for row in odd.conditions if not row.is_met if row.name == "baseline"]
    assert not is_decided(proof_of(STEADY), odd, proof_of(STEADY))


def test_a_baseline_that_goes_on_varying_ends_it() -> None:
    assert is_decided(proof_of(STEADY), proof_of((15.0, 10.0) * 4))


def test_a_gain_that_is_out_of_reach_ends_it_all_the_same() -> None:
    assert is_decided(proof_of(STEADY, 9.0), proof_of(ODD, 9.0))


SPACE = Space([Knob(name="a", kind=KnobKind.REAL, low=0.0, high=1.0, default=0.0)])
BEST = Config({"a": 1.0})
CONTEXTS = [Context("day", 4), Context("night", 4)]
BASELINES = (100.0, 90.0, 115.0, 100.0)


CYCLE = Cycle(visits=tuple(Visit(name=c.workload, context=c, iterations=1) for c in CONTEXTS))
TASK = Task(
    space=SPACE, baseline=SPACE.default(), advice=SPACE.default(), objective=Objective("throughput"),
    budget=Budget(trials=9), context=CONTEXTS[0], cycle=CYCLE,
)  # fmt: skip


def proven(gains: Sequence[float]) -> tuple[list[Proof], list[str]]:
    """The proofs of one config under two contexts, whose pairs show `gains` one after the other, and what is said."""
    cycle, task = CYCLE, TASK
    found, said, made = list[Proof](), list[str](), Counter[tuple[str, Role]]()

    def flow(scorer: Scorer) -> Steps[Any]:
        assert isinstance(scorer, ContextScorer)
        for context in CONTEXTS:
            yield from under(context, measure_baseline(task_under(task, context)))
        found.extend((yield from _proofs_of_shared(task, cycle, scorer, BEST)))

    study: Study[Any] = Study(task, flow, say=said.append)
    while not study.is_over:
        for ask in study.next():
            assert ask.context is not None
            key = ask.context.workload, ask.role
            place, made[key] = made[key], made[key] + 1
            before = 100.0 if ask.role is Role.BASELINE else BASELINES[place]
            study.tell(
                Trial(
                    number=ask.number, role=ask.role, config=ask.config, context=ask.context, status=Status.OK,
                    measurement=measured(before * (gains[place] if ask.config == BEST else 1.0)), cost_s={"measure": 5.0},
                )
            )  # fmt: skip
    return found, said


@pytest.mark.parametrize(("gains", "n_pairs"), [((2.3, 2.9, 1.6, 2.2), 4), ((2.3, 3.4, 1.2, 2.2), 3)])
def test_a_round_of_pairs_that_is_missing_when_the_budget_ends_is_made(
    monkeypatch: pytest.MonkeyPatch, gains: Sequence[float], n_pairs: int
) -> None:
    """And none where more than one would be needed."""
    monkeypatch.setattr(Scorer, "has_room_for_pairs", lambda scorer, n_runs: False)
    proofs, said = proven(gains)
    assert [len(proof.pairs) for proof in proofs] == [n_pairs, n_pairs]
    assert any("one more pair under each context follows" in text for text in said) is (n_pairs == 4)


def test_a_config_that_has_failed_under_a_context_is_not_run_there_again() -> None:
    """As anywhere else: it would only harm the users of that context once more."""
    asked, chosen = list[tuple[str, Role]](), list[Config | None]()

    def flow(scorer: Scorer) -> Steps[None]:
        assert isinstance(scorer, ContextScorer)
        for context in CONTEXTS:
            yield from under(context, measure_baseline(task_under(TASK, context)))
            yield Ask(config=BEST, role=Role.SEARCH, context=context)
        chosen.append((yield from _shared(TASK, CYCLE, scorer, [BEST, None])))

    study: Study[None] = Study(TASK, flow)
    while not study.is_over:
        for ask in study.next():
            assert ask.context is not None
            asked.append((ask.context.workload, ask.role))
            has_failed = ask.config == BEST and ask.context == CONTEXTS[1]
            study.tell(
                Trial(
                    number=ask.number, role=ask.role, config=ask.config, context=ask.context,
                    status=Status.CRASHED if has_failed else Status.OK,
                    measurement=None if has_failed else measured(200.0 if ask.config == BEST else 100.0),
                )
            )  # fmt: skip
    assert asked[-1] == ("night", Role.SEARCH)
    assert chosen == [None]


def test_what_did_not_stand_up_to_being_measured_again_is_no_best_of_its_context() -> None:
    """Its lucky first run still makes its mean look better than the baseline's."""
    scorer = ContextScorer(TASK)
    for number, (config, speed) in enumerate([(SPACE.default(), 100.0)] * 3 + [(BEST, 130.0), (BEST, 99.0)]):
        role = Role.BASELINE if config != BEST else Role.SEARCH if number == 3 else Role.REPEAT
        scorer.take(
            Trial(
                number=number, role=role, config=config, context=CONTEXTS[0], status=Status.OK,
                measurement=measured(speed), cost_s={"measure": 5.0},
            )
        )  # fmt: skip

    def shown(best: list[Config | None], proof: CycleProof | None) -> tuple[Config, str]:
        run = CycleRun(rounds=[[3]], best=best, proof=proof, is_interrupted=proof is None)
        verdict = cycle_verdict(TASK, CYCLE, scorer, run)
        assert verdict.cycle is not None
        assert verdict.noise_floor == scorer.noise_sd > 0
        return verdict.cycle.contexts[0].config, verdict.cycle.contexts[0].reason

    nothing = CycleProof(None, None, (), "", False, (None, None), (None, None))
    assert shown([None, None], nothing) == (Config({}), "nothing beat the baseline")
    assert shown([], None) == (BEST, "it did not come to a proof")
