"""Scratch folders: a check's copies of a server's files, which may hold passwords; none outlives a killed process for long."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["scratch_folder", "sweep_scratch"]

_PREFIX = "trimtab-check-"
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_EMPTY_S = 60.0
"""An empty folder is left alone for so long: whoever has made it may not have locked it yet."""


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new folder that only this user may enter; gone afterwards, after a kill with the next one or with `sweep_scratch`.

    It is locked (flock) while its process lives, so that no other takes it for one that was left.

    Raises:
        OSError: it cannot be made.
    """
    sweep_scratch()
    path = Path(tempfile.mkdtemp(prefix=_PREFIX))
    handle = os.open(path, _OPEN)
    try:
        with suppress(OSError):  # where folders cannot be locked, nothing is ever swept
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)  # never through a link: it works by descriptors
        os.close(handle)


def sweep_scratch() -> None:
    """Removes the scratch folders of processes that were killed, as far as this user may."""
    try:
        place = Path(tempfile.gettempdir())
    except OSError:  # none can be written, as on a full disk: the next sweep finds what lies there
        return
    for path in place.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            handle = os.open(path, _OPEN)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.listdir(handle) or time.time() - os.fstat(handle).st_mtime > _EMPTY_S:
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(handle)
