"""The report as JSON values, for scripts: strict JSON, where what is not a finite number is null."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trimtab.jsonable import strict
from trimtab.records import Trial
from trimtab.report.explain import explain
from trimtab.report.ranking import rank_to_json
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
    summary = {name: value for name, value in strict(summarise(study, trials)).items() if name != "rows"}
    return {
        "schema_version": SCHEMA_VERSION,
        "study": strict(study),
        "summary": summary,
        "importance": _importance(study, trials),
        "trials": [strict(trial) for trial in trials],
    }


def _importance(study: StudyRecord, trials: Sequence[Trial]) -> dict[str, Any]:
    explanation = explain(study, trials)
    ranks = None if explanation.consensus is None else strict(rank_to_json(study, explanation.consensus))
    return {"text": explanation.text, "ranks": ranks}
