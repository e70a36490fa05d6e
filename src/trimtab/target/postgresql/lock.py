"""One tuner per server: an advisory lock inside it and a locked file beside it, both freed by the holder's death."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable

import psycopg

from trimtab.errors import LockedError, TargetError
from trimtab.host import FileLock
from trimtab.target.postgresql.session import Connection

__all__ = ["TunerLock", "holder_text"]

_KEY = 0x7472_696D_7461_6221  # "trimtab!"
_PREFIX = "trimtab lock: "
_HINT = "wait until it has ended, or stop it; its death frees the lock"


def holder_text(holder: str) -> str:
    """Who holds a lock: study, process, host and since when."""
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return f"study={holder} pid={os.getpid()} host={platform.node()} since={since}"


class TunerLock:
    """Both locks of one server.

    Args:
        file: the lock file.
        connect: makes a fresh connection.
    """

    def __init__(self, file: FileLock, connect: Callable[[], Connection]) -> None:
        self._file = file
        self._connect = connect
        self._connection: Connection | None = None
        self._holder = ""
        self._is_file_ours = False

    def acquire(self, holder: str) -> None:
        """Takes both.

        Raises:
            LockedError: somebody else has one of them; the message names it.
        """
        text = holder_text(holder)
        if not self._file.is_held:
            if not self._file.acquire(text):
                raise LockedError(f"another tuner holds this server: {self._file.holder()}", hint=_HINT)
            self._is_file_ours = True
        self._file.describe(text)
        self._holder = holder
        try:
            self.renew()
        except TargetError:
            self.release()
            raise

    def renew(self) -> None:
        """Takes the lock inside the server again when its connection was lost by a restart.

        Raises:
            LockedError: somebody else took it in between.
        """
        if not self._holder or self._is_alive():
            return
        connection = self._connect()
        found = connection.execute("SELECT pg_try_advisory_lock(%s)", [_KEY]).fetchone()
        other = _other_holder(connection)
        if found is None or not found[0] or other is not None:
            connection.close()
            raise LockedError(f"another tuner holds this server: {other or 'it does not show itself'}", hint=_HINT)
        # Named only now, so that one who is refused is not taken for the holder. A name holds 63 bytes: the host comes
        # first, since it says where to look.
        name = f"{_PREFIX}{platform.node()[:16]} pid={os.getpid()} study={self._holder}"[:63]
        connection.execute("SELECT set_config('application_name', %s, false)", [name])
        self._connection = connection

    def _is_alive(self) -> bool:
        if self._connection is None or self._connection.closed:
            return False
        try:
            self._connection.execute("SELECT 1")
        except psycopg.Error:
            self._connection.close()
            return False
        return True

    def release(self) -> None:
        """Gives both back; idempotent. A file that was locked before `acquire` stays so."""
        self._holder = ""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._is_file_ours:
            self._file.release()
            self._is_file_ours = False


def _other_holder(connection: Connection) -> str | None:
    """The holder in any database of the server (an advisory lock is known in its own database only)."""
    found = connection.execute(
        "SELECT substr(application_name, %s),"
        " to_char(backend_start AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')"
        " FROM pg_stat_activity WHERE application_name LIKE %s AND pid <> pg_backend_pid()"
        " ORDER BY backend_start LIMIT 1",
        [len(_PREFIX) + 1, f"{_PREFIX}%"],
    ).fetchone()
    return f"host={found[0]} since={found[1] or 'unknown'}" if found is not None else None
