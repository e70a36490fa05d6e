"""The tables of a history, and the engine that reaches them: SQLite by path or URL, PostgreSQL by URL.

Whatever can hold odd characters or non-finite numbers is in JSON columns; the columns beside are for finding rows.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Double,
    Engine,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    create_engine,
    event,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from trimtab.errors import HistoryError
from trimtab.redact import remember

__all__ = [
    "PASSWORD",
    "SCHEMA_VERSION",
    "beside",
    "event_table",
    "make_engine",
    "make_private",
    "meta_table",
    "metadata",
    "no_history",
    "secrets_apart",
    "sqlite_engine",
    "study_table",
    "sync_sqlite",
    "trial_table",
]

SCHEMA_VERSION = 2
"""Counts up when the tables, or the JSON in them, change so that older code cannot read them."""

PASSWORD = "TRIMTAB_HISTORY_PASSWORD"
"""The environment variable with the password of a PostgreSQL history, where its URL comes without one."""

_SECRETS = {
    "password": PASSWORD,
    "sslpassword": "TRIMTAB_HISTORY_SSLPASSWORD",
    "oauth_client_secret": "TRIMTAB_HISTORY_OAUTH_CLIENT_SECRET",
}
"""What a PostgreSQL URL may hold that nobody else may see, and the environment variable for it; libpq has some of its own for the
first only."""

LOCK_TIMEOUT_S = 30.0
"""How long a writer waits for another one; writes take milliseconds, so this is only met by a stuck process."""

_SYNCHRONOUS = "trimtab_synchronous"
"""Under this name a SQLite connection remembers whether its commits wait for the disk."""

metadata = MetaData()

meta_table = Table(
    "trimtab_meta", metadata, Column("key", Text, primary_key=True), Column("value", Text, nullable=False)
)

study_table = Table(
    "trimtab_study",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("body", Text, nullable=False),
    Column("verdict", Text, nullable=False),
    Column("target", Text, nullable=False, server_default=""),
    Column("server_version", Text, nullable=False, server_default=""),
    Column("workload", Text, nullable=False, server_default=""),
    Column("objective", Text, nullable=False, server_default=""),
    Column("cores", Integer, nullable=False, server_default="0"),
    Column("memory_bytes", BigInteger, nullable=False, server_default="0"),
    Column("origin", Text, nullable=False, server_default=""),
    Index("trimtab_study_name", "name"),
    Index("trimtab_study_created", "created_at"),
    sqlite_autoincrement=True,
)

trial_table = Table(
    "trimtab_trial",
    metadata,
    Column("study_id", ForeignKey("trimtab_study.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("role", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("histogram", LargeBinary, nullable=False),
    Column("started_at", Double, nullable=False, server_default="0"),
    Column("loss", Double),
    Column("config", Text, nullable=False, server_default="{}"),
    Column("detail", LargeBinary, nullable=False),
)

event_table = Table(
    "trimtab_event",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("study_id", ForeignKey("trimtab_study.id"), nullable=False),
    Column("at", Double, nullable=False),
    Column("body", Text, nullable=False),
    Index("trimtab_event_study", "study_id"),
)


def make_engine(url_or_path: str | Path, *, is_there: bool = False) -> Engine:
    """An engine for a path (SQLite), a `sqlite:///` URL or a `postgresql://` URL; nothing is opened yet.

    Transactions of an engine with the execution option `trimtab_write` take the write lock at once, so that they wait
    for another writer instead of failing half-way. With the value "unsynced" their commits do not wait for SQLite's disk: they
    survive the end of the process, and a loss of power after the next commit that waits, or `sync_sqlite`.

    With `is_there` no file is made: it must be there already.

    Raises:
        HistoryError: the URL cannot be read or is of another system, the directory cannot be made, or there is no file.
    """
    url = url_of(url_or_path)
    if is_there and url.get_backend_name() == "sqlite" and not Path(url.database or "").is_file():
        raise no_history(repr(url.database))
    if url.get_backend_name() == "postgresql":
        return _postgresql(url)
    if url.get_backend_name() != "sqlite":
        raise HistoryError(
            f"history={url.render_as_string()} is of an unknown kind", hint="give a file path, or postgresql://…"
        )
    if url.database:
        _make_directory(Path(url.database).parent)
        make_private(Path(url.database))
    return sqlite_engine(url)


def no_history(shown: str) -> HistoryError:
    """Nothing was measured there yet, or the place is a wrong one."""
    return HistoryError(
        f"there is no history={shown}", hint="`trimtab tune` makes one; --state or --history name another place"
    )


def url_of(url_or_path: str | Path) -> URL:
    """What a path or URL of a history means.

    Raises:
        HistoryError: it cannot be read.
    """
    if "://" not in str(url_or_path):
        return URL.create("sqlite", database=os.path.expanduser(url_or_path))
    try:
        url = make_url(str(url_or_path))
    except (ArgumentError, ValueError) as error:
        # The text is not repeated: it may hold a password, and nothing could be parsed to hide it.
        raise HistoryError(
            "cannot read the history's URL", hint="write it as postgresql://user@host:port/database"
        ) from error
    if url.database and url.get_backend_name() == "sqlite":
        return url.set(database=os.path.expanduser(url.database))
    return url


def secrets_apart(place: str) -> tuple[str, dict[str, str]]:
    """A file or URL of a history as everybody may see it, and the environment in which it means what it meant.

    Raises:
        HistoryError: the URL cannot be read.
    """
    url = url_of(place)
    all_given = {"password": url.password, **url.query}  # the driver prefers the query's
    given = {key: value for key, value in all_given.items() if key in _SECRETS and value}
    if not given or url.get_backend_name() == "sqlite":
        return place, {}
    query = url.difference_update_query(list(given)).query
    shown = URL.create(url.drivername, url.username, None, url.host, url.port, url.database, query)
    environment = {_SECRETS[key]: value if isinstance(value, str) else value[-1] for key, value in given.items()}
    return shown.render_as_string(hide_password=False), environment


def _with_secrets(url: URL) -> URL:
    """With those of the environment that it lacks."""
    lacking = [key for key in _SECRETS if key not in url.query and (key != "password" or url.password is None)]
    found = {key: value for key in lacking if (value := os.environ.get(_SECRETS[key]))}
    for secret in found.values():
        remember(secret)
    return url.set(password=found.pop("password", None)).update_query_dict(found)


def _postgresql(url: URL) -> Engine:
    url = _with_secrets(url)
    # Of a database in SQL_ASCII (initdb under LC_ALL=C) the driver would give bytes for text.
    connect_args = {"client_encoding": "utf8"}
    engine = create_engine(url.set(drivername="postgresql+psycopg"), connect_args=connect_args, pool_pre_ping=True)
    event.listen(engine, "connect", _make_commits_durable)
    return engine


def _make_commits_durable(connection: Any, _record: object) -> None:
    # A server (or role) with synchronous_commit=off would lose trials that add_trial has promised to keep.
    with connection.cursor() as cursor:
        cursor.execute(
            "select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit') = 'off'"
        )
    connection.commit()


def sqlite_engine(url: URL, creator: Callable[[], sqlite3.Connection] | None = None) -> Engine:
    """An engine for the file of `url`; `creator` makes its connections in another way than usual."""
    # The driver must not open transactions on its own: `_begin` does.
    if creator is None:
        engine = create_engine(url, connect_args={"timeout": LOCK_TIMEOUT_S, "isolation_level": None})
    else:
        engine = create_engine(url, creator=creator)
    event.listen(engine, "connect", _set_pragmas)
    event.listen(engine, "begin", _begin)
    return engine


def _make_directory(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HistoryError(
            f"cannot make the directory of the history: directory={str(directory)!r}: {error.strerror}",
            hint="give a path that you may write to",
        ) from error


def make_private(path: Path) -> None:
    """A new file is its owner's alone: reasons and settings speak of servers. One that is there keeps its mode."""
    # a file that cannot be made is told by the driver, with its name; a link may lead to where there is none yet
    with suppress(OSError):
        os.close(os.open(os.path.realpath(path), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def beside(path: Path, end: str) -> Path:
    """The file beside a SQLite history that has its name and `end`: beside the file itself, as SQLite puts its own, also where
    `path` is a link to it."""
    return Path(f"{os.path.realpath(path)}{end}")


def _set_pragmas(connection: Any, _record: object) -> None:
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute("PRAGMA synchronous=FULL")


def _begin(connection: Connection) -> None:
    how = connection.get_execution_options().get("trimtab_write", False)
    wanted = "NORMAL" if how == "unsynced" else "FULL"
    if how and connection.info.get(_SYNCHRONOUS) != wanted:
        connection.exec_driver_sql(f"PRAGMA synchronous={wanted}")
        connection.info[_SYNCHRONOUS] = wanted
    connection.exec_driver_sql("BEGIN IMMEDIATE" if how else "BEGIN")


def sync_sqlite(path: Path) -> None:
    """Returns when all that was committed to the history at `path` is on its disk.

    Commits stand in the log beside the file until SQLite moves them into it, which waits for the disk by itself.

    Raises:
        HistoryError: the disk refuses.
    """
    try:
        log = os.open(beside(path, "-wal"), os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(log)
    except OSError as error:
        raise HistoryError(
            f"history={str(path)!r} cannot be written to its disk: {error.strerror}", hint="free some space"
        ) from error
    finally:
        os.close(log)
