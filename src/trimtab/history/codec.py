"""Between the frozen values of the records room and JSON text: exact both ways.

The text is Python's JSON: floats are written so that reading gives the same float, non-finite ones as the literals
NaN, Infinity and -Infinity, and every character outside ASCII is escaped. So any string that Python can hold is kept,
whatever the encoding of the database.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from trimtab.errors import HistoryError
from trimtab.history.record import StudyRecord
from trimtab.measure import Interval, LabelStats, Measurement
from trimtab.records import Context, Fault, Machine, Role, Status, Trial
from trimtab.space import Config

__all__ = ["dumps", "loads", "read_study", "read_trial", "study_to_json", "trial_to_json"]


# Looked up once: a server of sessions writes hundreds of trials a second.
_TRIAL = tuple(field.name for field in fields(Trial))
_CONTEXT = tuple(field.name for field in fields(Context))
_MEASUREMENT = tuple(field.name for field in fields(Measurement) if field.name not in ("histogram", "log"))
_INTERVAL = tuple(field.name for field in fields(Interval))


def dumps(value: object) -> str:
    """`value` as one line of JSON text; mappings of every kind, numpy numbers and frozen sequences are taken too.

    Raises:
        HistoryError: something in `value` is not JSON (a date, a set, an object).
    """
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise HistoryError(f"cannot store a value in the history: {error}", hint="give JSON values only") from error


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"type={type(value).__name__} is not JSON")


_ENCODER = json.JSONEncoder(default=_plain, separators=(",", ":"))


def loads(text: str) -> Any:
    """The value that `dumps` wrote.

    Raises:
        ValueError: `text` is no JSON.
    """
    return json.loads(text)


def study_to_json(record: StudyRecord) -> dict[str, Any]:
    """What stays of a study once it has begun: all fields but id, name, created_at, status, verdict and origin."""
    return {
        "settings": record.settings,
        "space": record.space,
        "objective": record.objective,
        "baseline": record.baseline,
        "machine": asdict(record.machine),
        "context": _fields_of(record.context, _CONTEXT),
        "fingerprint": record.fingerprint,
    }


def read_study(values: Mapping[str, Any]) -> StudyRecord:
    """A study from what `study_to_json` gave and the fields that it leaves out."""
    return StudyRecord(
        **{
            **values,
            "baseline": Config(values["baseline"]),
            "machine": Machine(**values["machine"]),
            "context": Context(**values["context"]),
        }
    )


def _fields_of(record: object, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


def trial_to_json(trial: Trial) -> dict[str, Any]:
    """All fields of a trial by name; the measurement without its histogram (bytes) and its raw log."""
    values = _fields_of(trial, _TRIAL)
    values["context"] = _fields_of(trial.context, _CONTEXT)
    values["measurement"] = None if trial.measurement is None else _measurement_to_json(trial.measurement)
    return values


def _measurement_to_json(measurement: Measurement) -> dict[str, Any]:
    values = _fields_of(measurement, _MEASUREMENT)
    values["throughput"] = _fields_of(measurement.throughput, _INTERVAL)
    values["latency_mean_ms"] = _fields_of(measurement.latency_mean_ms, _INTERVAL)
    values["latency_ms"] = {name: _fields_of(interval, _INTERVAL) for name, interval in measurement.latency_ms.items()}
    values["figure"] = None if measurement.figure is None else _fields_of(measurement.figure, _INTERVAL)
    values["by_label"] = {label: asdict(stats) for label, stats in measurement.by_label.items()}
    return values


def read_trial(values: Mapping[str, Any], histogram: bytes) -> Trial:
    """What `trial_to_json` was given, with its histogram; `Measurement.log` is None."""
    measurement = values["measurement"]
    return Trial(
        **{
            **values,
            "role": Role(values["role"]),
            "status": Status(values["status"]),
            "fault": Fault(values.get("fault", "")),
            "config": Config(values["config"]),
            "context": Context(**values["context"]),
            "measurement": None if measurement is None else _read_measurement(measurement, histogram),
        }
    )


def _read_measurement(values: Mapping[str, Any], histogram: bytes) -> Measurement:
    # Fields that an older version did not know take their defaults.
    return Measurement(
        **{
            **values,
            "window_s": tuple(values["window_s"]),
            "throughput": Interval(**values["throughput"]),
            "latency_mean_ms": Interval(**values["latency_mean_ms"]),
            "latency_ms": {name: Interval(**interval) for name, interval in values["latency_ms"].items()},
            "series_per_s": tuple(values["series_per_s"]),
            "figure": Interval(**values["figure"]) if values.get("figure") else None,
            "by_label": {label: _read_label(stats) for label, stats in values["by_label"].items()},
            "errors": tuple(values["errors"]),
            "generators": tuple(values.get("generators", ())),
            "histogram": histogram,
        }
    )


def _read_label(values: Mapping[str, Any]) -> LabelStats:
    throughput = values.get("throughput")
    return LabelStats(
        **{
            **values,
            "throughput": None if throughput is None else Interval(**throughput),
            "latency_ms": {name: Interval(**interval) for name, interval in values.get("latency_ms", {}).items()},
        }
    )
