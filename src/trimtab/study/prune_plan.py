"""The plan of a pruned study: what it has settled before it searches, and keeps, so that a resume goes the same way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from trimtab.errors import UsageError
from trimtab.flow.prune import first_level_runs, tuning_order
from trimtab.history import History, StudyRecord, find_study, read_space
from trimtab.importance import RankProblem, rank_knobs
from trimtab.records import Objective, PrunePlan, PruneSummary, WarmStudy, in_hindsight
from trimtab.study.rank import find_ranked
from trimtab.study.stage import Stage

__all__ = ["check_pruning", "settle_plan"]

_NAMES_SHOWN = 5


def check_pruning(stage: Stage, history: History, found: StudyRecord | None) -> None:
    """What can be wrong with [search] prune and ranks, before anything is measured; `found` is the study itself, if it has begun.

    Raises:
        UsageError: more knobs to tune than there are, or ranks of a study that is unknown, this one, or of another space.
    """
    prune, ranks, name = stage.file.search.prune, stage.file.search.ranks, stage.file.study.name
    if isinstance(prune, int) and prune > len(stage.space.knobs):
        raise UsageError(
            f"search.prune={prune} is more than the n_knobs={len(stage.space.knobs)} of study={name!r}",
            hint="give fewer, or leave prune out to tune all",
        )
    if ranks is None:
        return
    other = None if ranks == name else find_ranked(history, ranks)
    if other is None or (found is not None and other.id == found.id):
        raise UsageError(
            f"search.ranks={ranks!r} is the study itself",
            hint="name another study, or one of its designs (NAME.rank-lhs)",
        )
    missing = sorted(set(stage.space.knobs) - set(read_space(other).knobs))
    if missing:
        shown = ", ".join(missing[:_NAMES_SHOWN]) + (", …" if len(missing) > _NAMES_SHOWN else "")
        raise UsageError(
            f"search.ranks={ranks!r} is a study of another space: it has no data on {shown}",
            hint="carry ranks from a study that had all knobs of this one, or leave ranks out",
        )


def settle_plan(
    stage: Stage, history: History, record: StudyRecord, budget_trials: int | None, near: Sequence[WarmStudy] = ()
) -> PrunePlan | None:
    """The study's plan, as it was settled when the study began; None when nothing is pruned.

    Where the study file names no study whose ranks are to be carried, the first of `near` that can be ranked and had all
    knobs offers its own; they are checked like any others.
    """
    prune, ranks = stage.file.search.prune, stage.file.search.ranks
    if prune == "off":
        return None
    kept = record.verdict.pruned
    if kept is not None:
        return kept.plan
    want = prune if isinstance(prune, int) else 0
    carried = (
        _carried(history, find_ranked(history, ranks), ranks) if ranks is not None else _offered(stage, history, near)
    )
    plan = PrunePlan(
        want=want,
        runs=first_level_runs(len(stage.space.knobs), budget_trials, is_forced=want > 0 or bool(carried)),
        **carried,
    )
    history.update_study(record.id, verdict=replace(history.study(record.id).verdict, pruned=PruneSummary(plan=plan)))
    return plan


def _offered(stage: Stage, history: History, near: Sequence[WarmStudy]) -> dict[str, Any]:
    """The ranks of the first of `near` that has some for all knobs; none when no study has.

    By their numbers: an earlier study of this one's own name is near, and the newest of that name is this one."""
    for each in near:
        try:
            found = find_study(history, f"#{each.id}")
            if set(stage.space.knobs) <= set(read_space(found).knobs):
                return _carried(history, found, found.name)
        except UsageError:
            continue
    return {}


def _carried(history: History, other: StudyRecord, ranks: str) -> dict[str, Any]:
    """The ranks of the study `other`, which was named as `ranks`, to carry as fields of a plan.

    Raises:
        UsageError: its trials cannot be ranked, or do not tell.
    """
    trials = in_hindsight(Objective.parse(other.objective), history.trials(other.id))
    consensus = rank_knobs(RankProblem(space=read_space(other), baseline=other.baseline, trials=trials))
    if consensus.verdict or not consensus.knee:
        raise UsageError(
            f"the ranks of search.ranks={ranks!r} cannot be carried: {consensus.verdict or 'no knob showed an effect'}",
            hint=f"add runs to it (trimtab rank STUDY.toml --design lhs --runs {2 * len(trials)}), or leave ranks out",
        )
    order, n_worth = tuning_order(consensus)
    return {
        "carried": order,
        "carried_knee": n_worth,
        "source": f"study={other.name!r} ({consensus.n_trials} trials)",
    }
