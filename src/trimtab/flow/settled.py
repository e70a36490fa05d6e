"""Settled: what a study is given once its baseline is known, and keeps: the past it starts from, what it prunes, its plays."""

from __future__ import annotations

from dataclasses import dataclass, field

from trimtab.flow.budget import Budget
from trimtab.flow.plays import PlayPhase
from trimtab.flow.warm import WarmStart
from trimtab.records import PassesPlan, PrunePlan

__all__ = ["Settled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What only the outside knows: the history, and the target's own plays. A resume must be given the same again.

    Attributes:
        budget: with which the study began; a resume may have another one. None: the task's.
        warm: what past studies give; None when it is not asked for.
        prune: plan of the pruning; None when nothing is pruned.
        passes: plan of a search in passes; None for one over all knobs at once.
        plays: the plays to try first.
        searched_to: number of the last trial that the history has of the search: what was measured counts, whatever budget of
            trials is left now. -1: of none.
    """

    budget: Budget | None = None
    warm: WarmStart | None = None
    prune: PrunePlan | None = None
    passes: PassesPlan | None = None
    plays: PlayPhase = field(default_factory=PlayPhase)
    searched_to: int = -1
