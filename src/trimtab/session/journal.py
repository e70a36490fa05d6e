"""Journal: what a session writes of itself, in order, so that it can be told again."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from trimtab.history import Event
from trimtab.records import Trial, Verdict
from trimtab.session.keeper import Keeper

__all__ = ["Journal", "Nowhere"]


class Journal:
    """The study of one session in a keeper; what it is given is durable once `Keeper.flush` says so."""

    def __init__(self, keeper: Keeper, study_id: int, clock: Callable[[], float]) -> None:
        self._keeper, self._study_id, self._clock = keeper, study_id, clock

    def event(self, kind: str, text: str) -> None:
        """Something that happened."""
        self._keeper.add(self._study_id, Event(kind, text, self._clock()))

    def told(self, trial: Trial, run: str = "") -> None:
        """A trial that was told, and the report of its last run as the text of an event, where layers may have changed it; all of
        it by one commit."""
        now = self._clock()
        runs = [Event("run", run, now)] if run else []
        self._keeper.add(self._study_id, *runs, trial, Event("told", str(trial.number), now))

    def end(self, status: str, verdict: Verdict) -> None:
        """How it ended."""
        self._keeper.add(self._study_id, (status, verdict))

    @staticmethod
    def dumps(values: dict[str, Any]) -> str:
        """As the text of an event."""
        return json.dumps(values)

    @staticmethod
    def loads(text: str) -> Any:
        """What `dumps` was given."""
        return json.loads(text)


class Nowhere(Journal):
    """Keeps nothing: for a session that is only tried."""

    def __init__(self) -> None:
        pass

    def event(self, kind: str, text: str) -> None:
        """Forgets it."""

    def told(self, trial: Trial, run: str = "") -> None:
        """Forgets it."""

    def end(self, status: str, verdict: Verdict) -> None:
        """Forgets it."""
