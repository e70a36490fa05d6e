"""What a PostgreSQL server counts of its own work: the sums of its statistics views, whatever the version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import psycopg

from trimtab.errors import TargetError
from trimtab.systems.postgresql.session import Connection

__all__ = ["read_counters"]

_VIEWS: Mapping[str, str] = {
    "database": "pg_stat_database",
    "bgwriter": "pg_stat_bgwriter",
    "checkpointer": "pg_stat_checkpointer",  # 17 and later; before, its counts stand in pg_stat_bgwriter
    "wal": "pg_stat_wal",  # 14 and later
    "io": "pg_stat_io",  # 16 and later
}
_NO_COUNTS = frozenset({"datid", "numbackends", "op_bytes"})
"""Numbers that do not count up."""


def read_counters(connect: Callable[[], Connection]) -> dict[str, float]:
    """Counts since the statistics were last reset, by "view.column", over all databases; of pg_stat_io by object as well:
    "database.blks_read", "wal.wal_bytes", "io.relation.reads". Blocks count 8 kB, times milliseconds.

    Views that this version does not have, and columns that this user may not see, are left out.

    Raises:
        TargetError: the server cannot be reached.
    """
    try:
        with connect() as connection:
            return _counts(connection)
    except psycopg.Error as error:
        raise TargetError(f"the server's counters cannot be read: {' '.join(str(error).split())}") from error


def _counts(connection: Connection) -> dict[str, float]:
    found: dict[str, float] = {}
    for short, view in _VIEWS.items():
        known = connection.execute("SELECT to_regclass(%s)", (f"pg_catalog.{view}",)).fetchone()
        if known is None or known[0] is None:
            continue
        for (row,) in connection.execute(f"SELECT to_jsonb(s) FROM pg_catalog.{view} s".encode()):
            prefix = f"{short}.{row['object'].replace(' ', '_')}" if short == "io" else short
            _add(found, prefix, row)
    return found


def _add(found: dict[str, float], prefix: str, row: Mapping[str, Any]) -> None:
    for column, value in row.items():
        if column not in _NO_COUNTS and isinstance(value, int | float) and not isinstance(value, bool):
            name = f"{prefix}.{column}"
            found[name] = found.get(name, 0.0) + value
