"""What the history keeps of a study file: no password, and of the user's statements and their values digests only, unless
[study] keep_query_text = true asks for the texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trimtab.redact import digest, redact_settings
from trimtab.study.file import StudyFile
from trimtab.workload import ScriptedWorkload, Workload

__all__ = ["kept_settings"]


def kept_settings(file: StudyFile, workload: Workload) -> dict[str, Any]:
    """The file's tables for the history. A resume needs none of them: it compares fingerprints and reads the file again.

    `workload["statements"]` holds label -> digest, or text, of each script.
    """
    settings = redact_settings(file.model_dump(mode="json"))
    if settings["stack"] is None:
        settings.pop("stack")
    texts = workload.texts if isinstance(workload, ScriptedWorkload) else {}
    if file.study.keep_query_text:
        statements = dict(texts)
    else:
        statements = {label: digest(text) for label, text in texts.items()}
        settings["workload"] = _without_values(settings["workload"])
    if statements:
        settings["workload"] = {**settings["workload"], "statements": statements}
    return settings


def _without_values(workload: Mapping[str, Any]) -> dict[str, Any]:
    """The values that fill placeholders are data of the user's too; names of tables and columns are not. Each context of a cycle
    may have its own."""
    kept = dict(workload)
    cycle = kept.get("cycle")
    if isinstance(cycle, Mapping) and isinstance(cycle.get("contexts"), list):
        contexts = [_without_values(row) if isinstance(row, Mapping) else row for row in cycle["contexts"]]
        kept["cycle"] = {**cycle, "contexts": contexts}
    for key in ("parameters", "variables"):
        if isinstance(kept.get(key), Mapping):
            kept[key] = {name: _generator(value) for name, value in kept[key].items()}
    return kept


def _generator(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return digest(str(value))
    return {
        key: item if key in ("type", "table", "column", "distribution") or not _is_literal(item) else _digested(item)
        for key, item in value.items()
    }


def _is_literal(item: Any) -> bool:
    return isinstance(item, str | list)


def _digested(item: Any) -> Any:
    return [_digested(each) for each in item] if isinstance(item, list) else digest(str(item))
