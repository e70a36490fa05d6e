"""StudyQuery: which studies of a history are meant, answered from the short columns alone."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from sqlalchemy import ColumnElement, Connection, func, select

from trimtab.history.likeness import ALIKE, machine_likeness
from trimtab.history.record import StudySummary
from trimtab.history.rows import known_columns
from trimtab.history.schema import study_table, trial_table
from trimtab.records import Machine

__all__ = ["StudyQuery", "run_query"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyQuery:
    """What a study must be; None does not matter. Texts are found anywhere in the field, in either case.

    Attributes:
        name: part of its name; `*` and `?` stand for any letters, and then the whole name must fit.
        target: kind of its target, "postgresql".
        version: part of the target's version text, "18.".
        workload: part of the workload's text, "tpch".
        status: one of `STUDY_STATUSES`.
        since, until: when it began, in seconds since the epoch; `until` is exclusive.
        like: its machine has a `machine_likeness` of at least `ALIKE` with this one, judged by cores and memory.
        is_own: whether it was measured for this history (True) or imported (False).
    """

    name: str | None = None
    target: str | None = None
    version: str | None = None
    workload: str | None = None
    status: str | None = None
    since: float | None = None
    until: float | None = None
    like: Machine | None = None
    is_own: bool | None = None


_FIELDS = ("id", "name", "status", "created_at", "objective", "target", "server_version", "workload", "cores",
           "memory_bytes", "origin")  # fmt: skip


def run_query(connection: Connection, query: StudyQuery) -> list[StudySummary]:
    """The studies that fit, oldest first."""
    counted = select(trial_table.c.study_id, func.count().label("n")).group_by(trial_table.c.study_id)
    counts: dict[int, int] = {row.study_id: row.n for row in connection.execute(counted)}
    columns = [study_table.c[name] for name in _FIELDS]
    rows = connection.execute(select(*columns).where(*_conditions(query)).order_by(study_table.c.id))
    found = (StudySummary(n_trials=counts.get(row.id, 0), **known_columns(row)) for row in rows)
    return [study for study in found if _fits(study, query)]


def _conditions(query: StudyQuery) -> list[ColumnElement[bool]]:
    c = study_table.c
    found: list[ColumnElement[bool]] = []
    if query.status is not None:
        found.append(c.status == query.status)
    if query.since is not None:
        found.append(c.created_at >= query.since)
    if query.until is not None:
        found.append(c.created_at < query.until)
    if query.is_own is not None:
        found.append((c.origin == "") if query.is_own else (c.origin != ""))
    return found


def _fits(study: StudySummary, query: StudyQuery) -> bool:
    """What databases do not agree on: letters in either case, and likeness."""
    parts = ((query.target, study.target), (query.version, study.server_version), (query.workload, study.workload))
    if any(part is not None and part.casefold() not in text.casefold() for part, text in parts):
        return False
    if query.name is not None and not _is_named(study.name.casefold(), query.name.casefold()):
        return False
    return query.like is None or _is_alike(study, query.like)


def _is_named(name: str, pattern: str) -> bool:
    if "*" not in pattern and "?" not in pattern:
        return pattern in name
    return fnmatchcase(name, pattern.replace("[", "[[]"))  # a bracket is a letter of the name


def _is_alike(study: StudySummary, machine: Machine) -> bool:
    """By cores and memory; a study that does not tell them is like none."""
    if study.cores <= 0 or study.memory_bytes <= 0:
        return False
    own = Machine(cores=study.cores, memory_bytes=study.memory_bytes)
    asked = Machine(cores=machine.cores, memory_bytes=machine.memory_bytes)
    return machine_likeness(own, asked) >= ALIKE
