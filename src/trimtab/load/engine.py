"""Engine: a WiredTiger that is open in this process, with the databases that a load runs on, each of one table.

The engine's own Python module opens it and does everything that is rare; the load calls its library directly. A database is
one table of records. Its name leads to that table through a table of ours, so that a copy, or a table made anew with other
settings, takes the place of the old one in one step: whatever kills the process, each name leads to whole data.

A table is made with the settings that were in the file then. When the engine is opened with others, a load first makes the table
that it uses anew from the old one; a copy has the new settings anyway.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trimtab._native import WiredTiger

__all__ = ["PANIC", "Engine", "EngineError", "nested", "read_settings"]

PANIC = "WT_PANIC"
"""In the words of an engine that cannot go on: its process must end."""

_MAJOR = 11
_NAMES = "table:trimtab_names"
_RAW = "key_format=u,value_format=u"
_TABLE = "table."
_FIXED = "create,statistics=(fast),session_max=1200"
"""What no setting may change: the load's users need sessions, and the counters need statistics."""

_RECONFIGURED = (
    "cache_max_wait_ms", "cache_overhead", "cache_size", "checkpoint.", "eviction_checkpoint_target", "eviction_dirty_target",
    "eviction_dirty_trigger", "eviction_target", "eviction_trigger", "eviction_updates_target",
    "eviction_updates_trigger", "file_manager.", "io_capacity.", "log.prealloc", "log.remove", "lsm_manager.",
)  # fmt: skip
"""Names, or their beginnings, of what the engine takes while it is open. The number of its eviction threads is left out: it may
wait for minutes for a thread that has to end and goes on evicting."""


_BATCH = 1000
"""Records that are copied between two signs of life."""

_COUNTS = re.compile(
    r"block-manager: (blocks|bytes|mapped blocks|mapped bytes) (read|written|pre-loaded)|"
    r"cache: (application threads page (read|write)|bytes (read into|written from)|"
    r"eviction (calls|worker thread evicting|passes)|"
    r"modified pages evicted|unmodified pages evicted|pages (read into|written from|requested from)|forced eviction)|"
    r"connection: (total (read|write|fsync) I/Os|memory (allocations|frees|re-allocations)|pthread mutex)|"
    r"cursor: cursor (create|insert|next|prev|remove|reset|search|update|modify)[a-z ]* calls|"
    r"LSM: (bloom filter (hits|misses)|rows merged|application work units)|"
    r"log: (log (bytes|operations|records|sync|write)|total log buffer)|"
    r"transaction: (transaction begins|transactions (committed|rolled back)|update conflicts)"
)
"""Names of what only grows; the others are states, maxima and averages."""


class EngineError(Exception):
    """The engine refuses, in its own words."""


def read_settings(path: Path) -> dict[str, str]:
    """The settings of a file of `name = value` lines; "#" begins a comment. Nothing where there is no file.

    Raises:
        EngineError: a line that is none.
    """
    settings: dict[str, str] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return settings
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        name, sign, value = text.partition("=")
        if not sign:
            raise EngineError(f"{path}:{number}: {text!r} is not name = value")
        settings[name.strip()] = value.strip()
    return settings


def nested(settings: Mapping[str, str]) -> str:
    """Settings as the engine writes them: `eviction.threads_max` becomes `eviction=(threads_max=...)`."""
    groups: dict[str, dict[str, str]] = {}
    parts = []
    for name, value in settings.items():
        head, dot, rest = name.partition(".")
        if dot:
            groups.setdefault(head, {})[rest] = value
        else:
            parts.append(f"{name}={value}")
    return ",".join([*parts, *(f"{head}=({nested(inner)})" for head, inner in groups.items())])


class Engine:
    """Opens the engine in a folder.

    Args:
        folder: of its files; made when it is not there.
        settings: by name.
        say: takes a line for people.

    Attributes:
        settings: that it runs with.

    Raises:
        EngineError: the engine is not installed, or does not open.
    """

    def __init__(self, folder: Path, settings: Mapping[str, str], say: Any = lambda text: None) -> None:
        try:
            import wiredtiger
        except ImportError as error:
            raise EngineError(
                "the Python module wiredtiger is not installed: pip install 'trimtab[wiredtiger]' (docs/reference/wiredtiger.md)"
            ) from error
        self._module, self._say = wiredtiger, say
        self._refused = wiredtiger.WiredTigerError
        self.settings = dict(settings)
        self._lent = threading.local()
        if _version(wiredtiger)[1] != _MAJOR:
            raise EngineError(f"{_version(wiredtiger)[0]} is not known to the load: use WiredTiger {_MAJOR}")
        folder.mkdir(parents=True, exist_ok=True)
        with self._words("the engine does not open"):
            self._connection = wiredtiger.wiredtiger_open(str(folder), self._open_config())
        self._lock, self._renewing = threading.Lock(), threading.Lock()
        with self._session() as session:
            session.create(_NAMES, _RAW)
        self._clear()

    @property
    def version(self) -> str:
        """As the engine writes it."""
        return str(_version(self._module)[0])

    def _open_config(self) -> str:
        own = {name: value for name, value in self.settings.items() if not name.startswith(_TABLE)}
        return f"{_FIXED},{nested(own)}"

    @property
    def _table_config(self) -> str:
        own = {name.removeprefix(_TABLE): value for name, value in self.settings.items() if name.startswith(_TABLE)}
        own = {name: "" if (name, value) == ("block_compressor", "none") else value for name, value in own.items()}
        return f"{_RAW},{nested(own)}"

    @property
    def _kind(self) -> str:
        """Stands for the settings of tables in their names."""
        return hashlib.sha256(self._table_config.encode()).hexdigest()[:12]

    @contextmanager
    def _words(self, what: str) -> Iterator[None]:
        try:
            yield
        except self._refused as error:
            raise EngineError(f"{what}: {error}") from error

    @contextmanager
    def _session(self) -> Iterator[Any]:
        with self._words("the engine refuses"):
            session = self._connection.open_session()
            try:
                yield session
            finally:
                session.close()

    def names(self) -> dict[str, dict[str, Any]]:
        """Database -> `table` that it is in, and `marker`."""
        with self._session() as session:
            cursor = session.open_cursor(_NAMES)
            return {bytes(key).decode(): json.loads(bytes(value)) for key, value in cursor}

    def _put(self, session: Any, name: str, row: Mapping[str, Any] | None) -> None:
        cursor = session.open_cursor(_NAMES)
        cursor.set_key(name.encode())
        if row is None:
            cursor.remove()
        else:
            cursor.set_value(json.dumps(row).encode())
            cursor.insert()
        cursor.close()
        # Without the log a name counts from the next checkpoint on, like the table that it leads to.
        session.checkpoint()

    def _tables(self, session: Any) -> list[str]:
        cursor = session.open_cursor("metadata:")
        found = [key.removeprefix("table:") for key, _ in cursor if key.startswith("table:")]
        cursor.close()
        return [name for name in found if f"table:{name}" != _NAMES]

    def _clear(self) -> None:
        """Drops tables to which no name leads: a process was killed while it made or dropped them."""
        used = {row["table"] for row in self.names().values()}
        with self._session() as session:
            for table in self._tables(session):
                if table not in used:
                    session.drop(f"table:{table}", "force")

    def _new_table(self, session: Any, name: str) -> str:
        taken = {row["table"] for row in self.names().values()} | set(self._tables(session))
        table = next(t for i in range(len(taken) + 1) if (t := f"{name}.{self._kind}.{i}") not in taken)
        session.create(f"table:{table}", self._table_config)
        return table

    def create(self, name: str) -> None:
        """Makes an empty database."""
        with self._lock, self._session() as session:
            table = self._new_table(session, name)
            self._put(session, name, {"table": table, "kind": self._kind, "marker": None, "is_clone": False})

    def copy(self, source: str, name: str) -> None:
        """Makes `name` a copy of the database `source`; one that is there is replaced."""
        self._fill(name, {**self._row(source), "is_clone": True})

    def renew(self, name: str, alive: Callable[[], None] = lambda: None) -> None:
        """Makes the table of a database again where it has other settings than those in use; `alive` is called all the while.

        Raises:
            EngineError: there is no such database, or the engine refuses.
        """
        with self._renewing:
            if (row := self._row(name))["kind"] != self._kind:
                self._say(f"making {name} again with the new settings of tables")
                self._fill(name, row, alive)

    def _fill(self, name: str, source: Mapping[str, Any], alive: Callable[[], None] = lambda: None) -> None:
        """Makes `name` anew with the records of a table; nothing is left of a copy that does not come to its end."""
        with self._lock, self._session() as session:
            old = self.names().get(name, {}).get("table")
            table = self._new_table(session, name)
            records, bulk = (
                session.open_cursor(f"table:{source['table']}"),
                session.open_cursor(f"table:{table}", None, "bulk"),
            )
            try:
                for number, (key, value) in enumerate(records):
                    bulk[key] = value
                    if number % _BATCH == 0:
                        alive()
            except BaseException:
                with suppress(self._refused):
                    records.close()
                    bulk.close()
                    session.drop(f"table:{table}", "force")
                raise
            records.close()
            bulk.close()
            self._put(session, name, {**source, "table": table, "kind": self._kind})
            if old is not None:
                session.drop(f"table:{old}", "force")

    def _row(self, name: str) -> dict[str, Any]:
        row = self.names().get(name)
        if row is None:
            raise EngineError(f"there is no database={name!r}")
        return row

    def mark(self, name: str, marker: Mapping[str, Any]) -> None:
        """Writes what a database says that it holds."""
        with self._lock, self._session() as session:
            self._put(session, name, {**self._row(name), "marker": dict(marker)})

    def drop(self, name: str) -> None:
        """Drops a database; nothing happens when there is none."""
        row = self.names().get(name)
        if row is not None:
            with self._lock, self._session() as session:
                self._put(session, name, None)
                session.drop(f"table:{row['table']}", "force")

    def count(self, name: str) -> int:
        """How many records a database has."""
        row = self._row(name)
        with self._session() as session:
            return sum(1 for _ in session.open_cursor(f"table:{row['table']}"))

    def statistics(self) -> dict[str, float]:
        """What the engine counts, and does not set back, by its own names: "cache: bytes read into cache"."""
        with self._session() as session:
            cursor = session.open_cursor("statistics:")
            rows = ((str(name), float(value)) for name, _, value in (row[-3:] for row in cursor))
            return {name: value for name, value in rows if _COUNTS.match(name)}

    def reconfigure(self, settings: Mapping[str, str], back: Mapping[str, str] | None = None) -> None:
        """Takes what can be taken while it is open. What `settings` do not name stays as it is, but for `back`, which has these
        values again: the engine begins with its settings of now, and none can be unset.

        Raises:
            EngineError: the engine refuses a value.
        """
        wanted = {**settings, **(back or {})}
        taken = {name: value for name, value in wanted.items() if name.startswith(_RECONFIGURED)}
        with self._words("the engine refuses the settings"):
            self._connection.reconfigure(nested(taken))
        self.settings |= taken

    def checkpoint(self) -> None:
        """Writes everything to disk."""
        with self._session() as session:
            session.checkpoint()

    def cursors(self, name: str, users: int) -> tuple[list[int], str]:
        """Addresses of open cursors for so many users, each in a session of its own, until `release` is called in this thread;
        and the table that they are of, which has the settings in use.

        Raises:
            EngineError: there is no such database, or no room for so many sessions.
        """
        self.renew(name)
        table = self._row(name)["table"]
        with self._words("the engine refuses"):
            sessions = self._lent.sessions = []
            for _ in range(users):  # one by one: those that were opened are closed when there is no room for the next
                sessions.append(self._connection.open_session())
            cursors = [s.open_cursor(f"table:{table}", None, "overwrite=false") for s in sessions]
        return [int(cursor.this) for cursor in cursors], table

    def driver(self, name: str, users: int) -> WiredTiger:
        """The way of a load of so many users to a database, until `release` is called in this thread.

        Raises:
            ValueError: there is no such database, no room for so many sessions, or the library is of another kind.
        """
        from trimtab._native import WiredTiger

        try:
            cursors, table = self.cursors(name, users)
        except EngineError as error:
            self.release()
            raise ValueError(str(error)) from error
        return WiredTiger(cursors=cursors, table=table)

    def release(self) -> None:
        """Closes the sessions of the load that this thread has started, which is over."""
        for session in getattr(self._lent, "sessions", ()):
            with suppress(self._refused):
                session.close()
        self._lent.sessions = []

    def close(self) -> None:
        """Writes a checkpoint and closes; nobody may use the engine any more."""
        with self._words("the engine does not close"):
            self._connection.close()


def _version(module: Any) -> tuple[str, int]:
    text, major, *_ = module.wiredtiger_version()
    return str(text), int(major)
