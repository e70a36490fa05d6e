"""The proof over a cycle: when more pairs would still change its answer."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from trimtab.flow import ProofOptions
from trimtab.flow.acceptance import Acceptance, AcceptanceRule, Sample
from trimtab.flow.cycle_proof import _is_decided
from trimtab.flow.prove import Proof, _conclude, _Pairs

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
