"""MysqlServer: databases of our own on a MySQL or MariaDB server."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Any, Self

import pymysql
from pymysql.constants import CLIENT, ER

from trimtab.errors import LoadError
from trimtab.host.mysql_client import login, password_from_files
from trimtab.units import counted
from trimtab.workload.server.base import Reason, ServerError, Session, SqlServer

__all__ = ["MysqlServer", "pieces"]

_NOT_COPIED = {
    "foreign keys": "SELECT COUNT(*) FROM information_schema.referential_constraints WHERE constraint_schema = %s",
    "triggers": "SELECT COUNT(*) FROM information_schema.triggers WHERE trigger_schema = %s",
    "views": "SELECT COUNT(*) FROM information_schema.views WHERE table_schema = %s",
    "procedures and functions": "SELECT COUNT(*) FROM information_schema.routines WHERE routine_schema = %s",
    "generated columns": "SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = %s AND extra LIKE '%% GENERATED'",
    "sequences and tables with a history": "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = %s "
    "AND table_type NOT IN ('BASE TABLE', 'VIEW')",
}
"""What CREATE TABLE ... LIKE and INSERT ... SELECT leave behind, or fail at."""

_EVENTS = "SELECT event_name FROM information_schema.events WHERE event_schema = %s ORDER BY 1"
"""Those that this user may see."""

_TYPE = (
    "SELECT data_type FROM information_schema.columns WHERE table_schema = %s AND table_name = %s AND column_name = %s"
)
_BITS = "bit"
_MOST = (1 << 63) - 1
"""The greatest number that the load sends as one."""

_COLUMNS = (
    "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s "
    "AND extra NOT LIKE '%% GENERATED%%' ORDER BY ordinal_position"
)
"""Those that hold something of their own: SELECT * leaves out what is declared invisible."""

_CHARACTERS = (
    "SELECT default_character_set_name, default_collation_name FROM information_schema.schemata WHERE schema_name = %s"
)
_OURS = ("utf8mb4", "utf8mb4_bin")
"""Character set and collation of the databases that Trimtab makes."""

_MARK = "trimtab_copy"
"""A table that tells our copies from other databases; it is made first, and an empty database is nobody's loss."""

_COPIERS = 4
"""Sessions that copy tables at once."""

_SESSION = (
    "SET SESSION wait_timeout = 28800, SESSION net_read_timeout = 28800, SESSION net_write_timeout = 28800"
    ", SESSION sql_safe_updates = 0, SESSION sql_big_selects = 1, SESSION sql_select_limit = 18446744073709551615"
    " /*!50708 , SESSION max_execution_time = 0 */ /*M!100101 , SESSION max_statement_time = 0 */"
    " /*!80000 , SESSION information_schema_stats_expiry = 0 */"
)
"""A config under trial may set these so low that the data check itself would be cut off; and what limits or refuses statements of
people would stop a load, or cut a list of tables. And MySQL 8 tells sizes of tables as they were up to a day ago (its manual,
"Optimizing INFORMATION_SCHEMA Queries"); MariaDB, which tells those of now and does not know the variable, skips comments of
versions 5.7 to 9.99. Its limit for a statement has another name, in a comment for it alone."""

_LOGIN_S = 10
_LONGEST_WAIT_S = 86_400
_LONGEST_LOCK_NAME = 64

_REASONS: dict[int, Reason] = {
    ER.DISK_FULL: "disk_full",
    ER.RECORD_FILE_FULL: "disk_full",
    ER.OPTION_PREVENTS_STATEMENT: "read_only",
    ER.DBACCESS_DENIED_ERROR: "no_privilege",
    ER.TABLEACCESS_DENIED_ERROR: "no_privilege",
    ER.SPECIFIC_ACCESS_DENIED_ERROR: "no_privilege",
}


class _Session:
    """See `Session`."""

    def __init__(self, connection: pymysql.Connection[Any]) -> None:
        self._connection = connection

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connection.open:
            self._connection.close()

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(statement, tuple(parameters) or None)
                rows = list(cursor.fetchall()) if cursor.description is not None else []
                while cursor.nextset():  # of a script: an error in a later statement is raised here
                    pass
                return rows
        except pymysql.MySQLError as error:
            raise _translated(error) from error


def _translated(error: pymysql.MySQLError) -> ServerError:
    code, words = (error.args[0], str(error.args[1])) if len(error.args) > 1 else (0, str(error))
    # InnoDB tells a full disk by the operating system's own number inside the text.
    reason = "disk_full" if "No space left on device" in words else _REASONS.get(code, "other")
    return ServerError(words.strip(), reason=reason)


class MysqlServer(SqlServer):
    """See `SqlServer`."""

    def connect(self, database: str | None = None) -> _Session:
        """A session in `database`, or in the endpoint's."""
        return self._connect(self.endpoint.database if database is None else database)

    def _connect(self, database: str, *, client_flag: int = 0) -> _Session:
        endpoint = self.endpoint
        try:
            connection = login(
                endpoint.host, endpoint.port, endpoint.options, user=endpoint.user, password=self.password or "",
                login_timeout_s=_LOGIN_S, database=database or None, client_flag=client_flag,
            )  # fmt: skip
        except (pymysql.MySQLError, RuntimeError, OSError) as error:
            words = error.args[-1] if error.args else error
            raise LoadError(
                f"cannot connect: endpoint={endpoint.with_database(database)}: {words}",
                hint="check that the server runs and that this user may log in to this database",
            ) from error
        session = _Session(connection)
        session.execute(_SESSION)
        return session

    @property
    def password(self) -> str | None:
        """The endpoint's, or that of MYSQL_PWD or ~/.my.cnf."""
        return self.endpoint.password if self.endpoint.password is not None else password_from_files()

    def quote(self, name: str) -> str:
        """In backticks."""
        return "`" + name.replace("`", "``") + "`"

    def lock(self, session: Session, name: str, *, wait: bool) -> bool:
        """A named lock of the server."""
        full = f"trimtab:{name}"[:_LONGEST_LOCK_NAME]
        return session.execute("SELECT GET_LOCK(%s, %s)", (full, _LONGEST_WAIT_S if wait else 0)) == [(1,)]

    def exists(self, session: Session, database: str) -> bool:
        """By the information schema."""
        return bool(session.execute("SELECT 1 FROM information_schema.schemata WHERE schema_name = %s", (database,)))

    def size_bytes(self, session: Session, database: str) -> int:
        """Of data and indexes, as InnoDB's statistics have them."""
        rows = session.execute(
            "SELECT COALESCE(SUM(data_length + index_length), 0) FROM information_schema.tables WHERE table_schema = %s",
            (database,),
        )
        return int(rows[0][0])

    def tables(self, session: Session, database: str) -> tuple[str, ...]:
        """Tables and views."""
        rows = session.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = %s ORDER BY 1", (database,)
        )
        return tuple(str(row[0]) for row in rows)

    def create(self, session: Session, database: str) -> None:
        """The binary collation compares as PostgreSQL's "C" does."""
        self._create(session, database, _OURS)

    def _create(self, session: Session, database: str, characters: tuple[str, str]) -> None:
        """With that character set and collation."""
        charset, collation = characters
        try:
            session.execute(f"CREATE DATABASE {self.quote(database)} CHARACTER SET {charset} COLLATE {collation}")
        except ServerError as error:
            if error.reason != "no_privilege":
                raise
            raise LoadError(
                f"user={self.endpoint.user} may not create database={database}",
                hint=f"as an administrator: GRANT ALL ON {self.quote(database)}.* TO that user",
            ) from error

    def fill_table(self, session: Session, table: str, columns: str, key: Sequence[str], rows: Iterable[bytes]) -> int:
        """By INSERT statements of many rows each.

        LOAD DATA LOCAL would need a right that servers refuse by default, and a client that sends any file it is asked for.
        """
        # Strict, so that nothing is cut to fit; without escapes, only the quote is special in a text.
        session.execute("SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES', unique_checks = 0")
        largest = int(session.execute("SELECT @@max_allowed_packet")[0][0]) // 4
        name = self.quote(table)
        # The key comes first: InnoDB keeps rows in its order, and another one later would write them all again.
        session.execute(
            f"CREATE TABLE {name} ({columns}, PRIMARY KEY ({', '.join(map(self.quote, key))})) ENGINE=InnoDB"
        )
        n_rows = 0
        for some in pieces(rows, largest):
            values = some.rstrip(b"\n").replace(b"'", b"''").replace(b"|", b"','").replace(b"\n", b"'),('")
            session.execute(f"INSERT INTO {name} VALUES ('{values.decode()}')")
            n_rows += some.count(b"\n")
        return n_rows

    def analyse(self, session: Session, tables: Sequence[str]) -> None:
        """Of columns as well where the server has statistics of that kind in the same statement, which MariaDB does."""
        is_mariadb = "MariaDB" in str(session.execute("SELECT VERSION()")[0][0])
        if is_mariadb:
            session.execute("SET SESSION analyze_sample_percentage = 0")  # the server chooses by the table's size
        for table in tables:
            session.execute(f"ANALYZE TABLE {self.quote(table)}{' PERSISTENT FOR ALL' if is_mariadb else ''}")

    def drop(self, session: Session, database: str) -> None:
        """Waits for statements that use its tables."""
        session.execute(f"DROP DATABASE IF EXISTS {self.quote(database)}")

    def clone(self, session: Session, source: str, copy: str) -> None:
        """Table by table, by the server itself, the largest first.

        Raises:
            LoadError: the database has what such a copy would leave behind: a load on it would show something else.
        """
        _require_plain_tables(session, source)
        # What a load makes itself, as a temporary table, would be compared and joined in another way.
        rows = session.execute(_CHARACTERS, (source,))
        self._create(session, copy, (str(rows[0][0]), str(rows[0][1])) if rows else _OURS)
        session.execute(f"CREATE TABLE {self.quote(copy)}.{self.quote(_MARK)} (made int PRIMARY KEY) ENGINE=InnoDB")
        rows = session.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = %s AND table_type = 'BASE TABLE' "
            "ORDER BY data_length DESC",
            (source,),
        )
        tables = [str(table) for (table,) in rows]
        self._copy_together(session, source, copy, tables)
        for table in tables:
            session.execute(f"ANALYZE TABLE {self.quote(copy)}.{self.quote(table)}")

    def left_behind(self, session: Session, source: str) -> str:
        """Its events: they would run in each copy, too, and change it under the load."""
        names = [str(name) for (name,) in session.execute(_EVENTS, (source,))]
        if not names:
            return ""
        return (
            f"database={source} has {counted(len(names), 'event')} ({', '.join(names)}): the copies that runs use have none;"
            " the event scheduler goes on in the original"
        )

    def _copy_together(self, session: Session, source: str, copy: str, tables: Sequence[str]) -> None:
        """Copies tables in several sessions at once: one INSERT ... SELECT uses one core."""
        waiting = deque(tables)
        with ExitStack() as stack:
            others: dict[int, _Session] = {}
            with suppress(LoadError):  # a server that takes no more sessions copies with those that it takes
                for _ in tables[1:_COPIERS]:
                    other = stack.enter_context(self.connect())
                    others[int(other.execute("SELECT CONNECTION_ID()")[0][0])] = other
            # The pool ends before the sessions of its threads do.
            pool = stack.enter_context(ThreadPoolExecutor(_COPIERS))
            try:
                copied = [pool.submit(self._copy, other, source, copy, waiting) for other in others.values()]
                self._copy(session, source, copy, waiting)
                for each in copied:
                    each.result()
            except BaseException:
                # The pool would otherwise wait for what they copy, or for a lock that somebody else holds.
                waiting.clear()
                self._kill(others)
                raise

    def _copy(self, session: Session, source: str, copy: str, waiting: deque[str]) -> None:
        """Copies tables until none is `waiting`, which other sessions may share; after an error none is."""
        # Both checks stay on: without them MariaDB loads an empty table in bulk, which sorts all rows in files first and takes
        # five times as long on rows that come in key order.
        session.execute("SET SESSION unique_checks = 1, foreign_key_checks = 1")
        # An id of 0 stays one, and dates of 0 are taken as they are.
        session.execute("SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO'")
        try:
            for table in _taken(waiting):
                old, new = (f"{self.quote(database)}.{self.quote(table)}" for database in (source, copy))
                columns = ", ".join(self.quote(str(name)) for (name,) in session.execute(_COLUMNS, (source, table)))
                session.execute(f"CREATE TABLE {new} LIKE {old}")
                session.execute(f"INSERT INTO {new} ({columns}) SELECT {columns} FROM {old}")
        except BaseException:
            waiting.clear()
            raise
        session.execute("SET SESSION sql_mode = DEFAULT")

    def _kill(self, numbers: Iterable[int]) -> None:
        """Ends what these sessions do on the server, so that nobody waits for it."""
        with suppress(LoadError, ServerError), self.connect() as session:
            for number in numbers:
                with suppress(ServerError):
                    session.execute(f"KILL {number}")

    def is_clone(self, session: Session, database: str) -> bool:
        """Marked, or so empty that nobody misses it."""
        tables = self.tables(session, database)
        return not tables or _MARK in tables

    def settle(self, session: Session) -> str:
        """Nothing can be asked of this server that would not change its settings."""
        return ""

    def data_directory(self, session: Session) -> str | None:
        """As the server says."""
        rows = session.execute("SELECT @@datadir")
        return str(rows[0][0]) if rows and rows[0][0] else None

    def refusal(self, session: Session, statement: str) -> str:
        """By PREPARE."""
        try:
            session.execute("PREPARE trimtab_check FROM %s", (statement,))
        except ServerError as error:
            return error.message
        session.execute("DEALLOCATE PREPARE trimtab_check")
        return ""

    def run_script(self, text: str) -> None:
        """In one round trip; only here may one text hold several statements."""
        with self._connect(self.endpoint.database, client_flag=CLIENT.MULTI_STATEMENTS) as session:
            session.execute(text)

    def sample(self, session: Session, table: Sequence[str], column: str, limit: int) -> list[str] | list[int]:
        """In the order of random numbers with a seed, one for each row: a value as often as the table has it; the same rows each
        time as long as the server reads the table in the same order. Bit fields are numbers: a text is written there by its
        bytes, and compared by them through an index, but as the number that it spells without one."""
        where, what = ".".join(self.quote(part) for part in table), self.quote(column)
        has_bits = session.execute(_TYPE, (self._schema(table), table[-1], column)) == [(_BITS,)]
        rows = session.execute(
            f"SELECT CAST({what} AS {'UNSIGNED' if has_bits else 'CHAR'}) FROM {where} WHERE {what} IS NOT NULL "
            f"ORDER BY RAND(1) LIMIT {limit:d}"
        )
        if has_bits:
            return _numbers(rows)
        for _, code, words in session.execute("SHOW WARNINGS"):
            if code == ER.INVALID_CHARACTER_STRING:  # the server gives "?" or nothing for them
                raise ServerError(f"its values are bytes, and not all of them are texts: {words}")
        return [str(row[0]) for row in rows]

    def n_rows(self, session: Session, table: Sequence[str]) -> float:
        """By InnoDB's statistics."""
        return self._statistic(session, table, "table_rows")

    def sample_bytes(self, session: Session, table: Sequence[str], limit: int) -> tuple[float, float]:
        """All of the table, without its other indexes."""
        size_bytes = self._statistic(session, table, "data_length")
        return size_bytes, size_bytes

    def _schema(self, table: Sequence[str]) -> str:
        return table[-2] if len(table) > 1 else self.endpoint.database

    def _statistic(self, session: Session, table: Sequence[str], column: str) -> float:
        rows = session.execute(
            f"SELECT {column} FROM information_schema.tables WHERE table_schema = %s AND table_name = %s",
            (self._schema(table), table[-1]),
        )
        return float(rows[0][0] or 0) if rows else 0.0


def _require_plain_tables(session: Session, database: str) -> None:
    counted = {what: int(session.execute(query, (database,))[0][0]) for what, query in _NOT_COPIED.items()}
    found = [f"{what}: {n}" for what, n in counted.items() if n]
    if found:
        raise LoadError(
            f"database={database} cannot be copied as a whole ({', '.join(found)})",
            hint='choose start_state = "rollback" or "undo", or give a database of plain tables',
        )


def _numbers(rows: Sequence[tuple[Any, ...]]) -> list[int]:
    found = [int(row[0]) for row in rows]
    if max(found, default=0) > _MOST:
        raise ServerError("some of its bit fields are greater than any number that a load can ask for (2^63 - 1)")
    return found


def _taken(waiting: deque[str]) -> Iterator[str]:
    """Takes one after the other; several threads may do so at once."""
    with suppress(IndexError):
        while True:
            yield waiting.popleft()


def pieces(chunks: Iterable[bytes], largest: int) -> Iterator[bytes]:
    """The chunks, those of more than `largest` bytes in parts of whole lines, of which each has one at least."""
    for chunk in chunks:
        start = 0
        while start < len(chunk):
            end = chunk.rfind(b"\n", start, start + largest) + 1 if len(chunk) - start > largest else len(chunk)
            end = end or chunk.find(b"\n", start) + 1 or len(chunk)
            yield chunk[start:end]
            start = end
