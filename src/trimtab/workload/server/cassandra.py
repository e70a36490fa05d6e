"""Cassandra: keyspaces of our own over CQL, without a client library besides the engine's own."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from trimtab.errors import InternalError, LoadError, TargetError
from trimtab.host import FileLock, LocalHost
from trimtab.workload.server.base import MARKER_TABLE, Reason, ServerError, Session, Store
from trimtab.workload.server.sstables import keep_files, linked_files, remove_unused

if TYPE_CHECKING:
    from trimtab._native import Cql, CqlConsole

__all__ = ["CassandraServer", "CqlSession"]

T = TypeVar("T")

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,47}")
_CONNECT_S = 30.0
_STATEMENT_S = 120.0
"""Longer than the node's own time-outs; schema changes and truncations take seconds."""
_COPY_S = 86_400.0
_CALM_S = 60.0
_POLL_S = 0.2
_AGREEMENT_S = 10.0
"""The other nodes of a ring learn a new schema within a second; one that is gone never does."""
_SCHEMA = re.compile(r"\s*(?:create|alter|drop)\b", re.IGNORECASE)
_MARK = "a copy made by Trimtab"
_MB = 1 << 20


class CqlSession:
    """A `Session` over the engine's own driver; rows are texts.

    Attributes:
        console: the connection.
        locks: held until it is closed.
    """

    def __init__(self, console: CqlConsole) -> None:
        self.console = console
        self.locks: list[FileLock] = []
        self._agreement_s = _AGREEMENT_S

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.console.close()
        for lock in self.locks:
            lock.release()

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows; `%s` stands for a text or a whole number. A change of the schema is known to all nodes at its end."""
        rows = self._rows(statement % tuple(map(_literal, parameters)) if parameters else statement)
        if _SCHEMA.match(statement):
            self._agree()
        return rows

    def _rows(self, text: str) -> list[tuple[Any, ...]]:
        return _told(lambda: [tuple(row) for row in self.console.rows(text, timeout_s=_STATEMENT_S)])

    def _agree(self) -> None:
        """Waits until the other nodes have this node's schema; not again for those that did not get it in time."""
        until = time.monotonic() + self._agreement_s
        while True:
            tables = (self._rows(f"SELECT schema_version FROM system.{table}") for table in ("local", "peers_v2"))
            if len({version for rows in tables for (version,) in rows if version is not None}) < 2:
                return
            if time.monotonic() > until:
                self._agreement_s = 0.0
                return
            time.sleep(_POLL_S)

    def copy(self, select: str, insert: str) -> int:
        """Writes what `select` gives with `insert`; how many rows."""
        return _told(lambda: self.console.copy(select, insert, timeout_s=_COPY_S))


def _told(ask: Callable[[], T]) -> T:
    """What the node answers; its refusal as an error of ours."""
    try:
        return ask()
    except PermissionError as error:
        raise ServerError(str(error), reason="no_privilege") from error
    except (OSError, ValueError) as error:
        reason: Reason = "disk_full" if "No space left" in str(error) else "other"
        raise ServerError(str(error), reason=reason) from error


def _literal(value: Any) -> str:
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class CassandraServer(Store):
    """See `Store`; a database is a keyspace."""

    _note = ""
    """Of the last copy: what people should know of how it was made."""

    def connect(self, database: str | None = None) -> CqlSession:
        """See `Store`; at consistency QUORUM."""
        from trimtab._native import CqlConsole

        with self._reached():
            return CqlSession(CqlConsole(self._driver(database), timeout_s=_CONNECT_S))

    def _driver(self, database: str | None) -> Cql:
        from trimtab._native import Cql

        there = self.endpoint
        return Cql(
            host=there.host,
            port=there.port,
            user=there.user,
            password=there.password,
            database=there.database if database is None else database,
            tls=there.options.get("sslmode", "disable"),
            root_certificates=there.options.get("sslrootcert"),
            certificate=there.options.get("sslcert"),
            key=there.options.get("sslkey"),
        )

    @contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            raise LoadError(
                f"cannot connect: endpoint={self.endpoint}: {error}",
                hint="check that the node runs and that this user may log in",
            ) from error

    def remark(self) -> str:
        """See `Store`; the nodes of a ring that a load speaks to, and why it does not speak to the others."""
        if self.endpoint.options.get("token_aware") == "no":
            return ""
        with self._reached():
            nodes = self._driver("").nodes(timeout_s=_CONNECT_S)
        left_out = [f"{name} ({why})" for name, why in nodes if why]
        if len(nodes) == 1:
            return ""
        text = f"a ring of {len(nodes)} nodes: the load sends each operation to a node that has the row"
        return f"{text}; left out: {', '.join(left_out)}" if left_out else text

    @property
    def password(self) -> str | None:
        """The endpoint's."""
        return self.endpoint.password

    def lock(self, session: Session, name: str, *, wait: bool) -> bool:
        """A file of this machine: the node itself has no locks."""
        digest = hashlib.sha256(f"{self.endpoint.host}:{self.endpoint.port}/{name}".encode()).hexdigest()[:16]
        folder = Path(tempfile.gettempdir()) / f"trimtab-{os.geteuid()}"
        lock = FileLock(folder / f"cassandra-{digest}.lock")
        while not lock.acquire(f"pid={os.getpid()}"):
            if not wait:
                return False
            time.sleep(_POLL_S)
        if isinstance(session, CqlSession):
            session.locks.append(lock)
        return True

    def exists(self, session: Session, database: str) -> bool:
        """By the schema's own tables."""
        found = "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = %s"
        return bool(session.execute(found, (database,)))

    def size_bytes(self, session: Session, database: str) -> int:
        """Of what was flushed, as the node tells it in whole megabytes."""
        rows = session.execute("SELECT keyspace_name, mebibytes FROM system_views.disk_usage")
        return sum(int(size or 0) for keyspace, size in rows if keyspace == database) * _MB

    def create(self, session: Session, database: str) -> None:
        """A copy of each row on up to three nodes."""
        if _NAME.fullmatch(database) is None:
            raise LoadError(
                f"database={database!r} cannot be the name of a keyspace",
                hint="a name there has up to 48 letters, digits and _, a letter first (a copy's has 4 more)",
            )
        n_nodes = 1 + len(session.execute("SELECT peer FROM system.peers_v2"))
        replication = f"{{'class': 'SimpleStrategy', 'replication_factor': {min(3, n_nodes)}}}"
        session.execute(f"CREATE KEYSPACE {_quoted(database)} WITH replication = {replication}")

    def _tables(self, session: Session, database: str) -> dict[str, str]:
        """Name -> comment."""
        found = "SELECT table_name, comment FROM system_schema.tables WHERE keyspace_name = %s"
        return {str(name): str(comment or "") for name, comment in session.execute(found, (database,))}

    def read_marker(self, session: Session, database: str) -> dict[str, Any] | None:
        """See `Store`; a row of a table of its own."""
        tables = self._tables(session, database)
        if not tables:
            return None
        content: object = None
        if MARKER_TABLE in tables:
            rows = session.execute(f"SELECT content FROM {_quoted(database)}.{MARKER_TABLE} WHERE id = 0")
            if not rows and set(tables) == {MARKER_TABLE}:
                return None
            content = json.loads(str(rows[0][0])) if rows else None
        if not isinstance(content, dict):
            raise LoadError(
                f"database={database} exists and was not made by Trimtab",
                hint='name another one: database = "..." in [workload]; Trimtab creates it',
            )
        return content

    def write_marker(self, session: Session, content: Mapping[str, Any]) -> None:
        """See `Store`; one row, which is written whole."""
        session.execute(f"CREATE TABLE IF NOT EXISTS {MARKER_TABLE} (id int PRIMARY KEY, content text)")
        session.execute(f"INSERT INTO {MARKER_TABLE} (id, content) VALUES (0, %s)", (json.dumps(content),))

    def drop(self, session: Session, database: str) -> None:
        """With its snapshot, where the node takes one (auto_snapshot)."""
        session.execute(f"DROP KEYSPACE IF EXISTS {_quoted(database)}")

    def clone(self, session: Session, source: str, copy: str) -> None:
        """Table by table: the files of one of ours are linked where the endpoint says how; otherwise each row is written."""
        self._note = ""
        if "copies.load" in self.endpoint.options and MARKER_TABLE in self._tables(session, source):
            # Of a copy that was interrupted: the node knew nothing of its files when it dropped the tables.
            folder = Path(self.data_directory(session) or "/nonexistent") / copy
            remove_unused(folder)
            if self._is_calm(session, source) and self._cloned(session, source, copy, are_linked=True):
                return
            self._note = f"the files of {source} could not be linked for {copy}: its rows were written one by one"
            self.drop(session, copy)
            remove_unused(folder)
        self._cloned(session, source, copy, are_linked=False)

    def _cloned(self, session: Session, source: str, copy: str, *, are_linked: bool) -> bool:
        """Makes the copy; False where files cannot be linked, or the node does not take them."""
        self.create(session, copy)
        for kind, table, text in self._described(session, source):
            if kind != "table":
                raise LoadError(
                    f"database={source} cannot be copied as a whole ({kind}: {table})",
                    hint='choose start_state = "none", or give a keyspace of plain tables',
                )
            if table == MARKER_TABLE:
                continue
            made = re.sub(r"^(CREATE TABLE )\S+?\.", rf"\g<1>{_quoted(copy)}.", text, count=1)
            session.execute(re.sub(r"comment = '[^']*'", f"comment = '{_MARK}'", made, count=1))
            self._give_options(session, copy, table)
            if not are_linked:
                self._copy_rows(session, source, copy, table)
            elif not self._linked(session, source, copy, table):
                return False
            # A node flushes a table whose schema has changed: what the run reads is in files, which the options are about.
            session.execute(f"ALTER TABLE {_quoted(copy)}.{_quoted(table)} WITH comment = '{_MARK}, whole'")
        return True

    def _is_calm(self, session: Session, source: str) -> bool:
        """Whether all rows of a keyspace are in files of this node alone that nothing writes now."""
        if session.execute("SELECT peer FROM system.peers_v2") or not self._called(
            "copies.flush", {"keyspace": source}
        ):
            return False
        return not self.settle(session)

    def _give_options(self, session: Session, copy: str, table: str) -> None:
        """Those that the target says for tables of a load, before the rows are written.

        Raises:
            LoadError: the node refuses them.
        """
        options = self.endpoint.options.get("tables")
        if not options:
            return
        try:
            session.execute(f"ALTER TABLE {_quoted(copy)}.{_quoted(table)} WITH {options}")
        except ServerError as error:
            raise LoadError(
                f"the node refuses the options of table {copy}.{table}: {options}: {error.message}",
                hint="leave the knob out that it does not know, or give it another range",
            ) from error

    def _described(self, session: Session, database: str) -> list[tuple[str, str, str]]:
        rows = session.execute(f"DESCRIBE KEYSPACE {_quoted(database)}")
        return [(str(kind), str(name), str(text)) for _, kind, name, text in rows if kind != "keyspace"]

    def _linked(self, session: Session, source: str, copy: str, table: str) -> bool:
        """Whether the copy's table has got the files of the source's. It has not where there are several folders, where the files
        are not on this machine or not ours to read, or where the node does not take them."""
        rows = session.execute("SELECT value FROM system_views.settings WHERE name = 'data_file_directories'")
        if not rows or "," in str(rows[0][0]):
            return False
        old, new = (self._folder(session, each, table) for each in (source, copy))
        if not linked_files(old, new) or not self._called("copies.load", {"keyspace": copy, "table": table}):
            return False
        keep_files(new)
        return True

    def _called(self, key: str, names: Mapping[str, str]) -> bool:
        """Whether the node has done what an option of the endpoint asks for, in a process beside it."""
        words = shlex.split(self.endpoint.options[key])
        for name, text in names.items():
            words = [word.replace(f"{{{name}}}", text) for word in words]
        try:
            return LocalHost().run(words, timeout_s=_STATEMENT_S).exit_code == 0
        except TargetError:
            return False

    def _folder(self, session: Session, database: str, table: str) -> Path:
        """Where the files of a table are, below the first of the node's folders."""
        found = "SELECT id FROM system_schema.tables WHERE keyspace_name = %s AND table_name = %s"
        ids = session.execute(found, (database, table))
        mark = str(ids[0][0]).replace("-", "") if ids else "none"
        return Path(self.data_directory(session) or "/nonexistent") / database / f"{table}-{mark}"

    def _copy_rows(self, session: Session, source: str, copy: str, table: str) -> None:
        found = "SELECT column_name FROM system_schema.columns WHERE keyspace_name = %s AND table_name = %s"
        columns = [_quoted(str(name)) for (name,) in session.execute(found, (source, table))]
        listed, places = ", ".join(columns), ", ".join("?" for _ in columns)
        if not isinstance(session, CqlSession):
            raise InternalError("a keyspace is copied over another kind of session")
        session.copy(
            f"SELECT {listed} FROM {_quoted(source)}.{_quoted(table)}",
            f"INSERT INTO {_quoted(copy)}.{_quoted(table)} ({listed}) VALUES ({places})",
        )

    def is_clone(self, session: Session, database: str) -> bool:
        """Marked in its tables' comments, or so empty that nobody misses it."""
        return all(comment.startswith(_MARK) for comment in self._tables(session, database).values())

    def settle(self, session: Session) -> str:
        """Waits until nothing is flushed or compacted, a minute at most."""
        until = time.monotonic() + _CALM_S
        while self._flushes(session) or session.execute("SELECT keyspace_name FROM system_views.sstable_tasks"):
            if time.monotonic() > until:
                return (
                    f"flushes or compactions are still under way after {_CALM_S:g} s: the next run begins during them"
                )
            time.sleep(_POLL_S)
        return ""

    def _flushes(self, session: Session) -> bool:
        """Whether a memtable is being written, or waits for that."""
        rows = session.execute("SELECT name, active_tasks, pending_tasks FROM system_views.thread_pools")
        return any("Memtable" in str(name) and int(active or 0) + int(waiting or 0) for name, active, waiting in rows)

    def after_copy(self, session: Session) -> str:
        """The same: what was copied is compacted; and that files could not be linked."""
        return "; ".join(filter(None, (self._note, self.settle(session))))

    def data_directory(self, session: Session) -> str | None:
        """The first of them, as the node says."""
        rows = session.execute("SELECT value FROM system_views.settings WHERE name = 'data_file_directories'")
        found = re.match(r"\[?([^,\]]+)", str(rows[0][0] or "")) if rows else None
        return found[1].strip() if found is not None else None
