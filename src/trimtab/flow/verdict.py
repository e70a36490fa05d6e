"""The verdict: what a study found, made of what its phases came to."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from trimtab.flow.ablate import Ablation
from trimtab.flow.losses import mean_loss
from trimtab.flow.plays import PlayPhase
from trimtab.flow.prove import Proof
from trimtab.flow.score import Scorer
from trimtab.flow.task import Task
from trimtab.flow.worth import Worth
from trimtab.measure import PairedComparison
from trimtab.records import (
    BASELINE_ROLES,
    AblationSummary,
    DriftPoint,
    DriftSummary,
    DroppedKnob,
    GainInterval,
    KnobChange,
    KnobWorth,
    PassesSummary,
    PruneSummary,
    StopKind,
    Verdict,
    WarmStartSummary,
)
from trimtab.space import Config

__all__ = ["Outcome", "make_verdict"]


@dataclass(slots=True)
class Outcome:
    """What a study came to, filled in step by step; `result` for a flow that proves nothing."""

    result: str = ""
    stop_reason: str = ""
    stop_kind: StopKind = StopKind.UNSAID
    candidate: Config | None = None
    ablation: Ablation | None = None
    proof: Proof | None = None
    worth: dict[str, Worth] = field(default_factory=dict)
    refused: tuple[str, ...] = ()
    pruned: PruneSummary | None = None
    passes: PassesSummary | None = None
    warm_start: WarmStartSummary | None = None
    plays: PlayPhase = field(default_factory=PlayPhase)
    is_interrupted: bool = False


def make_verdict(task: Task, scorer: Scorer, outcome: Outcome) -> Verdict:
    """What the study found, as far as its trials tell; the memory, the ready file and the seconds are for others to add.

    Args:
        task: the study's task.
        scorer: with all trials.
        outcome: what the phases came to.
    """
    candidate, proof = outcome.candidate, outcome.proof
    verdict = Verdict(
        result=_result(outcome),
        metric=task.objective.metric,
        objective=str(task.objective),
        unit=task.objective.unit,
        noise_floor=scorer.noise_sd if len(scorer.track) >= 2 else None,
        stop_reason=outcome.stop_reason,
        stop_kind=outcome.stop_kind,
        drift=_drift(scorer),
        unlocked=_unlocked(task),
        pruned=outcome.pruned,
        passes=outcome.passes,
        warm_start=outcome.warm_start,
        refused=outcome.refused,
    )
    if outcome.warm_start is not None and not outcome.is_interrupted:
        # The past itself is only needed to go on.
        verdict = replace(verdict, warm_start=replace(outcome.warm_start, past=None, starts=None))
    if outcome.plays.plan or outcome.plays.left_out:
        verdict = replace(verdict, plays=outcome.plays.summary(task, scorer))
    if candidate is not None:
        gain = _finite(math.exp(-mean_loss(scorer.trials, candidate)))
        verdict = replace(_with_winner(verdict, task, candidate), search_gain=gain)
    if proof is not None:
        verdict = _with_proof(verdict, proof)
    if candidate is not None and outcome.ablation is not None:
        verdict = _with_ablation(verdict, task, outcome, outcome.ablation, candidate)
    return verdict


def _result(outcome: Outcome) -> str:
    is_proven = outcome.result == "better" or (outcome.proof is not None and outcome.proof.is_better)
    if outcome.is_interrupted:
        # What is proven is so whatever was to follow it.
        return "better" if is_proven else "interrupted"
    return outcome.result or ("better" if is_proven else "no_improvement")


def _with_proof(verdict: Verdict, proof: Proof) -> Verdict:
    return replace(
        verdict,
        gain=_gain(proof.gain),
        advice_gain=_gain(proof.advice_gain),
        beside_advice=_gain(proof.beside_advice),
        pairs=tuple(proof.pairs),
        advice_pairs=tuple(proof.advice_pairs),
        delta=proof.delta,
        failure=proof.failure,
        is_by_constraints=proof.is_by_constraints,
        conditions=tuple(proof.conditions),
        refused_by=tuple(c.name for c in proof.conditions if not c.is_met),
    )


def _with_ablation(verdict: Verdict, task: Task, outcome: Outcome, ablation: Ablation, candidate: Config) -> Verdict:
    changed, proof = candidate.difference(task.baseline), outcome.proof
    worth = {name: _worth(outcome, ablation, name) for name in changed}
    if len(changed) == 1 and proof is not None and proof.is_better and proof.gain is not None:
        gain, n_pairs = _gain(proof.gain), len(proof.pairs)
        reason = "it is the whole config: its worth is the proof's gain"
        if proof.is_by_constraints:
            reason = "it is the whole config, which meets a constraint that yours misses"
        worth = {
            name: replace(row, verdict="proven", reason=reason, without=gain, without_pairs=n_pairs, alone=gain,
                          alone_pairs=n_pairs)
            for name, row in worth.items()
        }  # fmt: skip
    full = Config({name: ablation.full[name] for name in ablation.full.difference(task.baseline)})
    return replace(
        verdict,
        ablation=AblationSummary(
            end=ablation.end, tolerance=ablation.tolerance, runs=ablation.n_runs, went_back=ablation.went_back, full=full
        ),
        dropped=tuple(
            DroppedKnob(knob=d.knob, reason=d.reason, verdict=d.verdict, group=d.group, worth=GainInterval.of(d.worth),
                        pairs=d.n_pairs)
            for d in ablation.dropped
        ),
        worth=worth,
    )  # fmt: skip


def _worth(outcome: Outcome, ablation: Ablation, name: str) -> KnobWorth:
    """One line: the figures measured after the proof, and else what the ablation said of it."""
    line = outcome.worth.get(name, Worth(knob=name))
    kept = ablation.kept.get(name, "not_measured")
    reasons = dict.fromkeys(reason for reason in (_kept_because(ablation, name, line), line.reason) if reason)
    return KnobWorth(
        verdict=line.verdict if line.verdict == "proven" or kept == "not_measured" else kept,
        reason="; ".join(reasons),
        without=GainInterval.of(line.without),
        without_pairs=line.without_pairs,
        beside=line.beside,
        alone=GainInterval.of(line.alone),
        alone_pairs=line.alone_pairs,
    )


def _kept_because(ablation: Ablation, name: str, line: Worth) -> str:
    kept = ablation.kept.get(name)
    if line.without is not None and (kept == "undecided" or (kept == "not_measured" and line.verdict == "undecided")):
        return "neither proven to bring something nor shown to be needless"
    return ablation.reasons.get(name, "")


def _with_winner(verdict: Verdict, task: Task, candidate: Config) -> Verdict:
    changed = candidate.difference(task.baseline)
    config = Config({name: candidate[name] for name in changed})
    return replace(
        verdict,
        candidate=candidate,
        config=config,
        knobs={name: _knob(task, name, candidate) for name in changed},
    )


def _knob(task: Task, name: str, candidate: Config) -> KnobChange:
    knob = task.space.knobs[name]
    return KnobChange(
        doc=knob.doc,
        unit=knob.unit,
        restart=str(knob.restart),
        safety=str(knob.safety),
        old=task.baseline[name],
        new=candidate[name],
        old_text=knob.format(task.baseline[name]),
        new_text=knob.format(candidate[name]),
    )


def _unlocked(task: Task) -> tuple[str, ...]:
    """Safety classes of the study's knobs that are not open by default; the report repeats them."""
    return tuple(sorted({str(knob.safety) for knob in task.space.knobs.values()} - {"performance"}))


def _drift(scorer: Scorer) -> DriftSummary:
    points = tuple(
        DriftPoint(trial=t.number, at=t.started_at, value=scorer.value_of(t))
        for t in scorer.trials
        if t.role in BASELINE_ROLES and t.measurement is not None
    )
    if not len(scorer.track):  # stopped before the first baseline was measured
        return DriftSummary(points=points, range=None, is_beyond_noise=False)
    summary = scorer.track.summary()
    spread = _finite(summary.relative_range)
    return DriftSummary(points=points, range=spread, is_beyond_noise=bool(summary.is_beyond_noise))


def _gain(found: PairedComparison | None) -> GainInterval | None:
    return None if found is None else GainInterval.of(found.ratio)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
