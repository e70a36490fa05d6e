"""FileLock: one holder at a time, freed by the holder's death, with the holder's name in the file."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

__all__ = ["FileLock"]


class FileLock:
    """An advisory lock (flock) on a file; the kernel drops it when the process ends, however it ends.

    Attributes:
        path: the file; it stays when the lock is released.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: int | None = None

    @property
    def is_held(self) -> bool:
        """Whether this object holds the lock."""
        return self._handle is not None

    def acquire(self, holder: str) -> bool:
        """Takes the lock and writes `holder` into the file; False at once when somebody else has it."""
        if self._handle is not None:
            return True
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # O_CLOEXEC is Python's default: a server started later must not inherit the lock and keep it alive.
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return False
        self._handle = handle
        self.describe(holder)
        return True

    def describe(self, holder: str) -> None:
        """Replaces the holder's text; only while the lock is held."""
        if self._handle is not None:
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, holder.encode(), 0)

    def holder(self) -> str:
        """The text that the last holder wrote; "" when there is none."""
        try:
            return self.path.read_text(errors="replace")
        except OSError:
            return ""

    def release(self) -> None:
        """Gives the lock back; idempotent."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
