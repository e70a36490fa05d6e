"""Makes the TPC-H database exist: checks the disk, creates, loads, verifies, and re-uses what is already there."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass

import psycopg
from psycopg import sql

from trimtab.errors import LoadError
from trimtab.records import Endpoint
from trimtab.workload.base import Preparation
from trimtab.workload.connection import Connection, connect, free_bytes_of
from trimtab.workload.tpch import generator, marker
from trimtab.workload.tpch.marker import FORMAT_VERSION, Marker
from trimtab.workload.tpch.refresh import remove_leftovers
from trimtab.workload.tpch.schema import (
    DATABASE_BYTES_PER_SCALE,
    LOAD_BYTES_PER_SCALE,
    TABLES,
    SchemaName,
    Table,
    extra_indexes,
)

__all__ = ["Disk", "Report", "prepare"]

Report = Callable[[str], None]

_LOCK_KEY = 7_247_001
"""Advisory lock of a load, so that two tuners do not load one database at the same time."""

_N_LOADERS = 2
"""lineitem is 70 % of the data and stays with one connection, in key order; a second one takes the other tables."""


def prepare(
    endpoint: Endpoint,
    *,
    database: str,
    scale: float,
    schema: SchemaName,
    report: Report,
    disk: Disk | None = None,
) -> Preparation:
    """Makes `database` on the server of `endpoint` hold TPC-H data of `scale`.

    Nothing is written when it is there already, when it belongs to somebody else, or when the disk is too small.

    Raises:
        LoadError: the server is as it was, or holds a load that the next call recognises as unfinished.
    """
    started = time.monotonic()
    wanted = Marker(FORMAT_VERSION, scale, schema, "loading", {})
    try:
        size, was_cached = _prepare(endpoint, database, wanted, report, disk or Disk())
    except psycopg.errors.DiskFull as error:
        raise LoadError(
            f"the server's disk is full while loading database={database}",
            hint="free some space and start again: the unfinished load is recognised and redone",
        ) from error
    except psycopg.Error as error:
        raise LoadError(
            f"preparing database={database} failed: {str(error).strip()}",
            hint="start again: an unfinished load is recognised and redone",
        ) from error
    return Preparation(time.monotonic() - started, size, was_cached)


def _prepare(endpoint: Endpoint, database: str, wanted: Marker, report: Report, disk: Disk) -> tuple[int, bool]:
    """The database's size in bytes and whether everything was there already."""
    there = endpoint.with_database(database)
    with connect(endpoint) as admin:
        exists = _exists(admin, database)
        if exists:
            with connect(there) as connection:
                if _is_complete(connection, database, wanted, lambda line: None):
                    return _size(connection), True
        _check_disk(disk, endpoint, admin, wanted.scale, report)
        generator.find_generator()
        if not exists:
            report(f"creating database {database}")
            _create(admin, endpoint, database)
    with connect(there) as connection:
        _lock(connection, report)
        # Whoever held the lock may have loaded it meanwhile.
        was_cached = _is_complete(connection, database, wanted, report)
        if not was_cached:
            _load(there, connection, wanted, report)
        return _size(connection), was_cached


def _exists(admin: Connection, database: str) -> bool:
    return admin.execute("SELECT 1 FROM pg_database WHERE datname = %s", (database,)).fetchone() is not None


def _size(connection: Connection) -> int:
    row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    return int(str(row[0])) if row else 0


def _is_complete(connection: Connection, database: str, wanted: Marker, report: Report) -> bool:
    """Whether the database holds exactly what is wanted; raises when it is not ours to change."""
    found = marker.read(connection)
    if found is None:
        foreign = marker.foreign_tables(connection)
        if foreign or marker.count_rows(connection):
            raise LoadError(
                f"database={database} exists and was not made by Trimtab: tables={foreign[:5]}",
                hint='name another one: database = "..." in [workload]; Trimtab creates it',
            )
        return False
    if (found.scale, found.schema) != (wanted.scale, wanted.schema):
        raise LoadError(
            f"database={database} holds scale={found.scale:g} schema={found.schema}, "
            f"not scale={wanted.scale:g} schema={wanted.schema}",
            hint="leave out `database` in [workload] (each scale and schema gets a name of its own), or drop it",
        )
    if found.state == "loading":
        report(f"the last load of {database} was interrupted; loading again")
        return False
    if found.version != wanted.version:
        report(f"{database} was loaded by another version; loading again")
        return False
    return _rows_are_right(connection, found, report)


def _rows_are_right(connection: Connection, found: Marker, report: Report) -> bool:
    counts = marker.count_rows(connection)
    if counts != found.row_counts:
        # A run with refresh functions that was cut off leaves its orders in the key gaps; those are easily taken back.
        n_removed = remove_leftovers(connection) if {"orders", "lineitem"} <= counts.keys() else 0
        if n_removed:
            report(f"removed {n_removed} orders that an interrupted run had left")
            counts = marker.count_rows(connection)
    if counts != found.row_counts:
        changed = {name: counts.get(name, 0) for name, n in found.row_counts.items() if counts.get(name, 0) != n}
        report(f"row counts have changed ({changed}); loading again")
        return False
    return True


@dataclass(frozen=True, slots=True)
class Disk:
    """How to learn the free bytes on the server (None: it cannot be seen from here) and in the client's cache."""

    server: Callable[[Endpoint, Connection], int | None] = free_bytes_of
    client: Callable[[], int] = lambda: shutil.disk_usage(generator.cache_directory()).free


def _check_disk(disk: Disk, endpoint: Endpoint, admin: Connection, scale: float, report: Report) -> None:
    needed = {"server": int(scale * (DATABASE_BYTES_PER_SCALE + LOAD_BYTES_PER_SCALE))}
    free = {"server": disk.server(endpoint, admin)}
    if scale <= generator.LARGEST_SCALE_IN_FILES:
        needed["client"] = int(scale * generator.FILE_BYTES_PER_SCALE)
        free["client"] = disk.client()
    for place, n_bytes in free.items():
        if n_bytes is None:
            report(f"the server's free disk space cannot be seen; scale={scale:g} needs {needed[place] / 1e9:.2f} GB")
        elif n_bytes < needed[place]:
            raise LoadError(
                f"disk too small for scale={scale:g}: on the {place} "
                f"free={n_bytes / 1e9:.2f} GB needed={needed[place] / 1e9:.2f} GB",
                hint=f"free some space on the {place} or use a smaller scale",
            )


def _create(admin: Connection, endpoint: Endpoint, database: str) -> None:
    # The C collation makes plans and times independent of the locale the server was set up with; TPC-H text is ASCII.
    statement = sql.SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'")
    try:
        admin.execute(statement.format(sql.Identifier(database)))
    except psycopg.errors.InsufficientPrivilege as error:
        raise LoadError(
            f"user={endpoint.user} may not create database={database}",
            hint=f'as a superuser: ALTER ROLE "{endpoint.user}" CREATEDB, or '
            f'CREATE DATABASE "{database}" OWNER "{endpoint.user}"',
        ) from error
    except (psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation):
        # Another tuner was faster; the advisory lock decides who loads.
        return


def _lock(connection: Connection, report: Report) -> None:
    if connection.execute("SELECT pg_try_advisory_lock(%s)", (_LOCK_KEY,)).fetchone() == (False,):
        report("another Trimtab is loading this database; waiting for it")
        connection.execute("SELECT pg_advisory_lock(%s)", (_LOCK_KEY,))


def _load(endpoint: Endpoint, connection: Connection, wanted: Marker, report: Report) -> None:
    marker.write(connection, wanted)
    for table in TABLES:
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(table.name)))
    counts = _load_tables(endpoint, wanted, report)
    _checkpoint(connection, report)
    marker.write(connection, Marker(wanted.version, wanted.scale, wanted.schema, "loaded", counts))


def _load_tables(endpoint: Endpoint, wanted: Marker, report: Report) -> dict[str, int]:
    """Row counts by table; the first failure stops the other connections and is raised."""
    is_stopped = threading.Event()
    report(f"generating TPC-H data of scale={wanted.scale:g}")
    with (
        generator.generated(wanted.scale) as rows,
        ThreadPoolExecutor(_N_LOADERS, thread_name_prefix="tpch-load") as pool,
    ):
        loader = _Loader(endpoint, wanted, report, rows, is_stopped)
        futures = {pool.submit(loader.load, table): table for table in TABLES}
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            # Also reached by Ctrl-C, when the pool would otherwise wait for the longest copy.
            if not all(future.done() for future in futures):
                is_stopped.set()
                pool.shutdown(wait=False, cancel_futures=True)
        for future in futures:
            failure = future.exception() if future.done() and not future.cancelled() else None
            if failure is not None and not isinstance(failure, _StoppedError):
                raise failure
        return {table.name: future.result() for future, table in futures.items()}


class _StoppedError(Exception):
    """Another loader has failed; this one gives up."""


@dataclass(frozen=True, slots=True)
class _Loader:
    """Loads one table after the other over connections of its own."""

    endpoint: Endpoint
    wanted: Marker
    report: Report
    rows: generator.Rows
    is_stopped: threading.Event

    def load(self, table: Table) -> int:
        """Creates, fills, indexes and analyses `table`; returns its number of rows."""
        started = time.monotonic()
        with connect(self.endpoint) as connection:
            # Only for these sessions; a crash is recognised by the marker, and a checkpoint ends the load.
            connection.execute("SET synchronous_commit = off")
            connection.execute("SET maintenance_work_mem = '128MB'")
            n_rows = self._copy(connection, table)
            expected = table.expected_rows(self.wanted.scale)
            if expected is not None and n_rows != expected:
                raise LoadError(
                    f"table={table.name} got rows={n_rows}, expected rows={expected} at scale={self.wanted.scale:g}",
                    hint="reinstall tpchgen-cli",
                )
            self._index(connection, table)
        self.report(f"loaded {table.name}: {n_rows} rows in {time.monotonic() - started:.1f} s")
        return n_rows

    def _copy(self, connection: Connection, table: Table) -> int:
        """Creates and fills in one transaction, which lets COPY FREEZE spare the later vacuum a rewrite."""
        with connection.transaction(), connection.cursor() as cursor:
            cursor.execute(f"CREATE TABLE {table.name} ({table.columns})")
            with cursor.copy(f"COPY {table.name} FROM STDIN WITH (DELIMITER '|', FREEZE)") as copy:
                for chunk in self.rows(table.name):
                    if self.is_stopped.is_set():
                        raise _StoppedError(table.name)
                    copy.write(chunk)
            return cursor.rowcount

    def _index(self, connection: Connection, table: Table) -> None:
        connection.execute(f"ALTER TABLE {table.name} ADD PRIMARY KEY ({', '.join(table.key)})")
        for name, index in extra_indexes(self.wanted.schema):
            if name == table.name:
                connection.execute(index)
        connection.execute(f"VACUUM (ANALYZE) {table.name}")


def _checkpoint(connection: Connection, report: Report) -> None:
    try:
        connection.execute("CHECKPOINT")
    except psycopg.errors.InsufficientPrivilege:
        report("no privilege for CHECKPOINT: the first trials may share the disk with the end of the load")
