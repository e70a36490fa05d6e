"""Store, SqlServer and Session: databases of our own on somebody's server: made, looked at, marked, copied, dropped."""

from __future__ import annotations

import ipaddress
import json
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Protocol, Self, runtime_checkable

from trimtab.errors import LoadError
from trimtab.records import Endpoint

__all__ = [
    "MARKER_TABLE",
    "KeyedSession",
    "Reason",
    "ServerError",
    "Session",
    "SqlServer",
    "Store",
    "free_bytes_at",
    "is_local",
]

MARKER_TABLE = "trimtab_data"
"""Of an SQL database of ours: one row of JSON."""

_FREED_S = 2.0
"""A server frees the locks of a session that has ended a moment later; one that is held for longer has a living holder."""
_POLL_S = 0.05

Reason = Literal["disk_full", "read_only", "in_use", "no_privilege", "other"]


class ServerError(LoadError):
    """The server refused a statement; `message` has its words, `reason` is what they mean for us."""

    def __init__(self, message: str, *, reason: Reason = "other", hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.reason: Reason = reason


class Session(Protocol):
    """One autocommit connection, closed when its with block is left. Every statement may raise `ServerError`."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of one statement, [] when it has none; `%s` stands for a parameter (only when there are any)."""


@runtime_checkable
class KeyedSession(Session, Protocol):
    """A session of a store of records by key: it has no statements."""

    def n_records(self) -> int:
        """How many records the session's database has."""


class Store(ABC):
    """A server that keeps data, as their preparation sees it, whatever it speaks.

    A database of ours holds a marker: JSON that says what it holds. One without a marker is somebody else's, unless it is empty.

    Attributes:
        endpoint: where, as whom, and the database that a connection enters when no other is named.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint

    @abstractmethod
    def connect(self, database: str | None = None) -> Session:
        """A session without time-outs, whatever the server's config says.

        Raises:
            LoadError: the server does not let us in; the message has its words and never the password.
        """

    @property
    @abstractmethod
    def password(self) -> str | None:
        """The endpoint's password, or the one in the system's own files."""

    def await_lock(self, session: Session, name: str, report: Callable[[str], None]) -> None:
        """Takes the lock of that name until the session ends; `report` is told when another Trimtab holds it."""
        until = time.monotonic() + _FREED_S
        while not self.lock(session, name, wait=False):
            if time.monotonic() > until:
                report(f"another Trimtab is loading {name}; waiting for it")
                self.lock(session, name, wait=True)
                return
            time.sleep(_POLL_S)

    @abstractmethod
    def lock(self, session: Session, name: str, *, wait: bool) -> bool:
        """Takes the lock of that name until the session ends; False when somebody else has it and we do not wait."""

    @abstractmethod
    def exists(self, session: Session, database: str) -> bool:
        """Whether there is such a database."""

    @abstractmethod
    def size_bytes(self, session: Session, database: str) -> int:
        """Bytes of the database on the server's disk, as the server counts them."""

    @abstractmethod
    def create(self, session: Session, database: str) -> None:
        """Makes an empty database for text in UTF-8 with a collation by bytes.

        Raises:
            LoadError: this user may not.
        """

    @abstractmethod
    def read_marker(self, session: Session, database: str) -> dict[str, Any] | None:
        """What the database, to which `session` is connected, says that it holds; None when a load was cut off before it said
        so, and nothing is lost if it is dropped.

        Raises:
            LoadError: the database is somebody else's.
        """

    @abstractmethod
    def write_marker(self, session: Session, content: Mapping[str, Any]) -> None:
        """Replaces what the database, to which `session` is connected, says that it holds: JSON values only."""

    @abstractmethod
    def drop(self, session: Session, database: str) -> None:
        """Drops the database, whoever is connected to it; nothing happens when there is none."""

    def clear(self, session: Session, database: str) -> None:
        """Drops a database of ours, or what is in it where this user could not make it again."""
        self.drop(session, database)

    @abstractmethod
    def clone(self, session: Session, source: str, copy: str) -> None:
        """Makes the database `copy`, with the data of `source` and a mark that `is_clone` knows."""

    @abstractmethod
    def is_clone(self, session: Session, database: str) -> bool:
        """Whether `clone` has made that database, or was killed while it did."""

    def copy_bytes(self, session: Session, source: str) -> int:
        """About how many bytes `clone` writes where the server keeps its data; 0 for next to none, or where that is not known.

        Raises:
            ServerError: there is no such database.
        """
        return 0

    def left_behind(self, session: Session, source: str) -> str:
        """What `clone` leaves out of its copies, for no load can miss it, in a line for people; "" usually.

        Raises:
            ServerError: the server does not say.
        """
        return ""

    def after_copy(self, session: Session) -> str:
        """Lets the server finish what `clone` has left to do; what people should know of it, "" usually."""
        return ""

    def end_sessions(self, session: Session, application: str) -> int:
        """Ends the sessions of clients that called themselves so, and says how many it found; 0 where the server keeps no such
        names: there a session ends when the server next writes to a client that is gone."""
        return 0

    @abstractmethod
    def settle(self, session: Session) -> str:
        """Lets the server finish what a load has left to do; why that was not possible, "" when it was."""

    def remark(self) -> str:
        """What people should know of the servers that a load reaches, in a line; "" usually.

        Raises:
            LoadError: the server does not answer.
        """
        return ""

    @abstractmethod
    def data_directory(self, session: Session) -> str | None:
        """Where the server keeps its data, on its own machine; None when it does not say."""

    def free_bytes(self, session: Session) -> int | None:
        """Free bytes where the server keeps its data; None when they cannot be seen from here."""
        return free_bytes_at(self.endpoint.host, self.data_directory(session))


class SqlServer(Store):
    """A store that speaks SQL."""

    @abstractmethod
    def quote(self, name: str) -> str:
        """`name` as an identifier in a statement."""

    @abstractmethod
    def tables(self, session: Session, database: str) -> tuple[str, ...]:
        """Everything that anybody has made in the database, by name; `session` is connected to it."""

    @abstractmethod
    def fill_table(self, session: Session, table: str, columns: str, key: Sequence[str], rows: Iterable[bytes]) -> int:
        """Makes a table and fills it; `session` is connected to its database, and is of no other use afterwards.

        Args:
            columns: their definitions, in SQL that every server understands.
            key: columns of the primary key.
            rows: in key order, in chunks of whole lines; values are divided by "|" and hold neither that nor "\\".

        Returns:
            the number of rows.
        """

    @abstractmethod
    def analyse(self, session: Session, tables: Sequence[str]) -> None:
        """Gathers the statistics of these tables anew, after large changes."""

    def copy_bytes(self, session: Session, source: str) -> int:
        """As many as the database has."""
        return self.size_bytes(session, source)

    @abstractmethod
    def refusal(self, session: Session, statement: str) -> str:
        """Why the server does not understand `statement`, "" when it does; the statement is not run."""

    @abstractmethod
    def run_script(self, text: str) -> None:
        """Runs several statements, in the endpoint's database.

        Raises:
            ServerError: one of them failed.
        """

    @abstractmethod
    def sample(self, session: Session, table: Sequence[str], column: str, limit: int) -> Sequence[str | int]:
        """The column's values in a random sample of the rows, as text, or as numbers where the server would take a text for
        another value: a value comes as often as the table has it. The next call repeats it on unchanged data."""

    @abstractmethod
    def n_rows(self, session: Session, table: Sequence[str]) -> float:
        """About how many rows the table has, as the server's own statistics have it; 0 where they do not say."""

    @abstractmethod
    def sample_bytes(self, session: Session, table: Sequence[str], limit: int) -> tuple[float, float]:
        """About how much `sample` reads, and how much the table has, in bytes; 0 for what is no table."""

    def bounds(self, session: Session, table: Sequence[str], column: str) -> tuple[Any, Any]:
        """The column's least and greatest value; quick where it has an index."""
        where, what = ".".join(self.quote(part) for part in table), self.quote(column)
        rows = session.execute(f"SELECT min({what}), max({what}) FROM {where}")
        return rows[0][0], rows[0][1]

    def read_marker(self, session: Session, database: str) -> dict[str, Any] | None:
        """See `Store`; a row of a table of its own."""
        tables = self.tables(session, database)
        content: object = None
        if MARKER_TABLE in tables:
            rows = session.execute(f"SELECT content FROM {self.quote(MARKER_TABLE)}")
            if not rows and tables == (MARKER_TABLE,):
                return None
            try:
                content = json.loads(str(rows[0][0])) if rows else None
            except ValueError:
                content = None
        elif not tables:
            return None
        if not isinstance(content, dict):
            raise LoadError(
                f"database={database} exists and was not made by Trimtab",
                hint='name another one: database = "..." in [workload]; Trimtab creates it',
            )
        return content

    def write_marker(self, session: Session, content: Mapping[str, Any]) -> None:
        """See `Store`; in one transaction."""
        table = self.quote(MARKER_TABLE)
        # With a key: a MySQL that requires one of every table makes no other, and some clusters write to no other.
        session.execute(
            f"CREATE TABLE IF NOT EXISTS {table} (id int NOT NULL DEFAULT 1 PRIMARY KEY, content text NOT NULL)"
        )
        session.execute("START TRANSACTION")
        session.execute(f"DELETE FROM {table}")
        session.execute(f"INSERT INTO {table} (content) VALUES (%s)", (json.dumps(content),))
        session.execute("COMMIT")


def is_local(host: str) -> bool:
    """Whether `host` names this machine without a look-up: a socket, localhost or a loopback address."""
    if host.startswith("/") or host in ("", "localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def free_bytes_at(host: str, directory: str | None) -> int | None:
    """Free bytes of the volume that holds `directory` of `host`; None when `host` is another machine or we may not look."""
    if directory is None or not is_local(host):
        return None
    try:
        return shutil.disk_usage(directory).free
    except OSError:
        return None
