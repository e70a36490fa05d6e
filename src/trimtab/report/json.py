"""The report as JSON values, for scripts: strict JSON, where what is not a finite number is null."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from trimtab.records import Trial
from trimtab.report.explain import explain
from trimtab.report.rank_text import rank_to_json
from trimtab.report.summary import summarise

if TYPE_CHECKING:
    from trimtab.history import StudyRecord

__all__ = ["SCHEMA_VERSION", "to_json"]

SCHEMA_VERSION = 1
"""Counts up when a key changes its meaning or goes; new keys may come at any time."""


def to_json(study: StudyRecord, trials: Sequence[Trial]) -> dict[str, Any]:
    """Everything the report says, and everything it was worked out from.

    Keys: `schema_version`, `study` (the record), `summary` (what the text report prints), `importance` (which knobs explain
    it: `text`, and `ranks` as `trimtab rank --json` has them, null when they cannot be told), `trials` (all fields, without
    the histograms' bytes). Strings are as they were stored, control characters included: JSON escapes them.
    """
    record = {field.name: getattr(study, field.name) for field in fields(study)}
    summary = {field.name: value for field, value in _fields(summarise(study, trials)) if field.name != "rows"}
    return {
        "schema_version": SCHEMA_VERSION,
        "study": strict(record),
        "summary": strict(summary),
        "importance": _importance(study, trials),
        "trials": [strict(trial) for trial in trials],
    }


def _importance(study: StudyRecord, trials: Sequence[Trial]) -> dict[str, Any]:
    explanation = explain(study, trials)
    ranks = None if explanation.consensus is None else strict(rank_to_json(study, explanation.consensus))
    return {"text": explanation.text, "ranks": ranks}


def _fields(value: Any) -> list[tuple[Any, Any]]:
    return [(field, getattr(value, field.name)) for field in fields(value)]


def strict(value: Any) -> Any:
    """`value` as strict JSON values: dataclasses and mappings become objects, NaN and the infinities null."""
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: strict(item) for field, item in _fields(value) if field.name not in ("histogram", "log")}
    if isinstance(value, Mapping):
        return {str(key): strict(item) for key, item in value.items()}
    return [strict(item) for item in value]
