"""The budget of a study that goes on. A smaller one comes too late where what follows the search has begun: which configs are
measured again, and how many pairs their proof may have, is of the budget with which that began, and with less of it the study
would go another way and measure anew what it has."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from trimtab.flow import Budget
from trimtab.history import History, StudyRecord
from trimtab.records import Role
from trimtab.study.stage import Stage

__all__ = ["keep_budget", "with_budget"]

_KIND = "budget"
"""Of the events that say with which budget a study went on, where it was another one than before."""

_AFTER_SEARCH = (Role.REPEAT, Role.ABLATION, Role.PROOF_BASELINE, Role.PROOF_CANDIDATE, Role.PROOF_ADVICE)


def with_budget(stage: Stage, history: History, record: StudyRecord, say: Callable[[str], None]) -> Stage:
    """`stage` with the budget by which the study `record` goes on: that of its file, or where that is smaller and comes too late,
    which `say` is told, that of the run before."""
    now, last = stage.file.study.budget, _last_of(stage, history, record)
    if not Budget.parse(now).is_below(Budget.parse(last)):
        return stage
    if not any(trial.role in _AFTER_SEARCH for trial in history.trial_summaries([record.id])[record.id]):
        return stage
    say(
        f"budget={now!r} is not used: what follows the search was begun with budget={last!r}, and goes on with it, so that none"
        " of its runs is lost; Ctrl-C ends the study, and keeps what is proven by then"
    )
    table = stage.file.study.model_copy(update={"budget": last})
    return replace(stage, file=stage.file.model_copy(update={"study": table}))


def keep_budget(stage: Stage, history: History, record: StudyRecord) -> None:
    """Notes in the history the budget by which the study goes on now, where it is another one than before."""
    budget = stage.file.study.budget
    if budget != _last_of(stage, history, record):
        history.add_event(record.id, _KIND, budget, time.time())


def _last_of(stage: Stage, history: History, record: StudyRecord) -> str:
    """The budget by which it ran last, as text; what an earlier version has not kept, it had at its beginning."""
    texts = [event.text for event in history.events(record.id) if event.kind == _KIND]
    return texts[-1] if texts else str(record.settings.get("study", {}).get("budget", stage.file.study.budget))
