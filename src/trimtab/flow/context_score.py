"""ContextScorer: the trials of a study over a cycle: each is compared with the baseline of its own context."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from trimtab.errors import InternalError, UsageError
from trimtab.flow.ask import Ask, Steps
from trimtab.flow.score import Scorer
from trimtab.flow.task import Task
from trimtab.records import Context, Trial

__all__ = ["ContextScorer", "task_under", "under"]

T = TypeVar("T")

_CONTEXT_PAIRS = 8
"""Pairs of a proof under one context, at most: the contexts share the budget."""


class ContextScorer(Scorer):
    """A `Scorer` for each context, and all trials together.

    Args:
        task: with a cycle.
        say: takes a sentence for people.
    """

    def __init__(self, task: Task, say: Callable[[str], None] = lambda text: None) -> None:
        super().__init__(task, say)
        contexts = task.cycle.contexts if task.cycle is not None else ()
        self._parts = [(context, Scorer(task_under(task, context), say)) for context in contexts]

    def part(self, context: Context | None) -> Scorer:
        """The trials under `context` alone; its seconds spent, and those that users have lost, are those of the whole study.

        Raises:
            InternalError: it is none of the cycle's.
        """
        found = next((part for known, part in self._parts if known == context), None)
        if found is None:
            raise InternalError(f"context={context} is not in the cycle of the study")
        return found

    @property
    def noise_sd(self) -> float:
        """Root mean square of the contexts' own; 0 before two baselines of one."""
        known = [part.noise_sd for _, part in self._parts if part.noise_sd > 0]
        return math.sqrt(sum(sd * sd for sd in known) / len(known)) if known else 0.0

    @property
    def lost_s(self) -> float:
        """What the trials have cost the users of the target, in seconds of their time."""
        return sum(part.regression.lost_s for _, part in self._parts)

    def take(self, trial: Trial) -> Trial:
        """As `Scorer.take`, by the baseline of the trial's context."""
        trial = self.part(trial.context).take(trial)
        self.trials.append(trial)
        self._spent_s += sum(trial.cost_s.values()) / self.n_at_once
        lost_s = self.lost_s
        for _, part in self._parts:
            part.advance(self._spent_s, lost_s - part.regression.lost_s)
        return trial

    def invalidate(self, number: int, reason: str) -> Trial:
        """Not in a cycle.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            f"trial={number} cannot be taken back: the study is over a cycle of contexts", hint="begin the study again"
        )


def task_under(task: Task, context: Context) -> Task:
    """The task as it is for one context; the advice is not proven beside each context's best, no context's proof may take the
    time of the others', and none is kept for an ablation, which a cycle does not have."""
    max_pairs = max(task.proof.min_pairs, min(_CONTEXT_PAIRS, task.proof.max_pairs))
    proof = replace(task.proof, advice=False, ablation_share=0.0, max_pairs=max_pairs)
    return replace(task, context=context, cycle=None, proof=proof)


def under(context: Context, steps: Steps[T]) -> Steps[T]:
    """`steps` with every ask made for `context`.

    Raises:
        InternalError: the steps hold others that run side by side.
    """
    trial: Trial | None = None
    while True:
        try:
            ask = next(steps) if trial is None else steps.send(trial)
        except StopIteration as end:
            result: T = end.value
            return result
        if not isinstance(ask, Ask):
            raise InternalError("steps under a context hold steps that run side by side")
        trial = yield replace(ask, context=context)
