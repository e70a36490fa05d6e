"""The proof: baseline and candidate in alternating pairs (ABBA), looked at after each pair by tests that allow looking.

Only a candidate that meets every condition of the acceptance rule is called better (DESIGN law 2; see `acceptance`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from trimtab.measure import PairedComparison, compare_pairs
from trimtab.records import Role, Status, Trial
from trimtab.space import Config
from trimtab.study.acceptance import Acceptance, AcceptanceRule, Condition, Sample
from trimtab.study.evaluate import Evaluator
from trimtab.study.pairs import believable, pair_plan
from trimtab.study.stage import Stage

__all__ = ["Proof", "acceptance_rule", "prove"]


@dataclass(frozen=True, slots=True)
class Proof:
    """What the pairs showed.

    Attributes:
        is_better: whether the candidate may be called better: no failure, and every condition is met.
        gain: how many times better, with its always-valid interval; None when no pair was complete.
        advice_gain: the same for the rule-based advice, by Student's t over its own pairs; None when not measured.
        beside_advice: how many times better the candidate was than the advice, in the blocks that measured both.
        pairs: (baseline, candidate) values of the objective.
        advice_pairs: (baseline, advice) values.
        delta: the gain that had to be exceeded.
        failure: why the candidate failed in the proof, "" when it did not.
        conditions: of the acceptance rule, each with its figures; empty when no pair was complete.
    """

    is_better: bool
    gain: PairedComparison | None
    advice_gain: PairedComparison | None
    beside_advice: PairedComparison | None
    pairs: tuple[tuple[float, float], ...]
    advice_pairs: tuple[tuple[float, float], ...]
    delta: float
    failure: str = ""
    conditions: tuple[Condition, ...] = ()


@dataclass(slots=True)
class _Pairs:
    """What was measured so far."""

    test: Acceptance
    values: list[tuple[float, float]] = field(default_factory=list)
    advice: list[tuple[float, float]] = field(default_factory=list)
    beside: list[tuple[float, float]] = field(default_factory=list)

    def add(self, samples: dict[Role, Sample]) -> None:
        baseline, candidate = samples[Role.PROOF_BASELINE], samples[Role.PROOF_CANDIDATE]
        self.test.add(baseline, candidate)
        self.values.append((baseline.value, candidate.value))
        if Role.PROOF_ADVICE in samples:
            self.advice.append((baseline.value, samples[Role.PROOF_ADVICE].value))
            self.beside.append((samples[Role.PROOF_ADVICE].value, candidate.value))


def prove(stage: Stage, evaluator: Evaluator, candidate: Config, *, may_go_on: Callable[[], bool]) -> Proof:
    """Measures pairs until the rule decides and the gain is known well, or pairs or budget are used up."""
    table = stage.file.proof
    rule = acceptance_rule(stage, evaluator, candidate)
    pairs, failure = _Pairs(Acceptance(rule)), ""
    arms = [(Role.PROOF_BASELINE, stage.baseline), (Role.PROOF_CANDIDATE, candidate)]
    if table.advice and stage.advice not in (stage.baseline, candidate):
        arms.append((Role.PROOF_ADVICE, stage.advice))
    while len(pairs.test) < table.max_pairs and (len(pairs.test) < table.min_pairs or may_go_on()):
        samples: dict[Role, Sample] = {}
        for role, config in arms if len(pairs.test) % 2 == 0 else arms[::-1]:
            trial = believable(evaluator, config, role, pair_plan(stage))
            if trial.status is Status.OK and trial.measurement is not None and trial.excess == 0:
                samples[role] = Sample.of(trial, stage.objective)
            elif role is not Role.PROOF_ADVICE:
                failure = _failure(trial)
        if failure:
            break
        pairs.add(samples)
        if len(pairs.test) >= table.min_pairs and pairs.test.is_settled():
            break
    return _conclude(pairs, stage.objective.is_maximised, rule.delta, failure)


def acceptance_rule(stage: Stage, evaluator: Evaluator, candidate: Config) -> AcceptanceRule:
    """What `candidate` must reach in this study."""
    noise_sd = evaluator.noise_sd
    changed = [name for name in candidate.difference(stage.baseline) if _is_unsafe(stage, name)]
    locked = tuple(name for name in changed if stage.states[name].lock_reason)
    return AcceptanceRule(
        metric=stage.objective.metric,
        is_maximised=stage.objective.is_maximised,
        delta=max(stage.file.proof.min_gain, noise_sd),
        tolerance=stage.file.proof.tolerance,
        noise_sd=noise_sd,
        max_noise=stage.file.proof.max_noise,
        locked=locked,
        opened=tuple(name for name in changed if name not in locked),
    )


def _is_unsafe(stage: Stage, name: str) -> bool:
    return str(stage.space.knobs[name].safety) != "performance"


def _failure(trial: Trial) -> str:
    what = trial.reason or ("a constraint of the objective was missed" if trial.excess else str(trial.status))
    return f"trial {trial.number} ({trial.role}) ended as {trial.status}: {what}"


def _conclude(pairs: _Pairs, is_maximised: bool, delta: float, failure: str) -> Proof:
    test = pairs.test
    return Proof(
        is_better=not failure and len(test) >= 2 and test.is_accepted,
        gain=test.gain.comparison() if len(test) >= 2 else None,
        advice_gain=_compare(pairs.advice, is_maximised),
        beside_advice=_compare(pairs.beside, is_maximised),
        pairs=tuple(pairs.values),
        advice_pairs=tuple(pairs.advice),
        delta=delta,
        failure=failure,
        conditions=test.conditions() if len(test) else (),
    )


def _compare(pairs: list[tuple[float, float]], is_maximised: bool) -> PairedComparison | None:
    """How many times better the second of each pair is; None for fewer than two pairs."""
    if len(pairs) < 2:
        return None
    first, second = zip(*pairs, strict=True)
    return compare_pairs(first, second, is_maximised)
