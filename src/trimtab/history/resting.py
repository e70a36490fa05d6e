"""Reading a SQLite history that lies where nothing may be written: SQLite keeps two files beside a database that is in use, and a
read-only folder takes none."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from trimtab.history.schema import beside, make_engine, sqlite_engine

__all__ = ["connect_to_read", "make_reader"]

_LOOK = "select 1 from sqlite_master limit 1"
_UNOPENED = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)


def make_reader(url_or_path: str | Path) -> Engine:
    """As `make_engine` of a history that is there, for those who only read it.

    Raises:
        HistoryError: as `make_engine`.
    """
    engine = make_engine(url_or_path, is_there=True)
    if engine.dialect.name != "sqlite":
        return engine
    path = Path(engine.url.database or "")
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql(_LOOK).all()
    except (DBAPIError, sqlite3.Error) as error:
        if _is_readable_at_rest(path, error.orig if isinstance(error, DBAPIError) else error):
            engine.dispose()
            return sqlite_engine(engine.url, lambda: _at_rest(path))
    return engine  # whoever uses it is told what else is wrong with it


def connect_to_read(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing.

    Raises:
        sqlite3.Error: the file cannot be read.
    """
    connection = sqlite3.connect(_uri(path), uri=True)
    try:
        connection.execute(_LOOK).fetchall()
    except sqlite3.Error as error:
        connection.close()
        if not _is_readable_at_rest(path, error):
            raise
        return _at_rest(path)
    return connection


def _at_rest(path: Path) -> sqlite3.Connection:
    """Without locks, which need files of their own: nobody writes what nobody may write to."""
    uri = f"{_uri(path)}&immutable=1"
    return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)


def _uri(path: Path) -> str:
    return f"{path.resolve().as_uri()}?mode=ro"


def _is_readable_at_rest(path: Path, why: object) -> bool:
    """Whether the file itself holds all of it: what was written last may still stand in the log beside it."""
    code = getattr(why, "sqlite_errorcode", 0) & 0xFF
    log = beside(path, "-wal")
    return code in _UNOPENED and not (log.exists() and log.stat().st_size)
