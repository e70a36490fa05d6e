"""The verdict: what a study found, made of what its phases came to."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from trimtab.measure import PairedComparison
from trimtab.records import (
    AblationSummary,
    DriftPoint,
    DriftSummary,
    DroppedKnob,
    GainInterval,
    KnobChange,
    KnobWorth,
    MemoryUse,
    PruneSummary,
    Role,
    Verdict,
    WarmStartSummary,
)
from trimtab.space import Config
from trimtab.study.ablate import Ablation
from trimtab.study.evaluate import Evaluator
from trimtab.study.explore import mean_loss
from trimtab.study.plays import PlayPhase
from trimtab.study.prove import Proof
from trimtab.study.stage import Stage
from trimtab.study.worth import Worth

__all__ = ["Outcome", "make_verdict"]

_STEPS = ("measure", "warmup", "reset", "apply", "restore", "preflight", "ask")


@dataclass(slots=True)
class Outcome:
    """What a study came to, filled in step by step."""

    stop_reason: str = ""
    candidate: Config | None = None
    ablation: Ablation | None = None
    proof: Proof | None = None
    worth: dict[str, Worth] = field(default_factory=dict)
    pruned: PruneSummary | None = None
    warm_start: WarmStartSummary | None = None
    plays: PlayPhase = field(default_factory=PlayPhase)
    is_interrupted: bool = False
    prepare_s: float = 0.0


def make_verdict(stage: Stage, evaluator: Evaluator, outcome: Outcome, *, wall_s: float) -> Verdict:
    """What the study found.

    Args:
        stage: the study's stage, restored but still open.
        evaluator: with all trials.
        outcome: what the phases came to.
        wall_s: seconds from the first trial of this run to the restored target, without the preparation.
    """
    candidate, proof = outcome.candidate, outcome.proof
    verdict = Verdict(
        result=_result(outcome),
        metric=stage.objective.metric,
        objective=str(stage.objective),
        unit=stage.objective.unit,
        noise_floor=evaluator.noise_sd,
        stop_reason=outcome.stop_reason,
        drift=_drift(evaluator),
        wall_s=_wall(evaluator, outcome, wall_s),
        unlocked=_unlocked(stage),
        pruned=outcome.pruned,
        warm_start=outcome.warm_start,
    )
    if outcome.warm_start is not None and verdict.result != "interrupted":
        # The past itself is only needed to go on.
        verdict = replace(verdict, warm_start=replace(outcome.warm_start, past=None, starts=None))
    if outcome.plays.plan or outcome.plays.left_out:
        verdict = replace(verdict, plays=outcome.plays.summary(stage, evaluator))
    if candidate is not None:
        gain = _finite(math.exp(-mean_loss(evaluator.trials, candidate)))
        verdict = replace(_with_winner(verdict, stage, candidate), search_gain=gain)
    if proof is not None:
        verdict = _with_proof(verdict, proof)
    if candidate is not None and outcome.ablation is not None:
        verdict = _with_ablation(verdict, stage, outcome, outcome.ablation, candidate)
    return verdict


def _result(outcome: Outcome) -> str:
    if outcome.is_interrupted:
        return "interrupted"
    return "better" if outcome.proof is not None and outcome.proof.is_better else "no_improvement"


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
        conditions=tuple(proof.conditions),
        refused_by=tuple(c.name for c in proof.conditions if not c.is_met),
    )


def _with_ablation(verdict: Verdict, stage: Stage, outcome: Outcome, ablation: Ablation, candidate: Config) -> Verdict:
    changed, proof = candidate.difference(stage.baseline), outcome.proof
    worth = {name: _worth(outcome, ablation, name) for name in changed}
    if len(changed) == 1 and proof is not None and proof.is_better and proof.gain is not None:
        gain, n_pairs = _gain(proof.gain), len(proof.pairs)
        reason = "it is the whole config: its worth is the proof's gain"
        worth = {
            name: replace(row, verdict="proven", reason=reason, without=gain, without_pairs=n_pairs, alone=gain,
                          alone_pairs=n_pairs)
            for name, row in worth.items()
        }  # fmt: skip
    full = Config({name: ablation.full[name] for name in ablation.full.difference(stage.baseline)})
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
    if ablation.kept.get(name) == "undecided" and line.without is not None:
        return "neither proven to bring something nor shown to be needless"
    return ablation.reasons.get(name, "")


def _with_winner(verdict: Verdict, stage: Stage, candidate: Config) -> Verdict:
    changed = candidate.difference(stage.baseline)
    config = Config({name: candidate[name] for name in changed})
    memory = stage.target.memory(stage.workload.context)
    return replace(
        verdict,
        candidate=candidate,
        config=config,
        knobs={name: _knob(stage, name, candidate) for name in changed},
        memory=MemoryUse(
            baseline=memory.to_json(stage.baseline),
            winner=memory.to_json(candidate),
        ),
        fragment=stage.target.fragment(config),
        apply_command=f"trimtab apply {stage.file.study.name}",
        undo_command=f"trimtab rollback {stage.file.study.name}",
    )


def _knob(stage: Stage, name: str, candidate: Config) -> KnobChange:
    knob = stage.space.knobs[name]
    return KnobChange(
        doc=knob.doc,
        unit=knob.unit,
        restart=str(knob.restart),
        safety=str(knob.safety),
        old=stage.baseline[name],
        new=candidate[name],
        old_text=knob.format(stage.baseline[name]),
        new_text=knob.format(candidate[name]),
    )


def _unlocked(stage: Stage) -> tuple[str, ...]:
    """Safety classes of the study's knobs that are not open by default; the report repeats them."""
    return tuple(sorted({str(knob.safety) for knob in stage.space.knobs.values()} - {"performance"}))


def _drift(evaluator: Evaluator) -> DriftSummary:
    points = tuple(
        DriftPoint(trial=t.number, at=t.started_at, value=evaluator.value_of(t))
        for t in evaluator.trials
        if t.role in (Role.BASELINE, Role.PROOF_BASELINE) and t.measurement is not None
    )
    if not len(evaluator.track):  # stopped before the first baseline was measured
        return DriftSummary(points=points, range=None, is_beyond_noise=False)
    summary = evaluator.track.summary()
    spread = _finite(summary.relative_range)
    return DriftSummary(points=points, range=spread, is_beyond_noise=bool(summary.is_beyond_noise))


def _wall(evaluator: Evaluator, outcome: Outcome, wall_s: float) -> dict[str, float]:
    """Seconds by step; replayed trials bring their own seconds along."""
    split = {step: sum(t.cost_s.get(step, 0.0) for t in evaluator.trials) for step in _STEPS}
    known = sum(split.values())
    total = max(wall_s, known)
    return {**split, "prepare": outcome.prepare_s, "other": total - known, "total": total}


def _gain(found: PairedComparison | None) -> GainInterval | None:
    return None if found is None else GainInterval.of(found.ratio)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
