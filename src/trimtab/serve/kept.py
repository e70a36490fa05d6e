"""Kept: the studies that people look at, read once: 10,000 trials take a second to read, and a page asks several times."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

from trimtab.history import StudyRecord, StudySummary
from trimtab.records import Trial
from trimtab.session import Sessions
from trimtab.session.refusal import UnknownError

__all__ = ["Kept"]

T = TypeVar("T")
_MOST = 4


class _Study:
    """One study as it was when it had that many trials, and what was made of it."""

    def __init__(self, mark: tuple[Any, ...], record: StudyRecord, trials: list[Trial]) -> None:
        self.mark, self.record, self.trials = mark, record, trials
        self.made: dict[str, Any] = {}
        self.lock = threading.Lock()


class Kept:
    """What was read last, as long as a study has no more trials, no other status and no other verdict. Threads may share it."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._studies: OrderedDict[int, _Study] = OrderedDict()
        self._lock = threading.Lock()

    def made(self, study_id: int, name: str, make: Callable[[StudyRecord, list[Trial]], T]) -> T:
        """What `make` makes of the study, made once; `name` tells it from others.

        Raises:
            UnknownError: there is no such study.
        """
        study = self._read(study_id)
        with study.lock:
            if name not in study.made:
                study.made[name] = make(study.record, study.trials)
            found: T = study.made[name]
            return found

    def _read(self, study_id: int) -> _Study:
        summary = self._summary(study_id)
        live = next((session for session in self._sessions.live() if session.study_id == study_id), None)
        history = self._sessions.history
        record = history.study(study_id)
        mark = (summary.n_trials if live is None else len(live.trials), record.status, record.verdict)
        with self._lock:
            found = self._studies.get(study_id)
            if found is None or found.mark != mark:
                trials = (
                    history.trials(study_id) if live is None else sorted(live.trials, key=lambda trial: trial.number)
                )
                found = self._studies[study_id] = _Study(mark, record, trials)
            self._studies.move_to_end(study_id)
            while len(self._studies) > _MOST:
                self._studies.popitem(last=False)
            return found

    def _summary(self, study_id: int) -> StudySummary:
        found = next((each for each in self._sessions.history.summaries() if each.id == study_id), None)
        if found is None:
            raise UnknownError(f"there is no study id={study_id}", hint="`GET /api/v1/studies` lists them")
        return found
