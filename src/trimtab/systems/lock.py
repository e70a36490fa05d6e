"""One tuner per server: a lock inside it and a locked file beside it, both freed by the holder's death."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable

from trimtab.errors import LockedError, TargetError
from trimtab.host import FileLock
from trimtab.systems.server_catalog import LockTexts
from trimtab.systems.session import Session, StatementError
from trimtab.units import format_time

__all__ = ["ServerLock"]

_HINT = "wait until it ends, or stop it; that releases the lock"


class ServerLock:
    """Both locks of one system.

    Args:
        file: the lock file.
        texts: the statements of the lock inside it; None for a system that has none.
        connect: makes a fresh connection for that.
    """

    def __init__(
        self, file: FileLock, texts: LockTexts | None = None, connect: Callable[[], Session] | None = None
    ) -> None:
        self._file = file
        self._texts = texts
        self._connect = connect
        self._connection: Session | None = None
        self._holder = ""
        self._is_file_ours = False

    def acquire(self, holder: str) -> None:
        """Takes both.

        Raises:
            LockedError: somebody else has one of them; the message names it.
        """
        text = f"study={holder} pid={os.getpid()} host={platform.node()} since={format_time(time.time())}"
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
        if not self._holder or self._texts is None or self._connect is None or self._is_alive():
            return
        connection = self._connect()
        other = _take(connection, self._texts, self._holder)
        if other:
            connection.close()
            raise LockedError(f"another tuner holds this server: {other}", hint=_HINT)
        self._connection = connection

    def _is_alive(self) -> bool:
        if self._connection is None:
            return False
        try:
            self._connection.rows("SELECT 1")
        except StatementError:
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


def _take(session: Session, texts: LockTexts, holder: str) -> str:
    """Takes the lock inside the server for as long as `session` lives; who has it already, "" for nobody."""
    if texts.first:
        session.rows(texts.first)
    is_ours = session.value(texts.take) in (True, 1)
    other = session.value(texts.other)
    if other or not is_ours:
        return str(other or "it does not show itself")
    if texts.name:
        # Named only now, so that one who is refused is not taken for the holder. The host comes first: it says where to look.
        name = f"{platform.node()[:16]} pid={os.getpid()} study={holder}"
        session.rows(texts.name, [name])
    return ""
