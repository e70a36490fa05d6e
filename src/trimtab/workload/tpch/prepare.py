"""Makes the TPC-H database exist: checks the disk, creates, loads, verifies, and re-uses what is already there."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass

from trimtab.errors import LoadError
from trimtab.records import Endpoint
from trimtab.workload.base import Preparation
from trimtab.workload.cache import cache_directory
from trimtab.workload.database import not_prepared
from trimtab.workload.server import ServerError, Session, SqlServer, server_of
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

    Nothing is written when it is there already, when it belongs to somebody else, or when the disk is too small; what an
    unfinished load has left is dropped before the disk is looked at.

    Raises:
        LoadError: the server is as it was, or holds a load that the next call recognises as unfinished.
    """
    started = time.monotonic()
    wanted, server = Marker(FORMAT_VERSION, scale, schema, "loading", {}), server_of(endpoint)
    try:
        size, was_cached = _Preparer(server, database, wanted, report, disk or Disk()).run()
    except ServerError as error:
        raise not_prepared(error, server.endpoint, database) from error
    return Preparation(time.monotonic() - started, size, was_cached)


@dataclass(frozen=True, slots=True)
class _Preparer:
    """Makes one database hold what is wanted."""

    server: SqlServer
    database: str
    wanted: Marker
    report: Report
    disk: Disk

    def run(self) -> tuple[int, bool]:
        """The database's size in bytes and whether everything was there already."""
        server = self.server
        with server.connect() as admin:
            is_cached = self._is_there(admin)
            if not is_cached:
                generator.find_generator()
                is_cached = self._make(admin)
            return server.size_bytes(admin, self.database), is_cached

    def _is_there(self, admin: Session) -> bool:
        if not self.server.exists(admin, self.database):
            return False
        with self.server.connect(self.database) as session:
            return self._is_complete(session, lambda line: None)

    def _make(self, admin: Session) -> bool:
        """Whether somebody else has made it while we waited for the lock."""
        self.server.await_lock(admin, self.database, self.report)
        is_new = not self.server.exists(admin, self.database)
        if is_new:
            self._check_disk(admin)
            self.report(f"creating database {self.database}")
            self.server.create(admin, self.database)
        with self.server.connect(self.database) as session:
            if self._is_complete(session, self.report):
                return True
            if not is_new:
                # What an unfinished load has left is no use, and may be what fills the disk.
                _drop_tables(session)
                self._check_disk(admin)
            self._load(session)
            return False

    def _check_disk(self, admin: Session) -> None:
        disk, scale = self.disk, self.wanted.scale
        needed = {"server": int(scale * (DATABASE_BYTES_PER_SCALE + LOAD_BYTES_PER_SCALE))}
        free = {"server": disk.server(self.server, admin)}
        if scale <= generator.LARGEST_SCALE_IN_FILES:
            needed["client"] = int(scale * generator.FILE_BYTES_PER_SCALE)
            free["client"] = disk.client()
        for place, n_bytes in free.items():
            if n_bytes is None:
                self.report(
                    f"the server's free disk space cannot be seen; scale={scale:g} needs {needed[place] / 1e9:.2f} GB"
                )
            elif n_bytes < needed[place]:
                raise LoadError(
                    f"disk too small for scale={scale:g}: on the {place} "
                    f"free={n_bytes / 1e9:.2f} GB needed={needed[place] / 1e9:.2f} GB",
                    hint=f"free some space on the {place} or use a smaller scale",
                )

    def _is_complete(self, session: Session, report: Report) -> bool:
        """Whether the database holds exactly what is wanted; raises when it is not ours to change."""
        database, wanted = self.database, self.wanted
        found = marker.read(self.server, session, database)
        if found is None:
            foreign = marker.foreign_tables(self.server, session, database)
            if foreign:
                raise LoadError(
                    f"database={database} exists and was not made by Trimtab: tables={foreign[:5]}",
                    hint='name another one: database = "..." in [workload]; Trimtab creates it',
                )
            return False
        if (found.scale, found.schema) != (wanted.scale, wanted.schema):
            raise LoadError(
                f"database={database} holds scale={found.scale:g} schema={found.schema}, "
                f"not scale={wanted.scale:g} schema={wanted.schema}",
                hint="leave out `database` in [workload] (each scale and schema gets its own name), or drop it",
            )
        if found.state == "loading":
            report(f"the last load of {database} was interrupted; loading again")
            return False
        if found.version != wanted.version:
            report(f"{database} was loaded by another version; loading again")
            return False
        return self._rows_are_right(session, found, report)

    def _rows_are_right(self, session: Session, found: Marker, report: Report) -> bool:
        counts = marker.count_rows(self.server, session, self.database)
        if counts != found.row_counts:
            # A run with refresh functions that was cut off leaves its orders in the key gaps; those are easily taken back.
            is_whole = {"orders", "lineitem"} <= counts.keys()
            n_removed = remove_leftovers(self.server, session) if is_whole else 0
            if n_removed:
                report(f"removed {n_removed} orders that an interrupted run had left")
                counts = marker.count_rows(self.server, session, self.database)
        if counts != found.row_counts:
            changed = {name: counts.get(name, 0) for name, n in found.row_counts.items() if counts.get(name, 0) != n}
            report(f"row counts have changed ({changed}); loading again")
            return False
        return True

    def _load(self, session: Session) -> None:
        wanted = self.wanted
        marker.write(session, wanted)
        try:
            counts = _load_tables(self.server, self.database, wanted, self.report)
        except Exception:
            # Half a data set is of no use, and may be what fills the disk. What a kill leaves is known by its marker.
            with suppress(ServerError):
                _drop_tables(session)
            raise
        note = self.server.settle(session)
        if note:
            self.report(note)
        marker.write(session, Marker(wanted.version, wanted.scale, wanted.schema, "loaded", counts))


def _drop_tables(session: Session) -> None:
    for table in TABLES:
        session.execute(f"DROP TABLE IF EXISTS {table.name}")


@dataclass(frozen=True, slots=True)
class Disk:
    """How to learn the free bytes on the server (None: it cannot be seen from here) and in the client's cache."""

    server: Callable[[SqlServer, Session], int | None] = lambda server, session: server.free_bytes(session)
    client: Callable[[], int] = lambda: shutil.disk_usage(cache_directory()).free


def _load_tables(server: SqlServer, database: str, wanted: Marker, report: Report) -> dict[str, int]:
    """Row counts by table; the first failure stops the other connections and is raised."""
    is_stopped = threading.Event()
    report(f"generating TPC-H data of scale={wanted.scale:g}")
    with (
        generator.generated(wanted.scale) as rows,
        ThreadPoolExecutor(_N_LOADERS, thread_name_prefix="tpch-load") as pool,
    ):
        loader = _Loader(server, database, wanted, report, rows, is_stopped)
        try:
            futures = {pool.submit(loader.load, table): table for table in TABLES}
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            # Also reached by Ctrl-C, when the pool would otherwise wait for the longest copy.
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

    server: SqlServer
    database: str
    wanted: Marker
    report: Report
    rows: generator.Rows
    is_stopped: threading.Event

    def load(self, table: Table) -> int:
        """Creates, fills, indexes and analyses `table`; returns its number of rows."""
        started = time.monotonic()
        with self.server.connect(self.database) as session:
            n_rows = self.server.fill_table(session, table.name, table.columns, table.key, self._chunks(table))
            expected = table.expected_rows(self.wanted.scale)
            if expected is not None and n_rows != expected:
                raise LoadError(
                    f"table={table.name} got rows={n_rows}, expected rows={expected} at scale={self.wanted.scale:g}",
                    hint="reinstall tpchgen-cli",
                )
            for name, index in extra_indexes(self.wanted.schema, self.server.endpoint.protocol):
                if name == table.name:
                    session.execute(index)
            self.server.analyse(session, (table.name,))
        self.report(f"loaded {table.name}: {n_rows} rows in {time.monotonic() - started:.1f} s")
        return n_rows

    def _chunks(self, table: Table) -> Iterator[bytes]:
        for chunk in self.rows(table.name):
            if self.is_stopped.is_set():
                raise _StoppedError(table.name)
            yield chunk
