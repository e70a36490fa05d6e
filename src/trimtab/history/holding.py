"""Holding: of all processes that use a history, which one goes on with a study, and which one takes studies in; one that has
died holds nothing."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from trimtab.errors import HistoryError
from trimtab.history.schema import beside

__all__ = ["DatabaseHolding", "FileHolding", "Holding", "holding_of"]

_KIND = 0x7472696D
"""First of the two numbers of an advisory lock of ours; the second is the study's."""

_IMPORT = 0
"""Stands in the place of a study's number for who takes studies in: those begin at 1."""

_LASTING = text(
    "select set_config(name, '0', false) from pg_settings"
    " where name in ('idle_session_timeout', 'lock_timeout', 'statement_timeout')"
)
"""Takes the limits of a server, a role or a database off a connection whose locks last for hours, or that waits for one."""

_NO_LOCKS = (errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""What a file system says that has none; then nothing is held against others there."""


class Holding:
    """Of a history that no other process can reach; the others derive from it. Threads may share it."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        """Locks of files and of databases do not tell the threads of one holder apart."""

    @contextlib.contextmanager
    def importing(self) -> Iterator[None]:
        """Waits until nobody else is inside, in this process or another, however long that takes."""
        with self._turn, self._import_lock():
            yield

    def _import_lock(self) -> contextlib.AbstractContextManager[None]:
        """Keeps other processes out."""
        return contextlib.nullcontext()

    def take(self, study_id: int) -> bool:
        """Takes the study; False at once while another process has it. What is held already may be taken again."""
        return True

    def let_go(self, study_id: int) -> None:
        """Gives it back. Idempotent."""

    def close(self) -> None:
        """Gives everything back. Idempotent."""


class FileHolding(Holding):
    """Of a SQLite file: a lock on one byte for each study, in an empty file beside it."""

    def __init__(self, database: Path) -> None:
        super().__init__()
        self._database, self._path = database, beside(database, "-held")
        self._handle: int | None = None
        self._lock = threading.Lock()

    def take(self, study_id: int) -> bool:
        """As promised above.

        Raises:
            HistoryError: the file beside the history cannot be made.
        """
        with self._lock:
            if self._handle is None:
                self._handle = self._opened()
            try:
                _set(self._handle, fcntl.F_WRLCK, study_id)
            except OSError as error:
                return error.errno in _NO_LOCKS
            return True

    @contextlib.contextmanager
    def _import_lock(self) -> Iterator[None]:
        """By a handle of its own: whoever waits keeps nobody from taking a study."""
        handle = self._opened()
        try:
            try:
                _set(handle, fcntl.F_WRLCK, _IMPORT, fcntl.F_OFD_SETLKW)
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
            yield
        finally:
            os.close(handle)

    def _opened(self) -> int:
        """Whoever may write the history may write this: root gives it to the history's owner, as SQLite does with its own."""
        try:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            own, wanted = os.fstat(handle), self._database.stat()
            if own.st_uid == os.geteuid():
                is_other = (own.st_uid, own.st_gid) != (wanted.st_uid, wanted.st_gid)
                if is_other and own.st_nlink == 1 and not own.st_size:  # nothing of root's was put in its place
                    with contextlib.suppress(OSError):  # a group that this user is not in, or a disk without owners
                        os.fchown(handle, wanted.st_uid if own.st_uid == 0 else -1, wanted.st_gid)
                if own.st_mode & 0o777 != (mode := wanted.st_mode & 0o666):
                    os.fchmod(handle, mode)
        except OSError as error:
            raise HistoryError(
                f"cannot use file={str(self._path)!r}, which shows who goes on with a study: {error.strerror}",
                hint="make it writable, or give another path for the history",
            ) from error
        return handle

    def let_go(self, study_id: int) -> None:
        """Gives it back. Idempotent."""
        with self._lock:
            if self._handle is not None:
                try:
                    _set(self._handle, fcntl.F_UNLCK, study_id)
                except OSError as error:
                    if error.errno not in _NO_LOCKS:
                        raise

    def close(self) -> None:
        """Gives everything back. Idempotent."""
        with self._lock:
            if self._handle is not None:
                os.close(self._handle)
                self._handle = None


def _set(handle: int, how: int, study_id: int, command: int = fcntl.F_OFD_SETLK) -> None:
    """A lock of the open file and not of the process: other handles of it here are others, and closing them frees nothing."""
    fcntl.fcntl(handle, command, struct.pack("hhqqi", how, os.SEEK_SET, study_id, 1, 0))


class DatabaseHolding(Holding):
    """Of a PostgreSQL database: advisory locks of one connection, which the server drops with it.

    A connection that is lost takes the locks with it until the next `take`, which takes them again where nobody else has them;
    meanwhile two trials of one number cannot be kept.
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._connection: Connection | None = None
        self._held: set[int] = set()
        self._lock = threading.Lock()

    def take(self, study_id: int) -> bool:
        """As promised above; may raise the driver's errors."""
        with self._lock:
            if study_id in self._held:
                return True
            try:
                is_ours = self._asked("pg_try_advisory_lock", study_id)
            except DBAPIError:  # the server may have been started anew, hours after it was last asked
                self._drop()
                is_ours = self._asked("pg_try_advisory_lock", study_id)
            if is_ours:
                self._held.add(study_id)
            return is_ours

    def _asked(self, function: str, study_id: int) -> bool:
        if self._connection is None:
            self._connection = self._engine.connect()
            self._connection.execute(_LASTING)
            for each in sorted(self._held):
                self._asked("pg_try_advisory_lock", each)
        values = {"kind": _KIND, "study": study_id}
        return bool(self._connection.scalar(text(f"select {function}(:kind, :study)"), values))

    @contextlib.contextmanager
    def _import_lock(self) -> Iterator[None]:
        """Over a connection of its own: whoever waits keeps nobody from taking a study. May raise the driver's errors."""
        values = {"kind": _KIND, "study": _IMPORT}
        with self._engine.connect() as connection:
            connection.execute(_LASTING)
            connection.execute(text("select pg_advisory_lock(:kind, :study)"), values)
            try:
                yield
            finally:
                try:
                    connection.execute(text("select pg_advisory_unlock(:kind, :study)"), values)
                except SQLAlchemyError:  # with the connection the lock is gone
                    connection.invalidate()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.invalidate()
            self._connection.close()
            self._connection = None

    def let_go(self, study_id: int) -> None:
        """Gives it back. Idempotent."""
        with self._lock:
            if study_id not in self._held:
                return
            self._held.remove(study_id)
            try:
                self._asked("pg_advisory_unlock", study_id)
            except DBAPIError:  # with the connection the lock is gone
                self._drop()

    def close(self) -> None:
        """Gives everything back. Idempotent."""
        with self._lock:
            held, self._held = self._held, set()
            if self._connection is not None and held:
                # The server drops a connection's locks only a moment after the connection has gone.
                with contextlib.suppress(SQLAlchemyError):
                    for each in held:
                        self._asked("pg_advisory_unlock", each)
            self._drop()


def holding_of(engine: Engine) -> Holding:
    """Of the history that `engine` reaches."""
    if engine.dialect.name == "postgresql":
        return DatabaseHolding(engine)
    name = engine.url.database
    return FileHolding(Path(name)) if name and name != ":memory:" else Holding()
