"""The verdict of a study on a target: what its trials tell, with what only the target knows and what the study took."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from trimtab.records import MemoryUse, Trial, Verdict, seconds_of
from trimtab.study.fragments import as_one_text
from trimtab.study.stage import Stage

__all__ = ["complete_verdict", "wall_of", "with_commands"]

_STEPS = ("measure", "warmup", "reset", "apply", "restore", "preflight", "ask")


def complete_verdict(verdict: Verdict, stage: Stage) -> Verdict:
    """With the memory, the ready file and the commands of its winner, when it has one; the stage is restored, but still open."""
    if verdict.candidate is None:
        return verdict
    memory = stage.stack.memory(stage.workload.context)
    verdict = replace(
        verdict,
        memory=MemoryUse(
            baseline=memory.to_json(stage.baseline),
            winner=memory.to_json(verdict.candidate),
        ),
        fragment=as_one_text(stage.stack.fragments(verdict.config), is_one=stage.stack.is_one),
    )
    return with_commands(verdict, stage.file.study.name)


def with_commands(verdict: Verdict, study: str) -> Verdict:
    """With what applies the winner of `study`, and takes it back."""
    return replace(verdict, apply_command=f"trimtab apply {study}", undo_command=f"trimtab rollback {study}")


def wall_of(trials: Iterable[Trial], *, prepare_s: float, wall_s: float) -> Mapping[str, float]:
    """Seconds by step; replayed trials bring their own seconds along.

    Args:
        trials: all of the study.
        prepare_s: of the data.
        wall_s: from the first trial of this run to the restored target, without the preparation.
    """
    trials = tuple(trials)
    split = {step: sum(seconds_of(t.cost_s, step) for t in trials) for step in _STEPS}
    known = sum(split.values())
    total = max(wall_s, known)
    return {**split, "prepare": prepare_s, "other": total - known, "total": total}
