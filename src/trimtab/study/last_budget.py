"""The budget of a study that goes on. A smaller one comes too late where what follows the search has begun: which configs are
measured again, and how many pairs their proof may have, is of the budget with which that began, and with less of it the study
would go another way and measure anew what it has."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import dropwhile, takewhile

from trimtab.flow import Budget
from trimtab.history import History, StudyRecord
from trimtab.records import Role, Trial
from trimtab.study.begin import first_budget
from trimtab.study.stage import Stage

__all__ = ["keep_budget", "with_budget"]

_KIND = "budget"
"""Of the events that say with which budget a study went on, where it was another one than before."""

_AFTER_SEARCH = (Role.REPEAT, Role.ABLATION, Role.PROOF_BASELINE, Role.PROOF_CANDIDATE, Role.PROOF_ADVICE)

_SEARCHED = 0.6
"""Of a budget in seconds, what its search has at least."""


def with_budget(stage: Stage, history: History, record: StudyRecord, say: Callable[[str], None]) -> Stage:
    """`stage` with the budget by which the study `record` goes on: that of its file, or where that is smaller and comes too late,
    which `say` is told, that by which its last trial was made."""
    now, trials = stage.file.study.budget, history.trials(record.id)
    # One that was put right before anything was measured with it counts for nothing.
    last = _noted(stage, history, record, until=trials[-1].started_at if trials else 0.0)
    if not (
        _is_less(Budget.parse(now), Budget.parse(last), trials) and _is_searched(trials, first_budget(stage, record))
    ):
        return stage
    say(
        f"budget={now!r} is not used: what follows the search was begun with budget={last!r}, and goes on with it, so that none"
        " of its runs is lost; Ctrl-C ends the study, and keeps what is proven by then"
    )
    table = stage.file.study.model_copy(update={"budget": last})
    return replace(stage, file=stage.file.model_copy(update={"study": table}))


def _is_less(now: Budget, last: Budget, trials: Sequence[Trial]) -> bool:
    """Whether a budget is less than the last one; where one is in seconds and the other in trials, whether it has no room for
    more search than there is on record."""
    searched = list(dropwhile(lambda trial: not trial.searcher, reversed(trials)))
    if now.seconds is not None and last.seconds is None:
        return now.seconds <= _spent_s(trials) or _SEARCHED * now.seconds <= _spent_s(searched)
    if now.trials is not None and last.trials is None:
        return now.trials <= sum(bool(trial.searcher) for trial in searched)
    return now.is_below(last)


def _spent_s(trials: Sequence[Trial]) -> float:
    return sum(sum(trial.cost_s.values()) for trial in trials)


def _is_searched(trials: Sequence[Trial], began: Budget) -> bool:
    """Whether what follows the search has begun. With a budget in trials, a larger one lets a search go on after its repeats and
    proof: then these count for nothing."""
    if began.trials is not None:
        trials = list(takewhile(lambda trial: not trial.searcher, reversed(trials)))
    return any(trial.role in _AFTER_SEARCH for trial in trials)


def keep_budget(stage: Stage, history: History, record: StudyRecord) -> None:
    """Notes in the history the budget by which the study goes on now, where it is another one than before."""
    budget = stage.file.study.budget
    if budget != _noted(stage, history, record):
        history.add_event(record.id, _KIND, budget, time.time())


def _noted(stage: Stage, history: History, record: StudyRecord, *, until: float = math.inf) -> str:
    """The budget by which it ran last, or at a time (seconds since the epoch), as text; what an earlier version has not kept, it
    had at its beginning."""
    texts = [event.text for event in history.events(record.id) if event.kind == _KIND and event.at <= until]
    return texts[-1] if texts else str(record.settings.get("study", {}).get("budget", stage.file.study.budget))
