"""JSON lines: one record a line ("study", then its "trial"s and "event"s); exact, and strict JSON for any reader."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from trimtab.errors import HistoryError
from trimtab.history import codec
from trimtab.history.formats.base import MAX_LINE_BYTES, Imported, file_of, refuse
from trimtab.history.record import Event, StudyCopy, StudyRecord
from trimtab.history.typed import read_verdict, verdict_to_json
from trimtab.records import Trial

__all__ = [
    "JsonLinesFormat", "event_from_json", "event_to_json", "from_strict", "study_from_json", "study_to_json", "to_strict",
    "trial_from_json", "trial_to_json",
]  # fmt: skip

FORMAT_VERSION = 1
"""Counts up when older readers would misread what is written."""

_NUMBER = "$number"
_TABLE = "$table"


def to_strict(value: Any) -> Any:
    """`value` as strict JSON values: a number that is not finite becomes {"$number": "nan"}; `from_strict` undoes it."""
    if isinstance(value, float) and not math.isfinite(value):
        return {_NUMBER: repr(float(value))}
    if isinstance(value, Mapping):
        plain = {str(key): to_strict(item) for key, item in value.items()}
        return {_TABLE: plain} if _NUMBER in plain or _TABLE in plain else plain
    if isinstance(value, list | tuple):
        return [to_strict(item) for item in value]
    return value


def from_strict(value: Any) -> Any:
    """What `to_strict` was given (sequences as lists).

    Raises:
        ValueError: a "$number" that is none.
    """
    if isinstance(value, dict):
        if set(value) == {_NUMBER}:
            return float(value[_NUMBER])
        if set(value) == {_TABLE}:
            value = value[_TABLE]
        return {key: from_strict(item) for key, item in value.items()}
    if isinstance(value, list):
        return [from_strict(item) for item in value]
    return value


def study_to_json(record: StudyRecord) -> dict[str, Any]:
    """A study as strict JSON values, without its id and origin."""
    own = {"name": record.name, "status": record.status, "created_at": record.created_at}
    verdict = verdict_to_json(record.verdict)
    found: dict[str, Any] = to_strict(
        json.loads(codec.dumps({**own, "verdict": verdict, **codec.study_to_json(record)}))
    )
    return found


def study_from_json(values: Mapping[str, Any]) -> StudyRecord:
    """What `study_to_json` was given. Raises KeyError, TypeError, ValueError or AttributeError for what is no study."""
    found = from_strict(dict(values))
    return codec.read_study({**found, "verdict": read_verdict(found["verdict"]), "id": 0, "origin": ""})


def trial_to_json(trial: Trial) -> dict[str, Any]:
    """A trial as strict JSON values, with its histogram in base 64."""
    histogram = b"" if trial.measurement is None else trial.measurement.histogram
    values = to_strict(json.loads(codec.dumps(codec.trial_to_json(trial))))
    return {**values, "histogram": base64.b64encode(histogram).decode()}


def trial_from_json(values: Mapping[str, Any]) -> Trial:
    """What `trial_to_json` was given. Raises as `study_from_json`, and binascii.Error."""
    found = from_strict(dict(values))
    histogram = base64.b64decode(found.pop("histogram"), validate=True)
    return codec.read_trial(found, histogram)


def event_to_json(event: Event) -> dict[str, Any]:
    """An event as strict JSON values."""
    return {"kind": event.kind, "text": event.text, "at": to_strict(event.at)}


def event_from_json(values: Mapping[str, Any]) -> Event:
    """What `event_to_json` was given. Raises as `study_from_json`."""
    return Event(**from_strict(dict(values)))


class JsonLinesFormat:
    """Everything, exactly: a line that names the format, then `{"study": ...}`, `{"trial": ...}`, `{"event": ...}`."""

    suffixes: Sequence[str] = (".jsonl", ".ndjson")
    is_exact = True
    is_database = False

    def write(self, studies: Iterable[StudyCopy], place: str) -> Sequence[str]:
        """One study after the other, trials in the order of their numbers."""
        with open(place, "w", encoding="ascii", newline="\n") as file:
            file.write(_line({"format": "trimtab history", "version": FORMAT_VERSION}))
            for study in studies:
                file.write(_line({"study": study_to_json(study.record)}))
                file.writelines(_line({"trial": trial_to_json(trial)}) for trial in study.trials)
                file.writelines(_line({"event": event_to_json(event)}) for event in study.events)
        return ()

    def read(self, place: str) -> Imported:
        """Reads lazily, one study at a time."""
        path = file_of(place)
        imported = Imported(())
        imported.studies = self._studies(str(path), imported)
        return imported

    def _studies(self, place: str, imported: Imported) -> Iterator[StudyCopy]:
        record: StudyRecord | None = None
        trials: list[Trial] = []
        events: list[Event] = []
        with open(place, "rb") as file:
            for number, values in _lines(file, place):
                try:
                    kind, content = _entry(values, number)
                    if kind == "study":
                        if record is not None:
                            yield StudyCopy(record, trials, events)
                        record, trials, events = study_from_json(content), [], []
                    elif kind in ("trial", "event") and record is None:
                        raise ValueError(f"a {kind} comes before the first study")
                    elif kind == "trial":
                        trials.append(trial_from_json(content))
                    elif kind == "event":
                        events.append(event_from_json(content))
                    elif kind != "format":
                        imported.note(f"lines of kind {kind[:40]!r} are not known and were left out")
                except (KeyError, TypeError, ValueError, AttributeError, RecursionError, binascii.Error) as error:
                    raise refuse(place, f"line {number}: {_reason(error)}") from error
        if record is not None:
            yield StudyCopy(record, trials, events)


def _line(values: Mapping[str, Any]) -> str:
    """One that `_lines` takes.

    Raises:
        HistoryError: it would be too long.
    """
    line = json.dumps(values, separators=(",", ":"), allow_nan=False) + "\n"
    if len(line) > MAX_LINE_BYTES:
        raise HistoryError(
            f"the line of one {next(iter(values))} would have {len(line)} bytes, and JSON lines are read up to {MAX_LINE_BYTES}",
            hint="export to .parquet or .taudb, which hold it, or copy the whole history with `trimtab history backup`",
        )
    return line


def _lines(file: BinaryIO, place: str) -> Iterator[tuple[int, Any]]:
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            raise refuse(place, f"line {number} is longer than {MAX_LINE_BYTES} bytes")
        if line.isspace():
            continue
        try:
            yield number, json.loads(line.decode(), parse_constant=_no_constant, parse_float=_finite)
        except (ValueError, RecursionError) as error:
            hint = "it was cut off, or is not JSON lines; nothing was imported"
            raise refuse(place, f"line {number}: {_reason(error)}", hint) from error


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:20]} is too large")
    return value


def _entry(values: Any, number: int) -> tuple[str, Any]:
    if not isinstance(values, dict) or not values:
        raise ValueError("it is not a JSON object")
    if "format" in values:
        if values["format"] != "trimtab history" or values.get("version") != FORMAT_VERSION:
            raise HistoryError(
                f"line {number} names format={values['format']!r} version={values.get('version')!r}, "
                f"this Trimtab reads 'trimtab history' version={FORMAT_VERSION}",
                hint="upgrade Trimtab",
            )
        return "format", None
    kind, content = next(iter(values.items()))
    if kind in ("study", "trial", "event") and not isinstance(content, dict):
        raise ValueError(f"{kind} is not a JSON object")
    return kind, content


def _reason(error: BaseException) -> str:
    if isinstance(error, KeyError):
        return f"{error} is missing"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    text = str(error)
    return text if len(text) <= 200 else f"{text[:200]}…"
