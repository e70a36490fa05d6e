"""The proof: baseline and candidate in alternating pairs (ABBA), looked at after each pair by a test that allows looking.

Only a candidate whose lower bound lies above max(minimum gain, noise floor) is called better (DESIGN law 2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from trimtab.measure import PairedComparison, PairedSequence, compare_pairs
from trimtab.records import Role, Status, Trial
from trimtab.space import Config
from trimtab.study.evaluate import Evaluator
from trimtab.study.stage import Stage
from trimtab.trial import MeasurePlan

__all__ = ["Proof", "prove"]


_QUOTABLE = 1.25
"""A proven gain is measured on, while the budget lasts, until its interval's ends are within this factor."""

_MAX_INVALID_TRIALS = 2
"""Times that a trial which was nobody's fault (a busy load generator) is made again before the proof gives up."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What the pairs showed.

    Attributes:
        is_better: whether the candidate may be called better.
        gain: how many times better, with its always-valid interval; None when no pair was complete.
        advice_gain: the same for the rule-based advice, by Student's t over its own pairs; None when not measured.
        pairs: (baseline, candidate) values of the objective.
        advice_pairs: (baseline, advice) values.
        delta: the gain that had to be exceeded.
        failure: why the candidate failed in the proof, "" when it did not.
    """

    is_better: bool
    gain: PairedComparison | None
    advice_gain: PairedComparison | None
    pairs: tuple[tuple[float, float], ...]
    advice_pairs: tuple[tuple[float, float], ...]
    delta: float
    failure: str = ""


def prove(stage: Stage, evaluator: Evaluator, candidate: Config, *, may_go_on: Callable[[], bool]) -> Proof:
    """Measures pairs until the sequential test decides and the gain is known well, or pairs or budget are used up."""
    table, objective = stage.file.proof, stage.objective
    delta = max(table.min_gain, evaluator.noise_sd)
    # Each pair sees the window's longest form: a proof is not the place to save seconds.
    plan = replace(stage.plan, window_s=max(stage.plan.window_s, stage.plan.window_max_s / 2), precision=0.005)
    sequence = PairedSequence(is_maximised=objective.is_maximised)
    with_advice = table.advice and stage.advice not in (stage.baseline, candidate)
    pairs, advice_pairs, failure = list[tuple[float, float]](), list[tuple[float, float]](), ""
    arms = [(Role.PROOF_BASELINE, stage.baseline), (Role.PROOF_CANDIDATE, candidate)]
    if with_advice:
        arms.append((Role.PROOF_ADVICE, stage.advice))
    while len(pairs) < table.max_pairs and (len(pairs) < table.min_pairs or may_go_on()):
        block = arms if len(pairs) % 2 == 0 else arms[::-1]
        values: dict[Role, float] = {}
        for role, config in block:
            trial = _believable(evaluator, config, role, plan)
            if trial.status is Status.OK and trial.measurement is not None and trial.excess == 0:
                values[role] = objective.value(trial.measurement).estimate
            elif role is not Role.PROOF_ADVICE:
                failure = _failure(trial)
        if failure:
            break
        pairs.append((values[Role.PROOF_BASELINE], values[Role.PROOF_CANDIDATE]))
        if Role.PROOF_ADVICE in values:
            advice_pairs.append((values[Role.PROOF_BASELINE], values[Role.PROOF_ADVICE]))
        sequence.add(*pairs[-1])
        if len(pairs) >= table.min_pairs and _is_settled(sequence, delta):
            break
    return _conclude(stage, sequence, pairs, advice_pairs, delta, failure)


def _believable(evaluator: Evaluator, config: Config, role: Role, plan: MeasurePlan) -> Trial:
    """Measured again, a few times, when a fault that was not the config's made the trial worthless."""
    trial = evaluator.measure(config, role, plan=plan)
    for _ in range(_MAX_INVALID_TRIALS):
        if trial.status is not Status.INFRASTRUCTURE:
            break
        trial = evaluator.measure(config, role, plan=plan)
    return trial


def _is_settled(sequence: PairedSequence, delta: float) -> bool:
    """Decided, and a gain is known well enough to be quoted."""
    verdict, ratio = sequence.verdict(delta), sequence.ratio
    return verdict == "not_better" or (verdict == "better" and ratio.high <= _QUOTABLE * ratio.low)


def _failure(trial: Trial) -> str:
    what = trial.reason or ("a constraint of the objective was missed" if trial.excess else str(trial.status))
    return f"trial {trial.number} ({trial.role}) ended as {trial.status}: {what}"


def _conclude(
    stage: Stage,
    sequence: PairedSequence,
    pairs: list[tuple[float, float]],
    advice_pairs: list[tuple[float, float]],
    delta: float,
    failure: str,
) -> Proof:
    maximised = stage.objective.is_maximised
    advice = None
    if len(advice_pairs) >= 2:
        baseline, advised = zip(*advice_pairs, strict=True)
        advice = compare_pairs(baseline, advised, maximised)
    gain = sequence.comparison() if len(pairs) >= 2 else None
    is_better = not failure and gain is not None and sequence.verdict(delta) == "better"
    return Proof(is_better, gain, advice, tuple(pairs), tuple(advice_pairs), delta, failure)
