"""Guesses what a placeholder of a normalised statement stands for: which column, a LIMIT, or nothing that can be known."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg

from trimtab.workload.connection import Connection
from trimtab.workload.sql.generators import UNKNOWN

__all__ = ["Catalogue", "guess", "names_their_table"]

_NAME = r'(?:"[^"]+"|\w+)'
_PATH = rf"{_NAME}(?:\.{_NAME}){{0,2}}"
_NOT_AN_ALIAS = (
    "SET|WHERE|ON|JOIN|LEFT|RIGHT|INNER|FULL|CROSS|NATURAL|ORDER|GROUP|LIMIT|VALUES|SELECT|USING|FOR|OFFSET|HAVING|UNION"
    "|RETURNING|DEFAULT"
)
_TABLES = re.compile(
    rf"\b(?:FROM|JOIN|UPDATE|INTO|USING)\s+(?:ONLY\s+)?(?P<table>{_PATH})"
    rf"(?:\s+(?:AS\s+)?(?P<alias>(?!(?:{_NOT_AN_ALIAS})\b){_NAME}))?",
    re.IGNORECASE,
)
_INSERT = re.compile(
    rf"\bINSERT\s+INTO\s+{_PATH}\s*\((?P<columns>[^)]*)\)\s*VALUES\s*(?P<rows>.*)", re.IGNORECASE | re.DOTALL
)
_COMPARED = (
    r"(?P<column>{path})\s*(?:=|<>|!=|<=|>=|<|>|(?:NOT\s+)?BETWEEN\b(?:\s*\$\d+\s*AND\b)?"
    r"|(?:NOT\s+)?IN\s*\([^()]*?)\s*\${n}(?!\d)"
)
_REVERSED = r"\${n}(?!\d)\s*(?:=|<>|!=|<=|>=|<|>)\s*(?P<column>{path})"
_SYSTEM = re.compile(r'^"?(?:pg_|information_schema\b)|\."?pg_\w+"?$', re.IGNORECASE)
_PAGE = r"\b(?:(?P<offset>OFFSET)|LIMIT|FETCH\s+(?:FIRST|NEXT))\s+\${n}(?!\d)"


@dataclass(frozen=True, slots=True)
class _Column:
    table: str
    name: str
    is_integer: bool
    is_unique: bool


class Catalogue:
    """The columns of a database, asked for once a table."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._tables: dict[str, dict[str, _Column]] = {}

    def columns(self, table: str) -> Mapping[str, _Column]:
        """The columns of `table` (as written in a statement) by name; none when there is no such table."""
        if table not in self._tables:
            self._tables[table] = self._read(table)
        return self._tables[table]

    def _read(self, table: str) -> dict[str, _Column]:
        try:
            rows = self._connection.execute(
                "SELECT a.attname, t.typcategory = 'N' AND t.typname LIKE 'int%%', c.oid::regclass::text,"
                " EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND i.indnatts = 1"
                " AND i.indkey[0] = a.attnum)"
                " FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid JOIN pg_type t ON t.oid = a.atttypid"
                " WHERE c.oid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped",
                (table,),
            )
            return {str(r[0]): _Column(str(r[2]), str(r[0]), bool(r[1]), bool(r[3])) for r in rows}
        except psycopg.Error:
            # No name of a table: a word of a comment, as "from 10.0.0.1".
            return {}

    def next_of(self, column: _Column) -> int | None:
        """One more than the largest value of an integer column; None where this role, which may only watch, cannot read it."""
        name = column.name.replace('"', '""')
        try:
            row = self._connection.execute(f'SELECT coalesce(max("{name}"), 0) + 1 FROM {column.table}').fetchone()
        except psycopg.Error:
            return None
        return int(str(row[0])) if row else 1


def guess(text: str, number: int, catalogue: Catalogue) -> tuple[str, dict[str, Any]]:
    """A name for placeholder `$number` of `text`, and a generator for it: {"type": "?"} when nothing is known."""
    page = re.search(_PAGE.format(n=number), text, re.IGNORECASE)
    if page is not None:
        name, value = ("offset", 0) if page["offset"] else ("limit", 10)
        return name, {"type": "int", "low": value, "high": value}
    inserted = _inserted(text, number)
    written = inserted or _compared(text, number)
    if written is None:
        return f"p{number}", {"type": UNKNOWN}
    column = _resolve(written, text, catalogue)
    # Of letters that need no quotes as a key of a study file.
    name = re.sub(r"\W", "_", written.rpartition(".")[2].strip('"'), flags=re.ASCII)
    if column is None:
        return name, {"type": UNKNOWN}
    if inserted and column.is_unique:
        # A sampled key would be there already.
        start = catalogue.next_of(column) if column.is_integer else None
        return name, {"type": UNKNOWN} if start is None else {"type": "serial", "start": start}
    return name, {"type": "column", "table": column.table, "column": column.name}


def names_their_table(text: str, catalogue: Catalogue) -> bool:
    """Whether a table stands in `text` that is none of the server's own."""
    tables = {match["table"] for match in _TABLES.finditer(text)}
    return any(not _SYSTEM.search(table) and catalogue.columns(table) for table in sorted(tables))


def _compared(text: str, number: int) -> str | None:
    for pattern in (_COMPARED, _REVERSED):
        match = re.search(pattern.replace("{path}", _PATH).replace("{n}", str(number)), text, re.IGNORECASE)
        if match is not None:
            return match["column"]
    return None


def _inserted(text: str, number: int) -> str | None:
    """The column that an INSERT ... VALUES puts the placeholder into."""
    match = _INSERT.search(text)
    if match is None:
        return None
    columns = [column.strip() for column in match["columns"].split(",")]
    for row in re.findall(r"\(([^()]*)\)", match["rows"]):
        values = [value.strip() for value in row.split(",")]
        if f"${number}" in values and len(values) == len(columns):
            return columns[values.index(f"${number}")]
    return None


def _resolve(written: str, text: str, catalogue: Catalogue) -> _Column | None:
    """The one column that `written` can mean among the statement's tables."""
    qualifier, _, name = written.rpartition(".")
    name = name.strip('"') if name.startswith('"') else name.lower()
    found = {}
    for match in _TABLES.finditer(text):
        table, alias = match["table"], match["alias"]
        if qualifier and qualifier.lower() not in {
            (alias or "").lower(),
            table.lower(),
            table.lower().rpartition(".")[2],
        }:
            continue
        column = catalogue.columns(table).get(name)
        if column is not None:
            found[column.table] = column
    return next(iter(found.values())) if len(found) == 1 else None
