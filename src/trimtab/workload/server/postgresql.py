"""PostgresServer: databases of our own on a PostgreSQL server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg import errors
from psycopg.pq import DiagnosticField, ExecStatus

from trimtab.errors import LoadError
from trimtab.redact import hide_literals
from trimtab.workload.connection import Connection, connect, password_of
from trimtab.workload.server.base import Reason, ServerError, Session, SqlServer

__all__ = ["PostgresServer"]

_LOCK_CLASS = 7_247_002
"""First half of the advisory lock of a load; the second is a hash of the database's name."""

_FILE_COPY_VERSION = 150_000
"""From PostgreSQL 15 on, CREATE DATABASE writes every page to the WAL unless it is told to copy files."""

_PROVIDER_VERSION = 150_000

_COPY_MARK = 724_700
"""A connection limit that limits nothing tells our copies from other databases: unlike a comment, it is set in the very
statement that makes the copy, so that no kill leaves one without it."""

_SAMPLED_PAGES, _SAMPLED_ROWS = 2000, 20
"""Of a large table: pages that a sample reads at least, and rows for each one that is kept."""

_FACTS = (
    "WITH RECURSIVE parts (part) AS (SELECT to_regclass(%s)::oid"
    " UNION SELECT inhrelid FROM pg_inherits JOIN parts ON inhparent = part)"
    " SELECT bool_or(relkind IN ('r', 'm')), sum(greatest(reltuples, 0)::float8), sum(relpages), sum(pg_relation_size(part))"
    " FROM parts JOIN pg_class ON oid = part WHERE relkind <> 'p'"
)
"""A table whose rows lie in partitions has none itself: autovacuum never counts them there."""

_MAY_MAKE = (
    "SELECT (rolsuper OR rolcreatedb) AND pg_has_role(datdba, 'USAGE') FROM pg_roles, pg_database"
    " WHERE rolname = current_user AND datname = %s"
)
"""Whether this user may drop a database and make it again."""

_TABLES = (
    "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE n.nspname <> 'information_schema' AND n.nspname !~ '^pg_' AND c.relkind IN ('r', 'p')"
    " AND pg_has_role(c.relowner, 'USAGE')"
)

_REASONS: tuple[tuple[type[psycopg.Error], Reason], ...] = (
    (errors.DiskFull, "disk_full"),
    (errors.ReadOnlySqlTransaction, "read_only"),
    (errors.ObjectInUse, "in_use"),
    (errors.InsufficientPrivilege, "no_privilege"),
)


_NO_SCHEMA_HINT = (
    "this role's search_path names no schema that is there: ALTER ROLE ... IN DATABASE ... SET search_path = public, or add"
    " options='-c search_path=public' to url"
)
"""Where tables of ours have no place to be made in."""


class _Session:
    """See `Session`; `connection` is psycopg's own."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.connection.close()

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            # As bytes: psycopg takes a text for a statement only when it is written in the code.
            cursor = self.connection.execute(statement.encode(), tuple(parameters) or None)
            return cursor.fetchall() if cursor.description is not None else []
        except psycopg.Error as error:
            raise _translated(error) from error

    def copy(self, create: str, table: str, rows: Iterable[bytes]) -> int:
        """Creates and fills in one transaction, which lets COPY FREEZE spare the later vacuum a rewrite."""
        try:
            with self.connection.transaction(), self.connection.cursor() as cursor:
                cursor.execute(create.encode())
                with cursor.copy(f"COPY {table} FROM STDIN WITH (DELIMITER '|', FREEZE)".encode()) as copy:
                    for chunk in rows:
                        copy.write(chunk)
                return cursor.rowcount
        except psycopg.Error as error:
            raise _translated(error) from error


def _translated(error: psycopg.Error) -> ServerError:
    hint = _NO_SCHEMA_HINT if isinstance(error, errors.InvalidSchemaName) else None
    return ServerError(hide_literals(str(error).strip()), reason=_reason(error), hint=hint)


def _version(session: Session) -> int:
    return int(session.execute("SELECT current_setting('server_version_num')")[0][0])


def _own(session: Session) -> _Session:
    if not isinstance(session, _Session):
        raise TypeError(f"session is of another server: type={type(session).__name__}")
    return session


def _reason(error: psycopg.Error) -> Reason:
    for kind, reason in _REASONS:
        if isinstance(error, kind):
            return reason
    return "other"


class PostgresServer(SqlServer):
    """See `SqlServer`."""

    def connect(self, database: str | None = None) -> _Session:
        """A session in `database`, or in the endpoint's."""
        there = self.endpoint if database is None else self.endpoint.with_database(database)
        return _Session(connect(there))

    @property
    def password(self) -> str | None:
        """The endpoint's, or what libpq finds in .pgpass or a service file."""
        return password_of(self.endpoint)

    def quote(self, name: str) -> str:
        """In double quotes."""
        return '"' + name.replace('"', '""') + '"'

    def lock(self, session: Session, name: str, *, wait: bool) -> bool:
        """An advisory lock, which is known in the endpoint's own database only."""
        function = "pg_advisory_lock" if wait else "pg_try_advisory_lock"
        rows = session.execute(f"SELECT {function}(%s, hashtext(%s))", (_LOCK_CLASS, name))
        return rows[0][0] is not False

    def exists(self, session: Session, database: str) -> bool:
        """By the catalogue of databases."""
        return bool(session.execute("SELECT 1 FROM pg_database WHERE datname = %s", (database,)))

    def size_bytes(self, session: Session, database: str) -> int:
        """Of its files."""
        return int(session.execute("SELECT pg_database_size(%s)", (database,))[0][0])

    def tables(self, session: Session, database: str) -> tuple[str, ...]:
        """Relations of all kinds but indexes; without those of extensions, which a new database may have from its template."""
        rows = session.execute(
            "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname <> 'information_schema' AND n.nspname !~ '^pg_' AND c.relkind NOT IN ('i', 'I')"
            " AND NOT EXISTS (SELECT 1 FROM pg_depend d"
            " WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e') ORDER BY relname"
        )
        return tuple(str(row[0]) for row in rows)

    def create(self, session: Session, database: str) -> None:
        """The C collation makes plans and times independent of the locale that the server was set up with."""
        # A server that was set up with ICU's collations would compare by those, whatever LC_COLLATE says.
        provider = " LOCALE_PROVIDER libc" if _version(session) >= _PROVIDER_VERSION else ""
        try:
            session.execute(
                f"CREATE DATABASE {self.quote(database)} TEMPLATE template0 ENCODING 'UTF8'{provider}"
                " LC_COLLATE 'C' LC_CTYPE 'C'"
            )
        except ServerError as error:
            if error.reason != "no_privilege":
                raise
            raise LoadError(
                f"user={self.endpoint.user} may not create database={database}",
                hint=f'as a superuser: ALTER ROLE "{self.endpoint.user}" CREATEDB, or '
                f'CREATE DATABASE "{database}" OWNER "{self.endpoint.user}"',
            ) from error

    def fill_table(self, session: Session, table: str, columns: str, key: Sequence[str], rows: Iterable[bytes]) -> int:
        """By COPY; the key is made at the end, which is faster than row by row."""
        # Only for this session: whoever loads knows an unfinished load, and `settle` ends it.
        session.execute("SET synchronous_commit = off")
        session.execute("SET maintenance_work_mem = '128MB'")
        name = self.quote(table)
        n_rows = _own(session).copy(f"CREATE TABLE {name} ({columns})", name, rows)
        session.execute(f"ALTER TABLE {name} ADD PRIMARY KEY ({', '.join(map(self.quote, key))})")
        return n_rows

    def analyse(self, session: Session, tables: Sequence[str]) -> None:
        """Vacuums them as well."""
        session.execute(f"VACUUM (ANALYZE) {', '.join(map(self.quote, tables))}")

    def end_sessions(self, session: Session, application: str) -> int:
        """See `SqlServer`."""
        return len(
            session.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s AND pid <> pg_backend_pid()",
                (application,),
            )
        )

    def drop(self, session: Session, database: str) -> None:
        """Throws out who is connected."""
        session.execute(f"DROP DATABASE IF EXISTS {self.quote(database)} WITH (FORCE)")

    def clear(self, session: Session, database: str) -> None:
        """Of a database that an administrator has made for a role which may make none, only the tables go."""
        if session.execute(_MAY_MAKE, (database,)) != [(False,)]:
            self.drop(session, database)
            return
        with self.connect(database) as inside:
            if tables := ", ".join(str(name) for (name,) in inside.execute(_TABLES)):
                inside.execute(f"DROP TABLE {tables} CASCADE")

    def copy_bytes(self, session: Session, source: str) -> int:
        """None where the file system shares what is copied (from PostgreSQL 18 on), or where tables may lie on other volumes."""
        ((size, shares, is_spread),) = session.execute(
            "SELECT pg_database_size(%s), current_setting('file_copy_method', true) = 'clone',"
            " EXISTS (SELECT 1 FROM pg_tablespace WHERE spcname NOT IN ('pg_default', 'pg_global'))",
            (source,),
        )
        return 0 if shares or is_spread else int(size)

    def clone(self, session: Session, source: str, copy: str) -> None:
        """By copying files; with what ALTER DATABASE has set, which that leaves out, as far as this user may."""
        strategy = " STRATEGY = file_copy" if _version(session) >= _FILE_COPY_VERSION else ""
        names = f"{self.quote(copy)} TEMPLATE {self.quote(source)}"
        session.execute(f"CREATE DATABASE {names} CONNECTION LIMIT {_COPY_MARK}{strategy}")
        self._give_settings(session, source, copy)

    def _give_settings(self, session: Session, source: str, copy: str) -> None:
        """Settings of a database win over the configuration files: without them, a copy would show what the database does not."""
        there = self.quote(copy)
        rows = session.execute(
            "SELECT CASE WHEN s.setrole = 0 THEN '' ELSE session_user::text END, unnest(s.setconfig)"
            " FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase WHERE d.datname = %s"
            " AND s.setrole IN (0, (SELECT oid FROM pg_roles WHERE rolname = session_user))",
            (source,),
        )
        for role, setting in rows:
            name, _, value = str(setting).partition("=")
            whose = f"ROLE {self.quote(str(role))} IN DATABASE {there}" if role else f"DATABASE {there}"
            # From the current value: the text of a list, such as search_path, is none of a statement.
            session.execute("START TRANSACTION")
            try:
                session.execute("SELECT set_config(%s, %s, true)", (name, value))
                session.execute(f"ALTER {whose} SET {'.'.join(map(self.quote, name.split('.')))} FROM CURRENT")
                session.execute("COMMIT")
            except ServerError:
                session.execute("ROLLBACK")

    def is_clone(self, session: Session, database: str) -> bool:
        """By the mark that the copying statement set."""
        return session.execute("SELECT datconnlimit FROM pg_database WHERE datname = %s", (database,)) == [
            (_COPY_MARK,)
        ]

    def settle(self, session: Session) -> str:
        """A checkpoint."""
        try:
            session.execute("CHECKPOINT")
        except ServerError as error:
            if error.reason != "no_privilege":
                raise
            return "no privilege for CHECKPOINT: the first trials may share the disk with the end of the load"
        return ""

    def data_directory(self, session: Session) -> str | None:
        """None for who may not ask."""
        try:
            return str(session.execute("SHOW data_directory")[0][0])
        except ServerError:
            return None

    def refusal(self, session: Session, statement: str) -> str:
        """By the protocol's own Parse, as the load does it: SQL's PREPARE takes fewer statements (no CALL)."""
        connection = _own(session).connection
        encoding = connection.info.encoding
        result = connection.pgconn.prepare(b"", statement.encode(encoding))
        if result.status == ExecStatus.COMMAND_OK:
            return ""
        return (result.error_field(DiagnosticField.MESSAGE_PRIMARY) or b"").decode(encoding, "replace")

    def run_script(self, text: str) -> None:
        """As one transaction, unless the script says otherwise."""
        with self.connect() as session:
            session.execute(text)

    def sample(self, session: Session, table: Sequence[str], column: str, limit: int) -> list[str]:
        """Ordered by a hash of the whole row: the same rows each time, and a value as often as the table has it.

        Of a large table pages are drawn first, so that it is not read as a whole; a few thousand at least, for the rows of one
        page often belong together.
        """
        where, what = ".".join(self.quote(part) for part in table), self.quote(column)
        share = self._share(session, where, limit)
        pages = f" TABLESAMPLE SYSTEM ({100 * share:.6f}) REPEATABLE (1)" if share < 1 else ""
        rows = session.execute(
            f"SELECT {what}::text FROM {where} s{pages} WHERE {what} IS NOT NULL"
            f" ORDER BY hashtext((s.*)::text), (s.*)::text LIMIT {limit:d}"  # "s" alone may be a column
        )
        return [str(row[0]) for row in rows]

    def n_rows(self, session: Session, table: Sequence[str]) -> float:
        """By the planner's statistics."""
        return self._facts(session, ".".join(self.quote(part) for part in table))[1]

    def sample_bytes(self, session: Session, table: Sequence[str], limit: int) -> tuple[float, float]:
        """Of a large table the pages that are drawn."""
        where = ".".join(self.quote(part) for part in table)
        size_bytes = self._facts(session, where)[3]
        return size_bytes * self._share(session, where, limit), size_bytes

    def _share(self, session: Session, where: str, limit: int) -> float:
        """Of its pages, that are drawn of a table which has far more than `limit` rows; 1 for others, and for views."""
        has_pages, n_rows, n_pages, _ = self._facts(session, where)
        wanted = max(_SAMPLED_PAGES / max(1.0, n_pages), _SAMPLED_ROWS * limit / max(1.0, n_rows))
        return wanted if has_pages and wanted < 0.5 else 1.0

    def _facts(self, session: Session, where: str) -> tuple[bool, float, float, float]:
        """Whether a table, with its partitions and heirs, has pages; its rows, pages and bytes."""
        has_pages, *sums = session.execute(_FACTS, (where,))[0]
        n_rows, n_pages, size_bytes = (float(each or 0) for each in sums)
        return bool(has_pages), n_rows, n_pages, size_bytes
