"""PastStudy: what another study has measured, said in the knobs of this one."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.space import Config

__all__ = ["PastStudy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PastStudy:
    """Trials of another study, for a prior.

    Attributes:
        name: of the study, for people; different for each of one problem.
        nearness: how much it promises, above 0 and at most 1.
        configs: what was measured, as configs of this problem's space.
        losses: one for each, finite; relative to that study's own baseline, so only their order and spread count here.
        failed: configs that failed by their own fault, or missed what this problem's objective asks as well.
    """

    name: str
    nearness: float
    configs: tuple[Config, ...]
    losses: tuple[float, ...]
    failed: tuple[Config, ...] = ()
