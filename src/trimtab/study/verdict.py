"""The verdict: what a study found, as the JSON that the history keeps and the report reads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trimtab.measure import Interval
from trimtab.records import Role
from trimtab.space import Config
from trimtab.study.ablate import Ablation
from trimtab.study.evaluate import Evaluator
from trimtab.study.explore import mean_loss
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
    pruned: dict[str, Any] = field(default_factory=dict)
    warm_start: dict[str, Any] = field(default_factory=dict)
    is_interrupted: bool = False
    prepare_s: float = 0.0


def make_verdict(stage: Stage, evaluator: Evaluator, outcome: Outcome, *, wall_s: float) -> dict[str, Any]:
    """The verdict's JSON (docs/reference/history.md lists the keys).

    Args:
        stage: the study's stage, restored but still open.
        evaluator: with all trials.
        outcome: what the phases came to.
        wall_s: seconds from the first trial of this run to the restored target, without the preparation.
    """
    candidate, proof = outcome.candidate, outcome.proof
    result = _result(outcome)
    verdict: dict[str, Any] = {
        "result": result,
        "metric": stage.objective.metric,
        "objective": str(stage.objective),
        "unit": stage.objective.unit,
        "noise_floor": evaluator.noise_sd,
        "stop_reason": outcome.stop_reason,
        "drift": _drift(evaluator),
        "wall_s": _wall(evaluator, outcome, wall_s),
        "unlocked": _unlocked(stage),
        "log_lines": [],
    }
    if outcome.pruned:
        verdict["pruned"] = outcome.pruned
    if outcome.warm_start:
        # The past itself is only needed to go on.
        gone = () if result == "interrupted" else ("past", "starts")
        verdict["warm_start"] = {key: value for key, value in outcome.warm_start.items() if key not in gone}
    if candidate is not None:
        verdict |= _winner(stage, candidate)
        verdict["search_gain"] = _finite(math.exp(-mean_loss(evaluator.trials, candidate)))
    if proof is not None:
        verdict |= _proved(proof)
    if candidate is not None and outcome.ablation is not None:
        verdict |= _ablated(stage, candidate, outcome)
    return verdict


def _result(outcome: Outcome) -> str:
    if outcome.is_interrupted:
        return "interrupted"
    return "better" if outcome.proof is not None and outcome.proof.is_better else "no_improvement"


def _proved(proof: Proof) -> dict[str, Any]:
    return {
        "gain": _interval(proof.gain.ratio) if proof.gain is not None else None,
        "advice_gain": _interval(proof.advice_gain.ratio) if proof.advice_gain is not None else None,
        "beside_advice": _interval(proof.beside_advice.ratio) if proof.beside_advice is not None else None,
        "pairs": [list(pair) for pair in proof.pairs],
        "advice_pairs": [list(pair) for pair in proof.advice_pairs],
        "delta": proof.delta,
        "failure": proof.failure,
        "conditions": [{"name": c.name, "is_met": c.is_met, "text": c.text} for c in proof.conditions],
        "refused_by": [c.name for c in proof.conditions if not c.is_met],
    }


def _ablated(stage: Stage, candidate: Config, outcome: Outcome) -> dict[str, Any]:
    """`ablation`, `dropped` and `worth`, see docs/reference/history.md."""
    ablation, proof = outcome.ablation, outcome.proof
    if ablation is None:
        return {}
    changed = candidate.difference(stage.baseline)
    worth = {name: _worth(outcome, ablation, name) for name in changed}
    if len(changed) == 1 and proof is not None and proof.is_better and proof.gain is not None:
        gain: dict[str, Any] = {"verdict": "proven", "reason": "it is the whole config: its worth is the proof's gain"}
        for key in ("without", "alone"):
            gain |= {key: _interval(proof.gain.ratio), f"{key}_pairs": len(proof.pairs)}
        worth = {name: row | gain for name, row in worth.items()}
    return {
        "ablation": {
            "end": ablation.end,
            "tolerance": ablation.tolerance,
            "runs": ablation.n_runs,
            "went_back": ablation.went_back,
            "full": {name: ablation.full[name] for name in ablation.full.difference(stage.baseline)},
        },
        "dropped": [
            {"knob": d.knob, "reason": d.reason, "verdict": d.verdict, "group": list(d.group),
             "worth": _interval(d.worth), "pairs": d.n_pairs}
            for d in ablation.dropped
        ],
        "worth": worth,
    }  # fmt: skip


def _worth(outcome: Outcome, ablation: Ablation, name: str) -> dict[str, Any]:
    """One line: the figures measured after the proof, and else what the ablation said of it."""
    line = outcome.worth.get(name, Worth(knob=name))
    kept = ablation.kept.get(name, "not_measured")
    verdict = line.verdict if line.verdict == "proven" or kept == "not_measured" else kept
    reasons = dict.fromkeys(reason for reason in (_kept_because(ablation, name, line), line.reason) if reason)
    return {
        "verdict": verdict,
        "reason": "; ".join(reasons),
        "without": None if line.without is None else _interval(line.without),
        "without_pairs": line.without_pairs,
        "beside": line.beside,
        "alone": None if line.alone is None else _interval(line.alone),
        "alone_pairs": line.alone_pairs,
    }


def _kept_because(ablation: Ablation, name: str, line: Worth) -> str:
    if ablation.kept.get(name) == "undecided" and line.without is not None:
        return "neither proven to bring something nor shown to be needless"
    return ablation.reasons.get(name, "")


def _winner(stage: Stage, candidate: Config) -> dict[str, Any]:
    changed = candidate.difference(stage.baseline)
    config = Config({name: candidate[name] for name in changed})
    context = stage.workload.context
    return {
        "candidate": dict(candidate),
        "config": dict(config),
        "knobs": {name: _knob(stage, name, candidate) for name in changed},
        "memory": {
            "baseline": dict(stage.target.memory_use(stage.baseline, context)),
            "winner": dict(stage.target.memory_use(candidate, context)),
        },
        "fragment": stage.target.fragment(config),
        "apply_command": f"trimtab apply {stage.file.study.name}",
        "undo_command": f"trimtab rollback {stage.file.study.name}",
    }


def _knob(stage: Stage, name: str, candidate: Config) -> dict[str, Any]:
    knob = stage.space.knobs[name]
    return {
        "doc": knob.doc,
        "unit": knob.unit,
        "restart": str(knob.restart),
        "safety": str(knob.safety),
        "old": stage.baseline[name],
        "new": candidate[name],
        "old_text": knob.format(stage.baseline[name]),
        "new_text": knob.format(candidate[name]),
    }


def _unlocked(stage: Stage) -> list[str]:
    """Safety classes of the study's knobs that are not open by default; the report repeats them."""
    return sorted({str(knob.safety) for knob in stage.space.knobs.values()} - {"performance"})


def _drift(evaluator: Evaluator) -> dict[str, Any]:
    points = [
        {"trial": t.number, "at": t.started_at, "value": evaluator.value_of(t)}
        for t in evaluator.trials
        if t.role in (Role.BASELINE, Role.PROOF_BASELINE) and t.measurement is not None
    ]
    if not len(evaluator.track):  # stopped before the first baseline was measured
        return {"points": points, "range": None, "is_beyond_noise": False}
    summary = evaluator.track.summary()
    return {"points": points, "range": _finite(summary.relative_range), "is_beyond_noise": summary.is_beyond_noise}


def _wall(evaluator: Evaluator, outcome: Outcome, wall_s: float) -> dict[str, float]:
    """Seconds by step; replayed trials bring their own seconds along."""
    split = {step: sum(t.cost_s.get(step, 0.0) for t in evaluator.trials) for step in _STEPS}
    known = sum(split.values())
    total = max(wall_s, known)
    return {**split, "prepare": outcome.prepare_s, "other": total - known, "total": total}


def _interval(interval: Interval) -> Mapping[str, float | None]:
    return {
        "estimate": _finite(interval.estimate),
        "low": _finite(interval.low),
        "high": _finite(interval.high),
        "level": interval.level,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
