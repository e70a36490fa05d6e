"""StudyRecord and Event: what the history keeps beside the trials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trimtab.records import Context, Machine
from trimtab.space import Config

__all__ = ["STUDY_STATUSES", "Event", "StudyRecord"]

STUDY_STATUSES = ("running", "proven", "no_improvement", "interrupted", "stopped")
"""What a study can be: at work, with a proven winner, without one, cut off (resumable), ended by hand."""


@dataclass(frozen=True, slots=True)
class StudyRecord:
    """One study as the history keeps it.

    Attributes:
        id: unique within the history.
        name: as in the study file; several studies may have the same name, the newest counts.
        settings: the study file as parsed, JSON values only, without secrets.
        space: knobs and constraints as `space_to_json` gives them.
        objective: text that `Objective.parse` reads.
        baseline: the config that the target had when we came.
        machine, context: where and under what it ran.
        created_at: seconds since the epoch.
        status: one of `STUDY_STATUSES`.
        verdict: what the study found (docs/reference/history.md lists the keys); empty while nothing is known.
        fingerprint: hash of everything that must agree for a resume.
    """

    id: int
    name: str
    settings: Mapping[str, Any]
    space: Mapping[str, Any]
    objective: str
    baseline: Config
    machine: Machine
    context: Context
    created_at: float
    status: str
    verdict: Mapping[str, Any]
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Event:
    """Something worth remembering that is not a trial: a warning, a retry, a resume.

    Attributes:
        kind: short word ("warning", "resume", ...).
        text: one line for people.
        at: seconds since the epoch.
    """

    kind: str
    text: str
    at: float
