"""YCSB's table, and its load phase: the native engine inserts the rows, several users at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from trimtab.errors import LoadError
from trimtab.measure import QueryLog, SecondLog
from trimtab.records import Endpoint
from trimtab.units import format_duration, format_size
from trimtab.workload.database import Dataset, check_rows
from trimtab.workload.engine_run import access_of
from trimtab.workload.engine_workload import start_source
from trimtab.workload.load_model import LoadModel
from trimtab.workload.server import KeyedSession, Session, SqlServer, store_of
from trimtab.workload.ycsb.settings import YcsbSettings

__all__ = ["PAIRS", "TABLE", "dataset", "dialect_of", "schema_of"]

TABLE = "usertable"

_LOADERS = {"postgresql": 4, "mysql": 4, "cql": 32, "mongodb": 4, "wiredtiger": 4}
"""Where a statement writes one row only, more of them are on their way."""
_LOAD_CAP_S = 86_400.0
_BATCH_TIMEOUT_S = 120.0
_WAL_AND_COPY = 3
"""The rows, their write-ahead log, and a copy for runs that write."""

_TEXT_BYTES = 65_535
"""Longer fields need another type on MySQL and MariaDB, where a column of type text holds no more."""
_MOST_PARAMETERS = 65_535
"""Of a statement, on SQL servers."""
_BATCH_BYTES = 4 << 20
"""Of one INSERT, if it has several rows: less than every server takes by default."""
_RECORD_BYTES = {"mysql": (1 << 24) - 1, "mongodb": 1 << 24}
"""Most of a row that comes in one packet, and of a document."""
_FIELD_BYTES, _KEY_BYTES = 16, 300
"""At most, beside the contents of a field (its name, type and length), and of a key."""

_ENGINE = {"mysql": " ENGINE=InnoDB"}
"""Named, for default_storage_engine may be one without transactions, to which hardly a knob matters."""

PAIRS = ("mongodb", "wiredtiger")
"""Protocols of stores of records by key: no table has to be made, and no statement is sent."""

_QUICK: Mapping[str, tuple[tuple[str, str], ...]] = {
    "postgresql": (("synchronous_commit", "off"),),
    "mysql": (("unique_checks", "0"),),
}
"""Only for the loading sessions; a crash is recognised by the marker."""


def dialect_of(there: Endpoint) -> str:
    """In which terms the native sources speak to a server."""
    return "pairs" if there.protocol in PAIRS else there.protocol


def schema_of(settings: YcsbSettings) -> dict[str, Any]:
    """The shape of a record, as the native sources take it."""
    return {
        "fields": settings.fields,
        "field_length": settings.field_length,
        "field_lengths": settings.field_lengths,
        "hashed": settings.is_hashed,
        "zero_padding": settings.zero_padding,
    }


def dataset(settings: YcsbSettings) -> Dataset:
    """The rows that every run starts from."""

    def fill(there: Endpoint, report: Callable[[str], None]) -> None:
        batch = _batch(there, settings)
        if there.protocol in PAIRS:
            _insert(there, settings, batch, report)
            return
        _create(there, settings)
        _insert(there, settings, batch, report)
        _finish(there)

    def check(session: Session) -> str:
        if not isinstance(session, KeyedSession):
            return check_rows(session, {TABLE: settings.records})
        found = session.n_records()
        return "" if found == settings.records else f"{TABLE} has rows={found}, expected rows={settings.records}"

    return Dataset(
        database=settings.database,
        content=settings.data,
        size_bytes=_WAL_AND_COPY * settings.records * settings.row_bytes,
        fill=fill,
        check=check,
    )


def _create(there: Endpoint, settings: YcsbSettings) -> None:
    kind = "mediumtext" if there.protocol == "mysql" and settings.field_length > _TEXT_BYTES else "text"
    fields = ", ".join(f"field{i} {kind}" for i in range(settings.fields))
    key = "text" if there.protocol == "cql" else "varchar(255)"
    with store_of(there).connect() as session:
        session.execute(f"CREATE TABLE {TABLE} (ycsb_key {key} PRIMARY KEY, {fields}){_ENGINE.get(there.protocol, '')}")


def _insert(there: Endpoint, settings: YcsbSettings, batch: int, report: Callable[[str], None]) -> None:
    users = min(_LOADERS[there.protocol], max(1, settings.records // batch))
    run = start_source(
        LoadModel(users=users),
        there,
        access=access_of(there, settings=_QUICK.get(there.protocol, ())),
        source=_source(there, settings, users, batch),
        operation_timeout_s=_BATCH_TIMEOUT_S,
        duration_s=_LOAD_CAP_S,
    )
    n_batches = 0
    try:
        while not run.is_done:
            frame = run.frame(1.0)
            if frame is None:
                continue
            n_batches += frame.n_ok
            if frame.second % 10 == 9:
                report(f"loaded about {n_batches * batch} of {settings.records} records")
            if frame.n_error:
                break
    finally:
        log = run.stop()
    _require_all(log, there, settings, batch)
    report(f"loaded {settings.records} records in {log.duration_s:.1f} s")


def _require_all(log: QueryLog | SecondLog, there: Endpoint, settings: YcsbSettings, batch: int) -> None:
    if log.errors or (isinstance(log, SecondLog) and log.error.total):
        first = log.errors[0] if log.errors else "timed out"
        raise LoadError(
            f"loading {settings.records} records into {there.database} failed: {first}",
            hint="check the server's log and free disk space, and start again: the data is loaded again",
        )
    if isinstance(log, SecondLog) and log.response.total * batch < settings.records:
        raise LoadError(
            f"loading {settings.records} records into {there.database} did not end within {format_duration(_LOAD_CAP_S)}",
            hint="use fewer records",
        )


def _batch(there: Endpoint, settings: YcsbSettings) -> int:
    """Rows of one INSERT: as many of those asked for as the server takes; of CQL each has one.

    Raises:
        LoadError: it does not take one.
    """
    record_bytes = settings.fields * (settings.field_length + _FIELD_BYTES) + _KEY_BYTES
    largest, remedy = _largest(there)
    if record_bytes >= largest:
        raise LoadError(
            f"[workload] fields={settings.fields} field_length={settings.field_length}: a record has up to "
            f"{format_size(record_bytes)}, and the server takes {format_size(largest)} at once",
            hint=remedy,
        )
    if there.protocol == "cql":
        return 1
    fitting = int(min(_BATCH_BYTES, largest)) // record_bytes
    if there.protocol not in PAIRS:
        fitting = min(fitting, _MOST_PARAMETERS // (settings.fields + 1))
    return max(1, min(settings.batch, fitting))


def _largest(there: Endpoint) -> tuple[float, str]:
    """Bytes of the longest record, and of the longest INSERT; and what to do about one that is longer."""
    largest, remedy = _RECORD_BYTES.get(there.protocol, math.inf), "use fewer fields, or shorter ones"
    if there.protocol == "mysql":
        with store_of(there).connect() as session:
            allowed = int(session.execute("SELECT @@max_allowed_packet")[0][0])
        if allowed < largest:
            return allowed, f"{remedy}, or raise max_allowed_packet"
    return largest, remedy


def _source(there: Endpoint, settings: YcsbSettings, users: int, batch: int) -> dict[str, Any]:
    return {
        "kind": "ycsb rows",
        "dialect": dialect_of(there),
        "table": TABLE,
        "start": 0,
        "records": settings.records,
        "users": users,
        "batch": batch,
        **schema_of(settings),
    }


def _finish(there: Endpoint) -> None:
    store = store_of(there)
    if isinstance(store, SqlServer):
        with store.connect() as session:
            store.analyse(session, (TABLE,))
