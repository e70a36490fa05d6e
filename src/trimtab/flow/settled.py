"""Settled: what a study is given once its baseline is known, and keeps: the past it starts from, what it prunes, its plays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trimtab.flow.budget import Budget
from trimtab.flow.plays import PlayPhase
from trimtab.flow.warm import WarmStart
from trimtab.records import PassesPlan, PrunePlan, Role

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
        went_on: number of each trial on record after which the search went on, and the role of what followed: what was measured
            counts, whatever is left of the budget now.
    """

    budget: Budget | None = None
    warm: WarmStart | None = None
    prune: PrunePlan | None = None
    passes: PassesPlan | None = None
    plays: PlayPhase = field(default_factory=PlayPhase)
    went_on: Mapping[int, Role] = field(default_factory=dict)
