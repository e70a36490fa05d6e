"""Files of the state directory: names in their paths are words, and only what belongs to this user alone is obeyed."""

from __future__ import annotations

import os
import pwd
import re
import stat
from pathlib import Path

from trimtab.errors import UsageError

__all__ = ["is_word", "read_state_file", "require_own_folder"]

_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


def is_word(name: str) -> bool:
    """Whether a name may be part of a path: letters, digits, '.', '_' and '-', and no path of its own."""
    return _WORD.fullmatch(name) is not None


def read_state_file(path: Path) -> bytes:
    """The whole file, when it is a plain file of this user's that nobody else may write.

    Raises:
        UsageError: it is not; nothing in it was obeyed.
        OSError: it cannot be read; FileNotFoundError when there is none.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if path.is_symlink():
            raise _refused(path, "it is a symbolic link") from error
        raise
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise _refused(path, "it is not a regular file")
        _require_own(path, status)
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(handle)


def require_own_folder(path: Path) -> None:
    """That a folder is this user's, and that nobody else may put files there; one that is missing is fine.

    Raises:
        UsageError: it is not.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISLNK(status.st_mode):
        raise _refused(path, "it is a symbolic link")
    if stat.S_ISDIR(status.st_mode):  # a file in its place is found out by who wants to write there
        _require_own(path, status)


def _require_own(path: Path, status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise _refused(path, f"it belongs to user={_name_of(status.st_uid)}, and this is {_name_of(os.geteuid())}")
    if status.st_mode & _OTHERS_MAY_WRITE:
        raise _refused(path, f"others may write it (mode={stat.S_IMODE(status.st_mode):o})")


def _refused(path: Path, why: str) -> UsageError:
    return UsageError(
        f"the state file {str(path)!r} is not obeyed: {why}",
        hint="run Trimtab as the user who ran the study, or give that user's own state directory with --state",
    )


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
