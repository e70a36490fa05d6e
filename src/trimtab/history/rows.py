"""Between records and the rows of the tables, as they are in this version of the schema."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from trimtab.errors import HistoryError
from trimtab.history import codec
from trimtab.history.record import LATEST_S, STUDY_STATUSES, Event, StudyRecord, TrialSummary
from trimtab.history.typed import read_verdict, verdict_to_json
from trimtab.records import Role, Status, Trial
from trimtab.space import Config

if TYPE_CHECKING:
    from sqlalchemy import Row

__all__ = [
    "UNREADABLE",
    "damage_of_columns",
    "event_values",
    "is_damage",
    "known_columns",
    "read_event_row",
    "read_study_row",
    "read_trial_row",
    "read_trial_summary",
    "study_values",
    "target_kinds",
    "trial_values",
]

UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, RecursionError, zlib.error)
"""What reading a damaged row may raise."""

_LARGEST_DETAIL = 64 << 20
"""Of a trial's detail once it is inflated; kilobytes are usual."""

_SHORT_DETAIL = 2048
"""Bytes of a detail that is packed as a short one: what clients of sessions report is."""

_KINDS: Mapping[str, Any] = {"id": int, "created_at": float | int, "cores": int, "memory_bytes": int}
"""Columns of a study that are no text."""

_COMPACT = ("measurement", "counters_before", "counters_after")
"""Fields of a trial that are long and never searched: they go compressed into one column."""


def is_damage(error: HistoryError) -> bool:
    """Whether it will be the same the next time: a row is damaged; False where the database cannot be used at the moment."""
    return isinstance(error.__cause__, UNREADABLE)


def study_values(record: StudyRecord) -> dict[str, Any]:
    """The row of a study, without its id."""
    body = codec.study_to_json(record)
    return {
        "name": record.name,
        "status": record.status,
        "created_at": record.created_at,
        "verdict": codec.dumps(verdict_to_json(record.verdict)),
        "body": codec.dumps(body),
        "target": _shown(target_kinds(record.settings)),
        "server_version": _shown(record.machine.server_version),
        "workload": _shown(record.context.workload),
        "objective": _shown(record.objective),
        "cores": record.machine.cores,
        "memory_bytes": record.machine.memory_bytes,
        "origin": record.origin,
    }


def target_kinds(settings: Mapping[str, Any]) -> str:
    """Kinds of the targets in a study's settings, joined by "+"; "" when there are none."""
    targets = settings.get("target")
    tables = targets.values() if isinstance(targets, Mapping) else ()
    return "+".join(str(entry.get("kind", "")) for entry in tables if isinstance(entry, Mapping))


def _shown(value: str) -> str:
    """What a text column can hold of it: no NUL, no lone surrogates. The whole is in the body."""
    return value.replace("\0", " ").encode(errors="replace").decode()


def _mistyped(row: Row[Any]) -> list[str]:
    """Columns of a study whose values are of another kind, as only damage makes them: SQLite keeps whatever it is given."""
    return [name for name, value in row._asdict().items() if not isinstance(value, _KINDS.get(name, str))]


def known_columns(row: Row[Any]) -> dict[str, Any]:
    """Short columns of a study, by name; what is damaged counts as not known, so that the other studies can still be listed."""
    found = {**row._asdict(), **{name: 0 if name in _KINDS else "?" for name in _mistyped(row)}}
    return found if _is_time(found["created_at"]) else {**found, "created_at": 0.0}


def damage_of_columns(row: Row[Any]) -> str:
    """What is wrong with the columns of a study that can be read; "" for nothing."""
    if row.status not in STUDY_STATUSES:
        return f"status={row.status[:60]!r} is unknown"
    return "" if _is_time(row.created_at) else f"created_at={row.created_at} is not a time"


def _is_time(at: float) -> bool:
    return 0 <= at < LATEST_S


def read_study_row(row: Row[Any]) -> StudyRecord:
    """What `study_values` was given.

    Raises:
        ValueError, or another of UNREADABLE: it is damaged.
    """
    wrong = _mistyped(row)
    if wrong:
        raise ValueError(f"column {wrong[0]} of study id={row.id} holds a value of another kind")
    values = codec.loads(row.body)
    stored = {
        "id": row.id,
        "name": row.name,
        "created_at": row.created_at,
        "status": row.status,
        "verdict": read_verdict(codec.loads(row.verdict), f"verdict of study id={row.id}"),
        "origin": row.origin,
    }
    return codec.read_study({**values, **stored})


def trial_values(study_id: int, trial: Trial) -> dict[str, Any]:
    """The row of a trial."""
    body = codec.trial_to_json(trial)
    config = body.pop("config")
    compact = {name: body.pop(name) for name in _COMPACT}
    is_known = trial.loss is not None and math.isfinite(trial.loss)
    return {
        "study_id": study_id,
        "number": trial.number,
        "role": trial.role.value,
        "status": trial.status.value,
        "started_at": trial.started_at if math.isfinite(trial.started_at) else 0.0,
        "loss": float(trial.loss) if is_known and trial.loss is not None else None,
        "config": codec.dumps(config),
        "body": codec.dumps(body),
        "detail": _deflated(codec.dumps(compact).encode()) if any(compact.values()) else b"",
        "histogram": b"" if trial.measurement is None else trial.measurement.histogram,
    }


def read_trial_row(row: Row[Any]) -> Trial:
    """What `trial_values` was given; `Measurement.log` is None."""
    compact = codec.loads(_inflate(row.detail).decode()) if row.detail else {}
    values = {"measurement": None, **codec.loads(row.body), "config": codec.loads(row.config), **compact}
    return codec.read_trial(values, bytes(row.histogram))


def _deflated(data: bytes) -> bytes:
    """A short one with small tables: to make those for a long one takes ten times as long as the rest."""
    if len(data) > _SHORT_DETAIL:
        return zlib.compress(data)
    stream = zlib.compressobj(wbits=_SHORT_DETAIL.bit_length() - 1, memLevel=4)
    return stream.compress(data) + stream.flush()


def _inflate(data: bytes) -> bytes:
    stream = zlib.decompressobj()
    found = stream.decompress(data, _LARGEST_DETAIL)
    if not stream.eof:
        raise ValueError(f"a trial's detail is cut, or holds more than {_LARGEST_DETAIL} bytes")
    return found


def read_trial_summary(row: Row[Any]) -> TrialSummary:
    """What needs no more than the short columns of a trial."""
    config = Config(codec.loads(row.config))
    return TrialSummary(number=row.number, role=Role(row.role), status=Status(row.status), config=config, loss=row.loss)


def event_values(study_id: int, event: Event) -> dict[str, Any]:
    """The row of an event."""
    return {"study_id": study_id, "at": event.at, "body": codec.dumps({"kind": event.kind, "text": event.text})}


def read_event_row(row: Row[Any]) -> Event:
    """What `event_values` was given."""
    return Event(at=row.at, **codec.loads(row.body))
