"""WiredTigerStore: the databases of an engine that is open in a process of its own; each is one table of records."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from trimtab.errors import LoadError
from trimtab.load.engine import PANIC, EngineError
from trimtab.load.wiredtiger import ask
from trimtab.workload.server.base import ServerError, Store

__all__ = ["EngineSession", "WiredTigerStore"]


@dataclass(slots=True)
class EngineSession:
    """What may be asked of the process of the engine, about one of its databases; it holds the locks that were taken in it."""

    socket: str
    database: str = ""
    locks: list[int] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self.locks:
            os.close(each)
        self.locks.clear()

    def ask(self, do: str, **values: Any) -> Any:
        """What the process answers.

        Raises:
            ServerError: the engine refuses.
            LoadError: the process is gone.
        """
        try:
            return ask(self.socket, {"do": do, **values})
        except EngineError as error:
            is_full, is_damaged = "No space left" in str(error), PANIC in str(error)
            hint = f"if the target's log shows damaged files, remove {Path(self.socket).parent}: it is made again"
            raise ServerError(
                str(error), reason="disk_full" if is_full else "other", hint=hint if is_damaged else None
            ) from error
        except OSError as error:
            raise LoadError(
                f"the engine's process does not answer: socket={self.socket}: {error.strerror or error}",
                hint="see the target's log",
            ) from error

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Never.

        Raises:
            ServerError: always.
        """
        raise ServerError(f"an engine knows no statements: {statement[:40]!r}")

    def n_records(self) -> int:
        """How many records the database has."""
        return int(self.ask("count", name=self.database))


class WiredTigerStore(Store):
    """See `Store`."""

    password = None

    def connect(self, database: str | None = None) -> EngineSession:
        """A session; nothing is kept open."""
        session = EngineSession(self.endpoint.host, database or self.endpoint.database)
        session.ask("names")
        return session

    @property
    def _folder(self) -> Path:
        return Path(self.endpoint.host).parent

    def lock(self, session: Any, name: str, *, wait: bool) -> bool:
        """By a file beside the engine's."""
        descriptor = os.open(self._folder / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            os.close(descriptor)
            return False
        session.locks.append(descriptor)
        return True

    def exists(self, session: Any, database: str) -> bool:
        """Whether there is such a database."""
        return database in session.ask("names")

    def size_bytes(self, session: Any, database: str) -> int:
        """Of the files of its table."""
        table = session.ask("names")[database]["table"]
        return sum(path.stat().st_size for path in self._folder.glob(f"{table}*"))

    def create(self, session: Any, database: str) -> None:
        """An empty one."""
        session.ask("create", name=database)

    def read_marker(self, session: Any, database: str) -> dict[str, Any] | None:
        """What it says that it holds; whatever the engine has under a name is ours."""
        marker: dict[str, Any] | None = session.ask("names")[database]["marker"]
        return marker

    def write_marker(self, session: Any, content: Mapping[str, Any]) -> None:
        """Replaces it."""
        session.ask("mark", name=session.database, marker=dict(content))

    def drop(self, session: Any, database: str) -> None:
        """Drops it; nothing happens when there is none."""
        session.ask("drop", name=database)

    def copy_bytes(self, session: Any, source: str) -> int:
        """As many as its table has."""
        return self.size_bytes(session, source) if self.exists(session, source) else 0

    def clone(self, session: Any, source: str, copy: str) -> None:
        """A copy, record by record."""
        session.ask("copy", source=source, name=copy)

    def is_clone(self, session: Any, database: str) -> bool:
        """Whether `clone` has made it."""
        return bool(session.ask("names")[database]["is_clone"])

    def settle(self, session: Any) -> str:
        """Writes a checkpoint."""
        session.ask("checkpoint")
        return ""

    def data_directory(self, session: Any) -> str | None:
        """The engine's folder."""
        return str(self._folder)
