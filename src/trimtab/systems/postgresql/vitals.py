"""Where a PostgreSQL server writes, and how far its standbys are behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg

from trimtab.errors import TargetError
from trimtab.systems.postgresql.session import Connection

__all__ = ["folders", "lag_s", "quick"]

_LAG = "SELECT extract(epoch FROM max(replay_lag))::float8, count(*) FROM pg_stat_replication WHERE state = 'streaming'"
_TIMEOUT_MS = 900


def quick(connection: Connection) -> Connection:
    """The same connection, which waits for no answer longer than a look may take."""
    try:
        connection.execute(f"SET statement_timeout = {_TIMEOUT_MS}")
    except psycopg.Error as error:
        raise TargetError(str(error).strip()) from error
    return connection


def lag_s(connection: Connection) -> float | None:
    """Of the slowest streaming standby, in seconds; None while there is none."""
    try:
        found = connection.execute(_LAG).fetchone()
    except psycopg.Error as error:
        raise TargetError(str(error).strip()) from error
    return float(found[0] or 0.0) if found is not None and found[1] else None


def folders(data_dir: Path | None) -> Iterator[Path]:
    """The data directory, and what lies elsewhere through a link: write-ahead log, tablespaces."""
    if data_dir is None:
        return
    yield data_dir
    try:
        links = [data_dir / "pg_wal", *(data_dir / "pg_tblspc").iterdir()]
        yield from (link for link in links if link.is_symlink())
    except OSError:
        return
