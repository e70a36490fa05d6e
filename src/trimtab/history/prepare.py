"""Opening a history: is it sound, is it one at all, of which version; tables are made where there are none."""

from __future__ import annotations

import sqlite3
import time

from sqlalchemy import Connection, Engine, inspect, select, text
from sqlalchemy.engine.interfaces import DBAPICursor

from trimtab.errors import HistoryError
from trimtab.history.schema import LOCK_TIMEOUT_S, SCHEMA_VERSION, meta_table, metadata, no_history

__all__ = ["prepare"]

_PREPARE_LOCK = 0x7472696D746162
"""Key of the PostgreSQL advisory lock under which the tables are made ("trimtab" in ASCII)."""

_WHOLE_CHECK_BYTES = 32 << 20
"""A larger file is not read through at every opening, which would take seconds: `trimtab history check` does that."""

_BUSY_PAUSE_S = 0.02

_PRIMARY = 0xFF
"""Bits of an error code of SQLite that tell its kind; the others tell more of it."""

_SMALL_TABLES = ("trimtab_meta", "trimtab_study")


def prepare(engine: Engine, shown: str, *, is_there: bool = False) -> None:
    """Checks that the database is a sound history of this version, and makes the tables when there are none.

    An unsound or foreign database is left exactly as it is; with `is_there` so is one without a history.

    Raises:
        HistoryError: damaged, not a history, of another version, or not there though it must be.
    """
    if is_there and _is_without(engine):
        raise no_history(shown)
    if engine.dialect.name == "sqlite":
        _check_soundness(engine, shown)
    if is_there:  # who only reads takes no lock, and needs no right to write
        with engine.connect() as connection:
            _check_version(connection, shown)
        return
    if engine.dialect.name == "sqlite":
        _write_ahead(engine, shown)
    with engine.execution_options(trimtab_write=True).begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("select pg_advisory_xact_lock(:key)"), {"key": _PREPARE_LOCK})
        if not inspect(connection).has_table(meta_table.name):
            metadata.create_all(connection)
            connection.execute(meta_table.insert().values(key="schema_version", value=str(SCHEMA_VERSION)))
        _check_version(connection, shown)


def _is_without(engine: Engine) -> bool:
    """A SQLite file with tables of others is somebody else's, which `_check_soundness` tells."""
    tables = inspect(engine).get_table_names()
    return meta_table.name not in tables and (not tables or engine.dialect.name == "postgresql")


def _check_soundness(engine: Engine, shown: str) -> None:
    with engine.connect() as connection:
        tables = inspect(connection).get_table_names()
        if tables and meta_table.name not in tables:
            raise HistoryError(
                f"history={shown} is a database of another program: tables={', '.join(sorted(tables)[:3])}",
                hint="nothing was changed; give another path",
            )
        finding = _finding(connection)
        if finding != "ok":
            raise HistoryError(
                f"history={shown} is damaged: {finding}",
                hint="nothing was changed; restore a copy of it, or give another path",
            )


def _write_ahead(engine: Engine, shown: str) -> None:
    raw, until = engine.raw_connection(), time.monotonic() + LOCK_TIMEOUT_S
    try:
        while not _is_written_ahead(raw.cursor(), until):
            time.sleep(_BUSY_PAUSE_S)
    except sqlite3.Error as error:
        raise HistoryError(
            f"history={shown} cannot be used: {error}",
            hint="is its folder writable, and has its file system space and inodes left?",
        ) from error
    finally:
        raw.close()


def _is_written_ahead(cursor: DBAPICursor, until: float) -> bool:
    """Whether the file is so from now on; False while another process is at it, for which SQLite does not wait by itself."""
    try:
        cursor.execute("PRAGMA journal_mode=WAL")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & _PRIMARY != sqlite3.SQLITE_BUSY or time.monotonic() > until:
            raise
        return False
    return True


def _finding(connection: Connection) -> str:
    """The first thing that is wrong with the file, or "ok"."""
    pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    size = connection.exec_driver_sql("PRAGMA page_size").scalar_one()
    if pages * size <= _WHOLE_CHECK_BYTES:
        return str(connection.exec_driver_sql("PRAGMA quick_check(1)").scalar())
    found = (connection.exec_driver_sql(f"PRAGMA quick_check({table})").scalar() for table in _SMALL_TABLES)
    return next((str(finding) for finding in found if finding != "ok"), "ok")


def _check_version(connection: Connection, shown: str) -> None:
    found = connection.scalar(select(meta_table.c.value).where(meta_table.c.key == "schema_version"))
    if found is None or not (found.isascii() and found.isdecimal()) or int(found[:9]) < 1:
        raise HistoryError(f"history={shown} has schema_version={found!r}", hint="it is damaged; restore a copy of it")
    version = int(found[:9])
    if version != SCHEMA_VERSION:
        newer, older = (
            "upgrade Trimtab, or give another path",
            "it was written before the first release; give another path",
        )
        raise HistoryError(
            f"history={shown} has schema_version={found}, this Trimtab knows schema_version={SCHEMA_VERSION}",
            hint=newer if version > SCHEMA_VERSION else older,
        )
