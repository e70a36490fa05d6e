"""Journal: what a session writes of itself, in order, so that it can be told again."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from trimtab.history import Event
from trimtab.records import Trial, Verdict
from trimtab.session.keeper import Keeper

__all__ = ["Journal"]


class Journal:
    """The study of one session in a keeper; what it is given is durable once `Keeper.flush` says so."""

    def __init__(self, keeper: Keeper, study_id: int, clock: Callable[[], float]) -> None:
        self._keeper, self._study_id, self._clock = keeper, study_id, clock

    def event(self, kind: str, text: str) -> None:
        """Something that happened."""
        self._keeper.add(self._study_id, Event(kind, text, self._clock()))

    def trial(self, trial: Trial) -> None:
        """A trial that was told."""
        self._keeper.add(self._study_id, trial)

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
