"""What a system and its machine use right now: memory, swap, volumes, and how far its standbys are behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from trimtab.errors import TargetError
from trimtab.host import (
    available_memory_bytes,
    folder_bytes,
    oom_kills,
    process_use,
    swapped_bytes,
    volume_uses,
)
from trimtab.systems.capabilities import Vitals
from trimtab.systems.reach import ServerReach
from trimtab.systems.server_catalog import LagTexts
from trimtab.systems.session import Session

__all__ = ["Lag", "Watch"]

_PATIENCE_S = 1.0
_RETRY_S = 30.0
"""After a failed look at the standbys, and while there are none: a login a second would be a load of its own."""


class Lag:
    """How far the slowest standby is behind.

    Args:
        connect: makes a session for it, which stays open while there are standbys; raises `TargetError`.
        texts: the statements of the catalogue.
    """

    def __init__(self, connect: Callable[[], Session], texts: LagTexts) -> None:
        self._connect = connect
        self._texts = texts
        self._session: Session | None = None
        self._from = 0.0
        self._lock = threading.Lock()

    def seconds(self) -> float | None:
        """None when it cannot be seen, too."""
        with self._lock:
            if time.monotonic() < self._from:
                return None
            try:
                if self._session is None:
                    self._session = self._connect()
                    self._session.rows(self._texts.first)
                found = self._session.value(self._texts.seconds)
            except TargetError:
                found = None
            if found is None:
                self._rest()
            return None if found is None else float(found)

    def _rest(self) -> None:
        self._from = time.monotonic() + _RETRY_S
        if self._session is not None:
            self._session.close()
            self._session = None

    def rest(self) -> None:
        """Gives the session back; the next look looks for standbys afresh. Idempotent."""
        # A server that hangs keeps the lock's owner waiting: that thread is a daemon, and its connection dies with it.
        if self._lock.acquire(timeout=_PATIENCE_S):
            try:
                self._rest()
                self._from = 0.0
            finally:
                self._lock.release()


class Watch:
    """Looks at one system; see `Watchable`.

    Args:
        reach: the way to it.
        folders: what it writes to, where that can be seen.
        limit_bytes: the memory budget that its processes share; None when unknown.
        lag: of its standbys; None where they do not tell.
    """

    def __init__(
        self,
        reach: ServerReach,
        folders: Callable[[], Iterable[Path]],
        limit_bytes: int | None,
        lag: Lag | None = None,
    ) -> None:
        self._reach = reach
        self._folders = folders
        self._limit = limit_bytes
        self._lag = lag

    def vitals(self) -> Vitals:
        """The system as it is now."""
        pid = self._reach.pid
        use = process_use(pid) if pid is not None else None
        folders = list(self._folders())
        is_here = pid is not None or bool(folders)
        return Vitals(
            memory_bytes=use.memory_bytes if use is not None else None,
            memory_limit_bytes=self._limit,
            available_bytes=available_memory_bytes() if is_here else None,
            swap_bytes=use.swap_bytes if use is not None else None,
            swapped_bytes=swapped_bytes() if is_here else None,
            oom_kills=oom_kills(pid) if pid is not None else None,
            volumes=volume_uses(folders),
            lag_s=self._lag.seconds() if self._lag is not None else None,
        )

    def data_bytes(self) -> int | None:
        """Bytes that its files occupy; None when this user may not look."""
        folders = list(self._folders())
        return folder_bytes(folders) if folders else None

    def unwatch(self) -> None:
        """Gives back what `vitals` keeps open. Idempotent."""
        if self._lag is not None:
            self._lag.rest()
