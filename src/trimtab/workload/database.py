"""A database of Trimtab's own on a PostgreSQL server: created, filled once, marked, found again, and cloned for a run.

The marker is a table with one row of JSON that says what the database holds and whether it is complete. A database without
it is somebody else's and is never touched.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from trimtab.errors import LoadError, UsageError
from trimtab.records import Endpoint
from trimtab.units import format_size
from trimtab.workload.base import Preparation
from trimtab.workload.connection import Connection, connect, free_bytes_of

__all__ = ["MARKER_TABLE", "Dataset", "check_name", "clone", "drop_clone", "ensure"]

MARKER_TABLE = "trimtab_data"

_LOCK_CLASS = 7_247_002
"""First half of the advisory lock of a load; the second is a hash of the database's name."""

_FILE_COPY_VERSION = 150_000
"""From PostgreSQL 15 on, CREATE DATABASE writes every page to the WAL unless it is told to copy files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """What a database is to hold.

    Attributes:
        database: its name.
        content: everything that the data depends on, JSON values only; equal content is the same data.
        size_bytes: disk space it will need, judged before.
        fill: makes tables and rows in the empty database.
        check: says what is wrong with the data that is there; "" when nothing is.
    """

    database: str
    content: Mapping[str, Any]
    size_bytes: int
    fill: Callable[[Endpoint, Callable[[str], None]], None]
    check: Callable[[Connection], str]


def check_name(value: object) -> str:
    """`value` as a database's name.

    Raises:
        UsageError: it is none.
    """
    is_name = isinstance(value, str) and 0 < len(value) <= 59 and (value[0].isalpha() or value[0] == "_")
    if not is_name or not all(c.isalnum() or c in "_-$" for c in str(value)) or not str(value).isascii():
        raise UsageError(
            f"database={value!r} is no database name", hint="use up to 59 letters, digits, _ and -, a letter first"
        )
    return str(value)


def ensure(
    endpoint: Endpoint,
    wanted: Dataset,
    report: Callable[[str], None],
    *,
    free_bytes: Callable[[Endpoint, Connection], int | None] = free_bytes_of,
) -> Preparation:
    """Makes `wanted` exist on the server of `endpoint`; what is there already is checked and kept.

    Raises:
        LoadError: the database belongs to somebody else, the disk is too small, or filling it failed. Nothing was written,
            or what was is recognised as unfinished by the next call and made anew.
    """
    started = time.monotonic()
    try:
        with connect(endpoint) as admin:
            if _lock(admin, wanted.database, wait=False) is False:
                report(f"another Trimtab is loading {wanted.database}; waiting for it")
                _lock(admin, wanted.database, wait=True)
            reason = _unfit(admin, endpoint, wanted)
            if reason is not None:
                _make(admin, endpoint, wanted, reason, report, free_bytes)
            size = _size(admin, wanted.database)
    except psycopg.errors.DiskFull as error:
        raise LoadError(
            f"the server's disk is full while loading database={wanted.database}",
            hint="free some space and start again: the load is made anew",
        ) from error
    except psycopg.errors.ReadOnlySqlTransaction as error:
        raise _read_only(wanted.database) from error
    except psycopg.Error as error:
        raise LoadError(
            f"preparing database={wanted.database} failed: {str(error).strip()}",
            hint="check the server's log and start again: the load is made anew",
        ) from error
    return Preparation(time.monotonic() - started, size, reason is None)


def _read_only(database: str) -> LoadError:
    return LoadError(
        f"database={database} cannot be made: the server takes no writes",
        hint="it is a standby, or default_transaction_read_only is on: use a server that may be written to",
    )


def _lock(admin: Connection, database: str, *, wait: bool) -> bool:
    function = "pg_advisory_lock" if wait else "pg_try_advisory_lock"
    row = admin.execute(f"SELECT {function}(%s, hashtext(%s))", (_LOCK_CLASS, database)).fetchone()
    return row is not None and row[0] is not False


def _exists(admin: Connection, database: str) -> bool:
    return admin.execute("SELECT 1 FROM pg_database WHERE datname = %s", (database,)).fetchone() is not None


def _size(admin: Connection, database: str) -> int:
    row = admin.execute("SELECT pg_database_size(%s)", (database,)).fetchone()
    return int(str(row[0])) if row else 0


def _unfit(admin: Connection, endpoint: Endpoint, wanted: Dataset) -> str | None:
    """Why the data must be made ("" when there is none yet); None when it is there and right.

    Raises:
        LoadError: the database is not ours to change.
    """
    if not _exists(admin, wanted.database):
        return ""
    with connect(endpoint.with_database(wanted.database)) as connection:
        if _is_empty(connection):
            return ""
        found = _read_marker(connection, wanted.database)
        if {**found, "state": None} != {**wanted.content, "state": None}:
            raise LoadError(
                f"database={wanted.database} holds other data: {_difference(found, wanted.content)}",
                hint="leave out `database` in [workload] (each data set gets a name of its own), or drop it",
            )
        if found.get("state") != "loaded":
            return "its last load was interrupted"
        return wanted.check(connection) or None


def _is_empty(connection: Connection) -> bool:
    """Whether nobody has made a table: a load that was cut off before its first step leaves such a database."""
    row = connection.execute(
        "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')"
    ).fetchone()
    return row == (0,)


def _difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    names = sorted(name for name in {*found, *wanted} - {"state"} if found.get(name) != wanted.get(name))
    return ", ".join(f"{name}={found.get(name)!r} and not {wanted.get(name)!r}" for name in names)


def _read_marker(connection: Connection, database: str) -> dict[str, Any]:
    foreign = LoadError(
        f"database={database} exists and was not made by Trimtab",
        hint='name another one: database = "..." in [workload]; Trimtab creates it',
    )
    if connection.execute("SELECT to_regclass(%s)", (f"public.{MARKER_TABLE}",)).fetchone() == (None,):
        raise foreign
    row = connection.execute(sql.SQL("SELECT content FROM {}").format(sql.Identifier(MARKER_TABLE))).fetchone()
    try:
        content = json.loads(str(row[0])) if row else None
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise foreign
    return content


def _make(
    admin: Connection,
    endpoint: Endpoint,
    wanted: Dataset,
    reason: str,
    report: Callable[[str], None],
    free_bytes: Callable[[Endpoint, Connection], int | None],
) -> None:
    if reason:
        report(f"{wanted.database} is made anew: {reason}")
        admin.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(wanted.database)))
    free = free_bytes(endpoint, admin)
    if free is None:
        report(f"the server's free disk space cannot be seen; {wanted.database} needs {format_size(wanted.size_bytes)}")
    elif free < wanted.size_bytes:
        raise LoadError(
            f"disk too small for database={wanted.database}: free={format_size(free)} "
            f"needed={format_size(wanted.size_bytes)}",
            hint="free some space on the server, or ask for less data",
        )
    if not _exists(admin, wanted.database):
        report(f"creating database {wanted.database}")
        _create(admin, endpoint, wanted.database)
    try:
        there = endpoint.with_database(wanted.database)
        _mark(there, {**wanted.content, "state": "loading"})
        wanted.fill(there, report)
        _mark(there, {**wanted.content, "state": "loaded"})
    except (psycopg.Error, LoadError):
        # Half a data set is of no use, and may be what fills the disk. What a kill leaves is known by its marker.
        _drop_unfinished(admin, wanted.database, report)
        raise
    try:
        admin.execute("CHECKPOINT")
    except psycopg.errors.InsufficientPrivilege:
        report("no privilege for CHECKPOINT: the first trials may share the disk with the end of the load")


def _drop_unfinished(admin: Connection, database: str, report: Callable[[str], None]) -> None:
    try:
        admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(database)))
    except psycopg.Error as error:
        report(f"what was loaded into {database} is still there and is made anew next time: {str(error).strip()}")


def _create(admin: Connection, endpoint: Endpoint, database: str) -> None:
    # The C collation makes plans and times independent of the locale the server was set up with.
    statement = sql.SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'")
    try:
        admin.execute(statement.format(sql.Identifier(database)))
    except psycopg.errors.InsufficientPrivilege as error:
        raise LoadError(
            f"user={endpoint.user} may not create database={database}",
            hint=f'as a superuser: ALTER ROLE "{endpoint.user}" CREATEDB',
        ) from error


def _mark(there: Endpoint, content: Mapping[str, Any]) -> None:
    table = sql.Identifier(MARKER_TABLE)
    with connect(there) as connection, connection.transaction():
        connection.execute(sql.SQL("CREATE TABLE IF NOT EXISTS {} (content text NOT NULL)").format(table))
        connection.execute(sql.SQL("DELETE FROM {}").format(table))
        connection.execute(sql.SQL("INSERT INTO {} VALUES (%s)").format(table), (json.dumps(content),))


def clone(endpoint: Endpoint, source: str, copy: str) -> float:
    """Makes `copy` a fresh copy of database `source` by copying its files; seconds it took.

    An older copy is dropped; one that Trimtab did not make is not.

    Raises:
        LoadError: `source` is in use or missing, `copy` belongs to somebody else, or the server refuses.
    """
    started = time.monotonic()
    with connect(endpoint) as admin:
        _drop(admin, endpoint, copy)
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} CONNECTION LIMIT {}").format(
            sql.Identifier(copy), sql.Identifier(source), sql.Literal(_COPY_MARK)
        )
        if admin.info.server_version >= _FILE_COPY_VERSION:
            statement += sql.SQL(" STRATEGY = file_copy")
        try:
            admin.execute(statement)
        except psycopg.errors.ObjectInUse as error:
            raise LoadError(
                f"database={source} cannot be copied while somebody is connected to it",
                hint='disconnect them, or set start_state = "rollback" or "none" in [workload]',
            ) from error
        except psycopg.errors.ReadOnlySqlTransaction as error:
            raise _read_only(copy) from error
        except psycopg.Error as error:
            raise LoadError(
                f"cannot copy database={source} to {copy}: {str(error).strip()}",
                hint="the role needs CREATEDB and must own the database, or be a superuser",
            ) from error
    return time.monotonic() - started


_COPY_MARK = 724_700
"""A connection limit that limits nothing tells our copies from other databases: unlike a comment, it is set in the very
statement that makes the copy, so that no kill leaves one without it."""


def drop_clone(endpoint: Endpoint, copy: str) -> None:
    """Drops a copy made by `clone`; nothing happens when there is none.

    Raises:
        LoadError: a database of that name was not made by `clone`, or cannot be dropped.
    """
    with connect(endpoint) as admin:
        _drop(admin, endpoint, copy)


def _drop(admin: Connection, endpoint: Endpoint, copy: str) -> None:
    if not _exists(admin, copy):
        return
    row = admin.execute("SELECT datconnlimit FROM pg_database WHERE datname = %s", (copy,)).fetchone()
    if row != (_COPY_MARK,):
        raise LoadError(
            f"database={copy} exists and was not made by Trimtab", hint="rename or drop it: runs need that name"
        )
    try:
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(copy)))
    except psycopg.Error as error:
        raise LoadError(
            f"cannot drop database={copy}: {str(error).strip()}", hint=f"drop it by hand as {endpoint.user}"
        ) from error
