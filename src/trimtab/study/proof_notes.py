"""What a study should say of its proof before it begins: what the study file asks for, and it cannot have."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.flow import Task
from trimtab.flow.context_score import task_under
from trimtab.flow.cycle import searcher_of
from trimtab.measure import FIRST_LOOK

__all__ = ["proof_notes"]


def proof_notes(task: Task) -> Iterator[str]:
    """Sentences for people; none where the study can have all."""
    if task.proof.max_pairs < FIRST_LOOK:
        yield (
            f"proof.max_pairs={task.proof.max_pairs}: this study can prove nothing, because a proof needs {FIRST_LOOK} pairs or "
            f"more; raise it to {FIRST_LOOK} at least, better {2 * FIRST_LOOK}"
        )
    if task.cycle is not None and (parts := list(_missing_in_cycle(task, task_under(task, task.cycle.contexts[0])))):
        yield f"a study over a cycle of contexts has {', '.join(parts)}"


def _missing_in_cycle(task: Task, own: Task) -> Iterator[str]:
    """What the task asks for, and a study over a cycle has not; `own` is the task of one of its contexts."""
    proof = task.proof
    if own.proof.max_pairs < proof.max_pairs:
        yield f"at most {own.proof.max_pairs} pairs under each of them (proof.max_pairs={proof.max_pairs})"
    if proof.advice is not False:
        yield f"no proof of the advice (proof.advice={'true' if proof.advice is True else repr(proof.advice)})"
    if proof.ablate:
        yield "no ablation (proof.ablate=true)"
    temper = task.search.options.get("temper")
    if temper is not None and "temper" not in searcher_of(task).search.options:
        yield f"no temper (search.temper={temper!r})"
