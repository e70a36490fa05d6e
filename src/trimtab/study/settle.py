"""What a study settles when its search begins, and keeps in the history, so that a resume goes the same way."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from trimtab.flow import Scorer, Settled, Task
from trimtab.flow.explore import expected_trials
from trimtab.flow.plays import PlayPhase, planned
from trimtab.history import History, StudyRecord
from trimtab.records import PassesPlan, PassesSummary, Role, Status, Trial
from trimtab.study.begin import first_budget
from trimtab.study.prune_plan import settle_plan
from trimtab.study.stage import Stage
from trimtab.study.trouble import without_trouble
from trimtab.study.warm_start import settle_warm_start

__all__ = ["planned_passes", "settle", "went_on"]


def settle(stage: Stage, history: History, record: StudyRecord, scorer: Scorer) -> Settled:
    """The budget with which the study began, what past studies give to it, the plan of its pruning, and its plays.

    Args:
        stage: of the study.
        history: read, and given what was settled.
        record: of the study, as it was when this run began.
        scorer: with the runs of the baseline.
    """
    began = replace(scorer.task, budget=first_budget(stage, record))
    warm = settle_warm_start(stage, history, record, scorer.trials, scorer.say)
    plan = settle_plan(stage, history, record, expected_trials(began, scorer), warm.facts)
    plays = settle_plays(stage, history, record, scorer, began, is_pruned=plan is not None)
    passes = settle_passes(stage, history, record, scorer)
    kept = warm if stage.file.search.warm_start != "off" else None
    return Settled(
        budget=began.budget, warm=kept, prune=plan, passes=passes, plays=plays,
        went_on=went_on(history, record, is_one_search=began.budget.trials is not None),
    )  # fmt: skip


def went_on(history: History, record: StudyRecord, *, is_one_search: bool = True) -> Mapping[int, Role]:
    """What `_went_on` says of the trials that the history holds of a study."""
    return _went_on(without_trouble(history.trials(record.id)), is_one_search=is_one_search)


def _went_on(trials: Sequence[Trial], *, is_one_search: bool) -> dict[int, Role]:
    """Number of each trial on record after which the search went on -> role of what followed: a run of the baseline, or another
    config. It `is_one_search` up to the last config that a searcher has asked for; else leaders and failed proofs end it."""
    found: dict[int, Role] = {}
    following: Role | None = None
    for trial in reversed(trials):
        if following is not None:
            found[trial.number] = following
        if trial.searcher:
            following = trial.role
        elif trial.role is Role.BASELINE and following is not None:
            following = Role.BASELINE
        elif not is_one_search:
            following = None
    return found


def planned_passes(stage: Stage, scorer: Scorer | None) -> PassesPlan | None:
    """The passes that the study file asks for, by what the baseline cost; None for one over all knobs."""
    kind = stage.file.search.passes
    if kind == "one":
        return None
    if scorer is None:
        return PassesPlan(kind=kind)
    unit_s = scorer.mean_cost_s if stage.file.budget.seconds is not None else 0.0
    return PassesPlan(kind=kind, room=expected_trials(scorer.task, scorer), unit_cost_s=unit_s)


def settle_passes(stage: Stage, history: History, record: StudyRecord, scorer: Scorer) -> PassesPlan | None:
    """The plan of the passes, as it was settled when the study began: its budget may be another one now."""
    kept = record.verdict.passes
    if kept is not None:
        return kept.plan
    plan = planned_passes(stage, scorer)
    if plan is not None:
        verdict = replace(history.study(record.id).verdict, passes=PassesSummary(plan=plan))
        history.update_study(record.id, verdict=verdict)
    return plan


def settle_plays(
    stage: Stage, history: History, record: StudyRecord, scorer: Scorer, began: Task, *, is_pruned: bool
) -> PlayPhase:
    """The plays that this study tries, as they were settled when it `began`: free disk space changes, and a resume must not."""
    kept = record.verdict.plays
    if kept is not None:
        n_recorded = _n_tried(history.trials(record.id), are_together=bool(kept.together))
        return PlayPhase(kept.plan, left_out=dict(kept.left_out), together=kept.together, n_recorded=n_recorded)
    table = stage.file.search
    is_wanted = table.plays == "on" or (table.plays == "auto" and table.searcher == "auto" and not is_pruned)
    plays = stage.stack.plays(stage.workload.context, _latency_s(scorer)) if is_wanted else None
    if plays is None:
        return PlayPhase()
    phase = planned(began, plays, scorer)
    verdict = replace(history.study(record.id).verdict, plays=phase.summary(scorer.task, scorer))
    history.update_study(record.id, verdict=verdict)
    return phase


def _n_tried(trials: Sequence[Trial], *, are_together: bool) -> int:
    """Runs of plays on record: the same plays may well be on together twice. One by one, what could not be measured is made
    again, and left out then."""
    played = [trial for trial in trials if trial.role is Role.PLAY]
    return sum(are_together or trial.status is not Status.INFRASTRUCTURE for trial in played)


def _latency_s(scorer: Scorer) -> float:
    """Mean duration of an operation under the found settings; 0 when unknown."""
    found = [t.measurement.latency_mean_ms.estimate for t in scorer.trials if t.measurement is not None]
    return found[0] / 1000 if found and math.isfinite(found[0]) else 0.0
