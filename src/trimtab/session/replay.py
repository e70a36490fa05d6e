"""Replay: tells a session again, after a restart of the server, which points went out and what came back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trimtab.errors import UsageError
from trimtab.records import Objective, Trial
from trimtab.session.course import Course
from trimtab.session.open import Open, result_again
from trimtab.session.passage import Passage
from trimtab.session.point import Report, result_of

__all__ = ["Replay"]


class Replay:
    """One event of a journal after the other, in order. What it says twice counts once.

    Args:
        course, passage: of the session.
        opens: its open points, by number; as they are after each event.
        objective: of its study.
    """

    def __init__(self, course: Course, passage: Passage, opens: dict[int, Open], objective: Objective) -> None:
        self._course, self._passage, self._opens, self._objective = course, passage, opens, objective
        self._newest = -1

    def asked(self, number: int) -> None:
        """The study asked for that trial.

        Raises:
            UsageError: it asks for another one now.
        """
        if number <= self._newest:
            return
        ask = self._course.next()
        if ask is None or ask.number != number:
            raise UsageError("its study asks otherwise now (another version of Trimtab?)")
        self._newest = number
        self._opens[number] = Open(ask)
        self._passage.out(self._opens[number], is_replayed=True)

    def run(self, said: Mapping[str, Any]) -> None:
        """A client reported a run."""
        reported = self._opens[said["number"]]
        result = result_of(Report.model_validate(said["report"]), self._objective, said["cost_s"])
        outcome = self._passage.back(reported, result, said.get("client", ""), is_replayed=True)
        reported.is_out, reported.is_back = True, outcome is not None
        if outcome is None:
            reported.run = said["run"] + 1

    def told(self, number: int, trials: Mapping[int, Trial]) -> None:
        """The study was told that trial, one of `trials`."""
        if number not in self._opens and number <= self._newest:
            return
        trial = trials[number]
        told = self._opens.pop(number)
        if told.answer is not None:
            self._passage.answered(told, told.answer, is_replayed=True)
        elif not told.is_back:
            # There were no layers, or an earlier version kept no last run: what it came to is all there is.
            self._passage.back(told, result_again(trial), "", is_replayed=True)
        self._course.tell(trial)
