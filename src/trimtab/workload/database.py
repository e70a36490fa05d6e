"""A database of Trimtab's own on somebody's server: created, filled once, marked, found again, and cloned for a run.

The marker is a table with one row of JSON that says what the database holds and whether it is complete. A database without
it is somebody else's and is never touched.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trimtab.errors import LoadError, UsageError
from trimtab.records import Endpoint
from trimtab.units import format_size
from trimtab.workload.base import Preparation
from trimtab.workload.server import ServerError, Session, Store, store_of

__all__ = ["Dataset", "check_name", "check_rows", "check_their_name", "clone", "drop_clone", "ensure", "not_prepared"]

_LEFT_BYTES = 64 << 20
"""Of the server's disk, beside a copy: its logs grow while it is made."""


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
    check: Callable[[Session], str]


def check_name(value: object) -> str:
    """`value` as a database's name.

    Raises:
        UsageError: it is none.
    """
    is_name = isinstance(value, str) and 0 < len(value) <= 59 and (value[0].isalpha() or value[0] == "_")
    if not is_name or not all(c.isalnum() or c in "_-$" for c in str(value)) or not str(value).isascii():
        raise UsageError(
            f"database={value!r} is not a database name", hint="use up to 59 letters, digits, _ and -, a letter first"
        )
    return str(value)


def check_their_name(value: object) -> str:
    """`value` as the name of a database that somebody else has made: of what their server allows.

    Raises:
        UsageError: no server has such a one.
    """
    is_name = isinstance(value, str) and 0 < len(value.encode()) <= 59 and value.isprintable()
    if not is_name:
        raise UsageError(
            f"database={value!r} is not a database name", hint="use up to 59 bytes, and no control characters"
        )
    return str(value)


def check_rows(session: Session, expected: Mapping[str, int]) -> str:
    """What is wrong with the numbers of rows; "" for nothing."""
    for table, n_rows in expected.items():
        found = int(session.execute(f"SELECT COUNT(*) FROM {table}")[0][0])  # Cassandra's is a text
        if found != n_rows:
            return f"{table} has rows={found}, expected rows={n_rows}"
    return ""


def ensure(
    endpoint: Endpoint,
    wanted: Dataset,
    report: Callable[[str], None],
    *,
    free_bytes: Callable[[Store, Session], int | None] = lambda store, session: store.free_bytes(session),
) -> Preparation:
    """Makes `wanted` exist on the server of `endpoint`; what is there already is checked and kept.

    Raises:
        LoadError: the database belongs to somebody else, the disk is too small, or filling it failed. Nothing was written,
            or what was is recognised as unfinished by the next call and created again.
    """
    started = time.monotonic()
    store = store_of(endpoint)
    try:
        with store.connect() as admin:
            store.await_lock(admin, wanted.database, report)
            reason = _unfit(store, admin, wanted)
            if reason is not None:
                _make(store, admin, wanted, reason, report, free_bytes)
            size = store.size_bytes(admin, wanted.database)
        if remark := store.remark():
            report(remark)
    except ServerError as error:
        raise not_prepared(error, store.endpoint, wanted.database) from error
    return Preparation(time.monotonic() - started, size, reason is None)


def not_prepared(error: ServerError, there: Endpoint, database: str) -> LoadError:
    """What a refused statement means for who prepares data."""
    if error.reason == "disk_full":
        return LoadError(
            f"the server's disk is full while loading database={database}",
            hint="free some space and start again: the data is loaded again",
        )
    if error.reason == "read_only":
        return _read_only(database)
    if error.reason == "no_privilege":
        owned = "another user has made it: log in as that one, make it this user's own, or drop it (it is made again)"
        return LoadError(
            f"user={there.user} may not use database={database}: {error.message}", hint=_remedy(there, owned)
        )
    return LoadError(
        f"preparing database={database} failed: {error.message}",
        hint=error.hint or "check the server's log and start again: the data is loaded again",
    )


def _remedy(there: Endpoint, owned: str) -> str:
    """For a user without the right: on PostgreSQL a database has an owner, elsewhere rights are granted only."""
    granted = "let an administrator grant this user all rights on it, or log in as one who has them"
    return owned if there.protocol == "postgresql" else granted


def _read_only(database: str) -> LoadError:
    return LoadError(
        f"database={database} cannot be made: the server takes no writes",
        hint="it is a standby, or set to read-only: use a server that may be written to",
    )


def _unfit(store: Store, admin: Session, wanted: Dataset) -> str | None:
    """Why the data must be made ("" when there is none yet); None when it is there and right.

    Raises:
        LoadError: the database is not ours to change.
    """
    if not store.exists(admin, wanted.database):
        return ""
    with store.connect(wanted.database) as session:
        found = store.read_marker(session, wanted.database)
        if found is None:
            return ""
        if {**found, "state": None} != {**wanted.content, "state": None}:
            raise LoadError(
                f"database={wanted.database} holds other data: {_difference(found, wanted.content)}",
                hint="leave out `database` in [workload] (each data set gets its own name), or drop it",
            )
        if found.get("state") != "loaded":
            return "its last load was interrupted"
        return wanted.check(session) or None


def _difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    names = sorted(name for name in {*found, *wanted} - {"state"} if found.get(name) != wanted.get(name))
    return ", ".join(f"{name}={found.get(name)!r} and not {wanted.get(name)!r}" for name in names)


def _make(
    store: Store,
    admin: Session,
    wanted: Dataset,
    reason: str,
    report: Callable[[str], None],
    free_bytes: Callable[[Store, Session], int | None],
) -> None:
    if reason:
        report(f"{wanted.database} is created again: {reason}")
        store.clear(admin, wanted.database)
    free = free_bytes(store, admin)
    if free is None:
        report(f"the server's free disk space cannot be seen; {wanted.database} needs {format_size(wanted.size_bytes)}")
    elif free < wanted.size_bytes:
        raise LoadError(
            f"disk too small for database={wanted.database}: free={format_size(free)} "
            f"needed={format_size(wanted.size_bytes)}",
            hint="free some space on the server, or ask for less data",
        )
    if not store.exists(admin, wanted.database):
        report(f"creating database {wanted.database}")
        store.create(admin, wanted.database)
    try:
        _mark(store, wanted.database, {**wanted.content, "state": "loading"})
        wanted.fill(store.endpoint.with_database(wanted.database), report)
        _mark(store, wanted.database, {**wanted.content, "state": "loaded"})
    except Exception:
        # Half a data set is of no use, and may be what fills the disk. What a kill leaves is known by its marker.
        _clear_unfinished(store, admin, wanted.database, report)
        raise
    note = store.settle(admin)
    if note:
        report(note)


def _clear_unfinished(store: Store, admin: Session, database: str, report: Callable[[str], None]) -> None:
    try:
        store.clear(admin, database)
    except LoadError as error:
        report(f"what was loaded into {database} is still there and is loaded again next time: {error.message}")


def _mark(store: Store, database: str, content: Mapping[str, Any]) -> None:
    with store.connect(database) as session:
        store.write_marker(session, content)


def clone(endpoint: Endpoint, source: str, copy: str, report: Callable[[str], None] = lambda _text: None) -> float:
    """Makes `copy` a fresh copy of database `source`; seconds it took.

    An older copy is dropped; one that Trimtab did not make is not.

    Raises:
        LoadError: `source` is in use or missing, `copy` belongs to somebody else, the disk is too small, or the server refuses.
    """
    started = time.monotonic()
    store = store_of(endpoint)
    with store.connect() as admin:
        store.await_lock(admin, copy, report)
        _drop(store, admin, copy)
        try:
            _require_room(store, admin, source)
            store.clone(admin, source, copy)
        except ServerError as error:
            raise _not_copied(error, source, copy, is_entered=source == store.endpoint.database) from error
        if note := store.after_copy(admin):
            report(note)
    return time.monotonic() - started


def _require_room(store: Store, admin: Session, source: str) -> None:
    """A copy that fills the server's disk could end the server."""
    size = store.copy_bytes(admin, source)
    needed, free = size + _LEFT_BYTES, store.free_bytes(admin) if size else None
    if free is not None and free < needed:
        raise LoadError(
            f"disk too small for a copy of database={source}: free={format_size(free)} needed={format_size(needed)}",
            hint="free some space on the server, or choose another start_state where this kind of [workload] has one",
        )


def _not_copied(error: ServerError, source: str, copy: str, *, is_entered: bool) -> LoadError:
    if error.reason == "in_use" and is_entered:
        return LoadError(
            f"database={source} cannot be copied: it is the one of the target's url, and Trimtab itself is connected to it",
            hint="let the target's url and [workload] name different databases",
        )
    if error.reason == "in_use":
        return LoadError(
            f"database={source} cannot be copied while somebody is connected to it",
            hint="disconnect them, or choose another start_state where this kind of [workload] has one",
        )
    if error.reason == "read_only":
        return _read_only(copy)
    return LoadError(
        f"cannot copy database={source} to {copy}: {error.message}",
        hint="the role must be allowed to create databases, and to read all of this one",
    )


def drop_clone(endpoint: Endpoint, copy: str) -> bool:
    """Drops a copy made by `clone`, and says whether there was one. One that a server goes on to make for a client which is
    gone is waited for.

    Raises:
        LoadError: a database of that name was not made by `clone`, or cannot be dropped.
    """
    store = store_of(endpoint)
    with store.connect() as admin:
        store.await_lock(admin, copy, lambda line: None)
        return _drop(store, admin, copy)


def _drop(store: Store, admin: Session, copy: str) -> bool:
    if not store.exists(admin, copy):
        return False
    if not store.is_clone(admin, copy):
        raise LoadError(
            f"database={copy} exists and was not made by Trimtab", hint="rename or drop it: runs need that name"
        )
    try:
        store.drop(admin, copy)
    except ServerError as error:
        hint = f"drop it by hand as {store.endpoint.user}"
        if error.reason == "no_privilege":
            hint = _remedy(store.endpoint, "another user has made it: drop it as that one")
        raise LoadError(f"cannot drop database={copy}: {error.message}", hint=hint) from error
    return True
