"""A server's log: its end, for the lines shown after a failure, and where a server that is started writes it."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from trimtab.host import Folder, open_regular
from trimtab.redact import hide_literals
from trimtab.systems.account import Account
from trimtab.systems.log_form import plain_lines

__all__ = ["is_servers_log", "log_bytes", "log_text", "seen_text", "start_log", "tail"]

_LONGEST_BYTES = 64 * 1024
_HEAD_BYTES = 80
_NEW_MODE = 0o640


def _open(path: Path) -> BinaryIO:
    """The log for reading, never through a link that only the server's user could have made.

    Raises:
        OSError: it cannot be read.
    """
    return os.fdopen(open_regular(path), "rb")


def log_bytes(path: Path | None) -> int:
    """Its size; 0 when it cannot be seen."""
    try:
        return path.stat().st_size if path is not None else 0
    except OSError:
        return 0


def log_text(path: Path, start: int = 0) -> str:
    """What it says from byte `start` on, at most whole lines of its last 64 KiB; all of it where it is shorter: it began anew.

    Raises:
        OSError: it cannot be read.
    """
    with _open(path) as file:
        head, size = file.read(_HEAD_BYTES), file.seek(0, os.SEEK_END)
        first = start if start <= size else 0
        at = file.seek(max(first, size - _LONGEST_BYTES))
        text = file.read().decode(errors="replace")
    if at > first:  # what is left of a line does not say what it is, perhaps a statement
        text = text.partition("\n")[2]
    return plain_lines(path.suffix, text, head.decode(errors="replace"))


def seen_text(path: Path, start: int = 0) -> str:
    """As `log_text`; "" when it cannot be read."""
    try:
        return log_text(path, start)
    except OSError:
        return ""


def tail(path: Path, n_lines: int, start: int = 0) -> str:
    """The last lines of a log file from byte `start` on, for people; "" when it cannot be read.

    Statements are hidden while whole: the last lines of a long one do not say what they are.
    """
    return "\n".join(hide_literals(seen_text(path, start)).splitlines()[-n_lines:])


def start_log(path: Path, account: Account, *, most_bytes: int | None = None) -> int:
    """A descriptor for a server of `account` to append its log to; made when it is missing; closed by the caller.

    Args:
        path: of the log.
        account: who runs the server.
        most_bytes: a log of our own that has grown beyond this is emptied first; None for a log of somebody else's, which
            is never shortened.

    Raises:
        OSError: it cannot be written, is no plain file, or has another name elsewhere (a hard link).
    """
    flags = os.O_WRONLY | os.O_APPEND
    try:
        handle = open_regular(path, flags)
    except FileNotFoundError:
        with Folder.open(path.parent) as folder:
            handle = folder.open_file(path.name, flags | os.O_CREAT | os.O_EXCL, _NEW_MODE)
        if not account.is_me:
            os.fchown(handle, account.uid, account.gid)
    status = os.fstat(handle)
    if status.st_nlink > 1:
        os.close(handle)
        raise PermissionError(1, "it has a second name elsewhere (a hard link)", str(path))
    if most_bytes is not None and status.st_size > most_bytes:
        os.ftruncate(handle, 0)
    return handle


def is_servers_log(path: Path, account: Account | None) -> bool:
    """Whether a log that the *server* names may be read for it: its user's own file, or one that everybody may read.

    Root could read any file that a server calls its log, and would show its last lines to people.
    """
    try:
        handle = open_regular(path)
    except OSError:
        return False
    try:
        status = os.fstat(handle)
    finally:
        os.close(handle)
    is_own = account is not None and status.st_uid == account.uid
    return is_own or os.geteuid() != 0 or bool(status.st_mode & stat.S_IROTH)
