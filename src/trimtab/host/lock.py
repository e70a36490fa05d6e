"""FileLock: one holder at a time, freed by the holder's death, with the holder's name in the file."""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path

from trimtab.errors import TargetError
from trimtab.host.folder import Folder

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
        """Takes the lock and writes `holder` into the file; False at once when somebody else has it.

        Raises:
            TargetError: the file belongs to another user, or cannot be made or locked.
        """
        if self._handle is not None:
            return True
        handle = self._open()
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return False
        except OSError as error:  # a network file system whose server has no locks
            os.close(handle)
            raise self._refused(error.strerror or "it cannot be locked") from error
        self._handle = handle
        self.describe(holder)
        return True

    def _open(self) -> int:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with Folder.open(self.path.parent) as folder:
                handle = _open_in(folder, self.path.name)
        except OSError as error:
            raise self._refused(error.strerror or "it cannot be opened") from error
        if os.fstat(handle).st_uid != os.geteuid():
            os.close(handle)
            raise self._refused("it belongs to another user")
        return handle

    def _refused(self, why: str) -> TargetError:
        try:
            owner = f" (owner uid={self.path.lstat().st_uid}, this is uid={os.geteuid()})"
        except OSError:
            owner = ""
        return TargetError(
            f"lock file={str(self.path)!r} cannot be used: {why}{owner}",
            hint="run Trimtab as the same user each time; once none runs, the file may be removed, or use another folder",
        )

    def describe(self, holder: str) -> None:
        """Replaces the holder's text, if the disk takes it: the lock holds without; only while the lock is held."""
        if self._handle is not None:
            with suppress(OSError):
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


def _open_in(folder: Folder, name: str) -> int:
    """For writing; where the disk has become read-only, as after an error, for reading: that locks as well, and a way back needs
    the lock. O_CLOEXEC: a server started later must not inherit the lock and keep it alive."""
    try:
        return folder.open_file(name, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        if error.errno != errno.EROFS or folder.status(name) is None:
            raise
        return folder.open_file(name, os.O_RDONLY)
