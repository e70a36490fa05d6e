"""What the history keeps beside the trials, and what it gives when it is asked for many studies at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trimtab.records import Context, Machine, Role, Status, Trial, Verdict
from trimtab.space import Config

__all__ = ["BENCHED", "LATEST_S", "STUDY_STATUSES", "Event", "StudyCopy", "StudyRecord", "StudySummary", "TrialSummary"]

BENCHED = "benched"
"""Status of a measurement of one config (`trimtab bench`), from its beginning on: never resumed, and no prior for a study."""

STUDY_STATUSES = ("running", "proven", "no_improvement", "interrupted", "stopped", "ranked", BENCHED)
"""What a study can be: at work, with a proven winner, without one, cut off (resumable), ended by hand, a design that is whole,
a measurement of one config."""

LATEST_S = 253_402_300_800.0
"""The year 10000, in seconds since the epoch: what is later cannot be shown as a date."""


@dataclass(frozen=True, slots=True)
class StudyRecord:
    """One study as the history keeps it.

    Attributes:
        id: unique within the history.
        name: as in the study file; several studies may have the same name, the newest counts.
        settings: the study file as parsed, JSON values only, without secrets.
        space: knobs and constraints as `space_to_json` gives them; `read_space` makes a Space of it.
        objective: text that `Objective.parse` reads.
        baseline: the config that the target had when we came.
        machine, context: where and under what it ran.
        created_at: seconds since the epoch.
        status: one of `STUDY_STATUSES`.
        verdict: what the study found ; `Verdict()` while nothing is known.
        fingerprint: hash of everything that must agree for a resume.
        origin: "" for a study of this history, else what it was imported from; such a one is never resumed.
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
    verdict: Verdict
    fingerprint: str
    origin: str = ""


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


@dataclass(frozen=True, slots=True)
class StudyCopy:
    """Everything that a history keeps of one study: what formats write and read. `record.id` means nothing here."""

    record: StudyRecord
    trials: Sequence[Trial]
    events: Sequence[Event] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySummary:
    """What can be said of a study without reading its trials; fields as in `StudyRecord`.

    Attributes:
        target: kinds of its targets, "postgresql"; several are joined by "+"; "" when not known.
        n_trials: trials that it has.
        cores, memory_bytes: of its machine; 0 when not known.
    """

    id: int
    name: str
    status: str
    n_trials: int
    created_at: float
    objective: str
    target: str
    server_version: str
    workload: str
    cores: int
    memory_bytes: int
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSummary:
    """What prior data needs of a trial: found quickly, for the measurement is not read. `loss` is None unless finite."""

    number: int
    role: Role
    status: Status
    config: Config
    loss: float | None
