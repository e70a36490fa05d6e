"""Where a database has pg_stat_statements: in the schema that an administrator chose, to which no search_path need lead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["schema_of_statistics"]

_SCHEMA = (
    "SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace"
    " WHERE extname = 'pg_stat_statements'"
)


def schema_of_statistics(execute: Callable[[str], Sequence[tuple[Any, ...]]]) -> str:
    """What stands before the names of the extension, with a dot; "" where the database has no such extension.

    Args:
        execute: gives the rows of a statement.
    """
    rows = execute(_SCHEMA)
    return f"{rows[0][0]}." if rows else ""
