"""PostgreSQL's logs of other forms, csvlog and jsonlog, as the lines of its plain log: catalogues know the words of that one, and
`trimtab.redact` the places where it shows statements.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["plain_lines"]

_RECORD = re.compile(r"^(?=\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} [^,\n]+,)", re.MULTILINE)
"""How each begins. It may go over several lines, and what was cut off may begin within a quoted text."""

_COLUMNS = {
    "timestamp": 0, "pid": 3, "error_severity": 11, "state_code": 12, "message": 13, "detail": 14, "hint": 15, "statement": 19,
}  # fmt: skip
"""jsonlog's names, and where csvlog has the same: the manual's "Using CSV-Format Log Output"."""

_MORE = (("DETAIL", "detail"), ("HINT", "hint"), ("STATEMENT", "statement"))
_NO_ERROR = "00000"
_RESOURCES = "53"
"""The class of codes, by how they begin: "Insufficient Resources"."""


def plain_lines(suffix: str, text: str, head: str = "") -> str:
    """The lines that a log with `%m [%p] %e ` before its words would have; `text` itself where the log is another.

    Args:
        suffix: of the file's name, to which the server adds ".csv" or ".json".
        text: a stretch of the file, of whole lines. Records that are not whole in it are left out.
        head: how the file begins: a stretch of csvlog may lie within one long statement.
    """
    read = {".csv": _of_csv, ".json": _of_json}.get(suffix)
    lines = [line for record in read(text) for line in _lines(record)] if read is not None else []
    if not lines:
        return "" if suffix == ".csv" and _RECORD.match(head) else text
    return "\n".join(lines) + "\n"


def _of_csv(text: str) -> Iterator[Mapping[str, Any]]:
    for record in _RECORD.split(text)[1:]:
        row = next(csv.reader(record.splitlines(keepends=True)))
        if len(row) > max(_COLUMNS.values()):
            yield {name: row[at] for name, at in _COLUMNS.items()}


def _of_json(text: str) -> Iterator[Mapping[str, Any]]:
    for line in text.split("\n"):  # other ends of lines may stand in a text
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and {"timestamp", "pid", "error_severity"} <= record.keys():
            yield record


def _lines(record: Mapping[str, Any]) -> Iterator[str]:
    """Each goes on in lines that begin with a tab."""
    head, severity = f"{record['timestamp']} [{record['pid']}] ", record["error_severity"]
    if _tells_code(record):
        severity = f"{record['state_code']} {severity}"
    for label, name in ((severity, "message"), *_MORE):
        if record.get(name):
            yield f"{head}{label}:  " + str(record[name]).replace("\n", "\n\t")


def _tells_code(record: Mapping[str, Any]) -> bool:
    """Whether it is to be shown: that of a statement's error, in whatever language, tells of values and names, unless a resource
    is used up."""
    code = record.get("state_code") or _NO_ERROR
    is_of_statement = record["error_severity"] == "ERROR" or record.get("statement")
    return code != _NO_ERROR and (not is_of_statement or code.startswith(_RESOURCES))
