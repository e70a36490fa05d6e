"""What a PostgreSQL server and its machine use right now: memory, swap, volumes, and how far its standbys are behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg

from trimtab.errors import TargetError
from trimtab.host import (
    available_memory_bytes,
    folder_bytes,
    oom_kills,
    process_use,
    swapped_bytes,
    volume_uses,
)
from trimtab.systems.base import Vitals
from trimtab.systems.postgresql.reach import Reach
from trimtab.systems.postgresql.session import Connection

__all__ = ["Watch"]

_LAG = "SELECT extract(epoch FROM max(replay_lag))::float8, count(*) FROM pg_stat_replication WHERE state = 'streaming'"
_LAG_TIMEOUT_MS = 900
_PATIENCE_S = 1.0
_RETRY_S = 30.0
"""After a failed look at the standbys, and while there are none: a login a second would be a load of its own."""


class Watch:
    """Looks at one server; see `Watchable`."""

    def __init__(self, reach: Reach, memory_limit_bytes: int | None) -> None:
        self._reach = reach
        self._limit = memory_limit_bytes
        self._connection: Connection | None = None
        self._lag_from = 0.0
        self._lock = threading.Lock()

    def vitals(self) -> Vitals:
        """The server as it is now."""
        pid = self._reach.pid
        use = process_use(pid) if pid is not None else None
        is_here = pid is not None or self._reach.data_dir is not None
        return Vitals(
            memory_bytes=use.memory_bytes if use is not None else None,
            memory_limit_bytes=self._limit,
            available_bytes=available_memory_bytes() if is_here else None,
            swap_bytes=use.swap_bytes if use is not None else None,
            swapped_bytes=swapped_bytes() if is_here else None,
            oom_kills=oom_kills(pid) if pid is not None else None,
            volumes=volume_uses(self._folders()),
            lag_s=self._lag_s(),
        )

    def data_bytes(self) -> int | None:
        """Bytes that data, write-ahead log and tablespaces occupy; None when this user may not look."""
        folders = list(self._folders())
        return folder_bytes(folders) if folders else None

    def _folders(self) -> Iterator[Path]:
        """The data directory, and what lies elsewhere through a link: write-ahead log, tablespaces."""
        data = self._reach.data_dir
        if data is None:
            return
        yield data
        try:
            links = [data / "pg_wal", *(data / "pg_tblspc").iterdir()]
            yield from (link for link in links if link.is_symlink())
        except OSError:
            return

    def _lag_s(self) -> float | None:
        """Of the slowest streaming standby; on a connection that stays open while there are any."""
        with self._lock:
            if time.monotonic() < self._lag_from:
                return None
            try:
                if self._connection is None:
                    self._connection = self._reach.connect("trimtab guard")
                    self._connection.execute(f"SET statement_timeout = {_LAG_TIMEOUT_MS}")
                found = self._connection.execute(_LAG).fetchone()
            except (TargetError, psycopg.Error):
                self._rest()
                return None
            if found is None or not found[1]:
                self._rest()
                return None
            return float(found[0] or 0.0)

    def _rest(self) -> None:
        self._lag_from = time.monotonic() + _RETRY_S
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def unwatch(self) -> None:
        """Gives the connection back; the next `vitals` looks for standbys afresh. Idempotent."""
        # A server that hangs keeps the lock's owner waiting: that thread is a daemon, and its connection dies with it.
        if self._lock.acquire(timeout=_PATIENCE_S):
            try:
                self._rest()
                self._lag_from = 0.0
            finally:
                self._lock.release()
