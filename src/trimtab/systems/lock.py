"""One tuner per server: a lock inside it and a locked file beside it, both freed by the holder's death."""

from __future__ import annotations

import os
import platform
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from trimtab.errors import LockedError, TargetError
from trimtab.host import FileLock

__all__ = ["ServerLock"]

_HINT = "wait until it ends, or stop it; that releases the lock"


class _Closeable(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=_Closeable)


class ServerLock(ABC, Generic[C]):
    """Both locks of one server; a kind of server says how the one inside it is taken.

    Args:
        file: the lock file.
        connect: makes a fresh connection.
    """

    def __init__(self, file: FileLock, connect: Callable[[], C]) -> None:
        self._file = file
        self._connect = connect
        self._connection: C | None = None
        self._holder = ""
        self._is_file_ours = False

    @abstractmethod
    def _take(self, connection: C, holder: str) -> str | None:
        """Takes the lock inside the server for as long as `connection` lives; who has it already, None for nobody."""

    @abstractmethod
    def _answers(self, connection: C) -> bool:
        """Whether the connection that holds the lock still lives."""

    def acquire(self, holder: str) -> None:
        """Takes both.

        Raises:
            LockedError: somebody else has one of them; the message names it.
        """
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        text = f"study={holder} pid={os.getpid()} host={platform.node()} since={since}"
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
        other = self._take(connection, self._holder)
        if other is not None:
            connection.close()
            raise LockedError(f"another tuner holds this server: {other}", hint=_HINT)
        self._connection = connection

    def _is_alive(self) -> bool:
        if self._connection is None:
            return False
        if self._answers(self._connection):
            return True
        self._connection.close()
        return False

    def release(self) -> None:
        """Gives both back; idempotent. A file that was locked before `acquire` stays so."""
        self._holder = ""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._is_file_ours:
            self._file.release()
            self._is_file_ours = False
