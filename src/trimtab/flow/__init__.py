"""DECIDE: a study as a conversation: what to measure next, and what the trials prove; no clock, file, socket or target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.deferred import deferred

if TYPE_CHECKING:
    from trimtab.flow.ask import Ask, Effort, Steps, Stopped, Stream, side_by_side
    from trimtab.flow.budget import Budget
    from trimtab.flow.score import Scorer
    from trimtab.flow.settled import Settled
    from trimtab.flow.study import Study
    from trimtab.flow.task import ProofOptions, SearchOptions, Task
else:
    __getattr__ = deferred(
        __name__,
        {
            "ask": "Ask Effort Steps Stopped Stream side_by_side",
            "budget": "Budget",
            "score": "Scorer",
            "settled": "Settled",
            "study": "Study",
            "task": "ProofOptions SearchOptions Task",
        },
    )

__all__ = [
    "Ask",
    "Budget",
    "Effort",
    "ProofOptions",
    "Scorer",
    "SearchOptions",
    "Settled",
    "Steps",
    "Stopped",
    "Stream",
    "Study",
    "Task",
    "side_by_side",
]
