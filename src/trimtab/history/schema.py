"""The tables of a history, and the engine that reaches them: SQLite by path or URL, PostgreSQL by URL.

Whatever can hold odd characters or non-finite numbers is in JSON text columns; the columns beside are for finding rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import (
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
    inspect,
    select,
    text,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from trimtab.errors import HistoryError

__all__ = ["SCHEMA_VERSION", "event_table", "make_engine", "prepare", "study_table", "trial_table"]

SCHEMA_VERSION = 1
"""Counts up when the tables, or the JSON in them, change so that older code cannot read them."""

LOCK_TIMEOUT_S = 30.0
"""How long a writer waits for another one; writes take milliseconds, so this is only met by a stuck process."""

_PREPARE_LOCK = 0x7472696D746162
"""Key of the PostgreSQL advisory lock under which the tables are made ("trimtab" in ASCII)."""

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
    Index("trimtab_study_name", "name"),
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


def make_engine(url_or_path: str | Path) -> Engine:
    """An engine for a path (SQLite), a `sqlite:///` URL or a `postgresql://` URL; nothing is opened yet.

    Transactions of an engine with the execution option `trimtab_write` take the write lock at once, so that they wait
    for another writer instead of failing half-way.

    Raises:
        HistoryError: the URL cannot be read or is of another system, or the directory cannot be made.
    """
    url = _url(url_or_path)
    if url.get_backend_name() == "postgresql":
        return _postgresql(url)
    if url.get_backend_name() != "sqlite":
        raise HistoryError(
            f"history={url.render_as_string()} is of an unknown kind", hint="give a file path, or postgresql://…"
        )
    return _sqlite(url)


def _url(url_or_path: str | Path) -> URL:
    if "://" not in str(url_or_path):
        return URL.create("sqlite", database=str(Path(url_or_path).expanduser()))
    try:
        return make_url(str(url_or_path))
    except (ArgumentError, ValueError) as error:
        # The text is not repeated: it may hold a password, and nothing could be parsed to hide it.
        raise HistoryError(
            "cannot read the history's URL", hint="write it as postgresql://user@host:port/database"
        ) from error


def _postgresql(url: URL) -> Engine:
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


def _sqlite(url: URL) -> Engine:
    if url.database:
        _make_directory(Path(url.database).parent)
    # The driver must not open transactions on its own: `_begin` does.
    engine = create_engine(url, connect_args={"timeout": LOCK_TIMEOUT_S, "isolation_level": None})
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


def _set_pragmas(connection: Any, _record: object) -> None:
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute("PRAGMA synchronous=FULL")


def _begin(connection: Connection) -> None:
    is_write = connection.get_execution_options().get("trimtab_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if is_write else "BEGIN")


def prepare(engine: Engine, shown: str) -> None:
    """Checks that the database is a sound history of a known version, and makes the tables when there are none.

    An unsound or foreign database is left exactly as it is.

    Raises:
        HistoryError: damaged, not a history, or of a newer version.
    """
    if engine.dialect.name == "sqlite":
        _check_soundness(engine, shown)
    with engine.execution_options(trimtab_write=True).begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("select pg_advisory_xact_lock(:key)"), {"key": _PREPARE_LOCK})
        if not inspect(connection).has_table(meta_table.name):
            metadata.create_all(connection)
            connection.execute(meta_table.insert().values(key="schema_version", value=str(SCHEMA_VERSION)))
        _check_version(connection, shown)


def _check_soundness(engine: Engine, shown: str) -> None:
    with engine.connect() as connection:
        finding = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
        if finding != "ok":
            raise HistoryError(
                f"history={shown} is damaged: {finding}",
                hint="nothing was changed; restore a copy of it, or give another path",
            )
        tables = inspect(connection).get_table_names()
    if tables and meta_table.name not in tables:
        raise HistoryError(
            f"history={shown} is a database of another program: tables={', '.join(sorted(tables)[:3])}",
            hint="nothing was changed; give another path",
        )
    raw = engine.raw_connection()
    try:
        raw.cursor().execute("PRAGMA journal_mode=WAL")
    finally:
        raw.close()


def _check_version(connection: Connection, shown: str) -> None:
    found = connection.scalar(select(meta_table.c.value).where(meta_table.c.key == "schema_version"))
    if found is None or not found.isdecimal():
        raise HistoryError(f"history={shown} has schema_version={found!r}", hint="it is damaged; restore a copy of it")
    if int(found) > SCHEMA_VERSION:
        raise HistoryError(
            f"history={shown} has schema_version={found}, this Trimtab knows schema_version={SCHEMA_VERSION}",
            hint="upgrade Trimtab, or give another path",
        )
