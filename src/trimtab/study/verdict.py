"""The verdict: what a study found, as the JSON that the history keeps and the report reads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trimtab.measure import Interval
from trimtab.records import Role
from trimtab.space import Config
from trimtab.study.evaluate import Evaluator
from trimtab.study.explore import mean_loss
from trimtab.study.prove import Proof
from trimtab.study.simplify import Dropped
from trimtab.study.stage import Stage

__all__ = ["Outcome", "make_verdict"]

_STEPS = ("measure", "warmup", "reset", "apply", "restore", "preflight", "ask")


@dataclass(slots=True)
class Outcome:
    """What a study came to, filled in step by step."""

    stop_reason: str = ""
    candidate: Config | None = None
    dropped: list[Dropped] = field(default_factory=list)
    proof: Proof | None = None
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
    if candidate is not None:
        verdict |= _winner(stage, candidate)
        verdict["dropped"] = [{"knob": d.knob, "reason": d.reason} for d in outcome.dropped]
        verdict["search_gain"] = _finite(math.exp(-mean_loss(evaluator.trials, candidate)))
    if proof is not None:
        verdict |= _proved(proof)
    return verdict


def _result(outcome: Outcome) -> str:
    if outcome.is_interrupted:
        return "interrupted"
    return "better" if outcome.proof is not None and outcome.proof.is_better else "no_improvement"


def _proved(proof: Proof) -> dict[str, Any]:
    return {
        "gain": _interval(proof.gain.ratio) if proof.gain is not None else None,
        "advice_gain": _interval(proof.advice_gain.ratio) if proof.advice_gain is not None else None,
        "pairs": [list(pair) for pair in proof.pairs],
        "advice_pairs": [list(pair) for pair in proof.advice_pairs],
        "delta": proof.delta,
        "failure": proof.failure,
    }


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
