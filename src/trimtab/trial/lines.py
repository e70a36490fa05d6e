"""Lines on disk that tell their own damage: each begins with a digest of its text, and each is synced when it is written.

    3f1c0a9b5d7e2468 {"step": "apply", ...}

A torn or flipped line is known by its digest and skipped; the next line begins after the next newline, so one bad line
never spoils its neighbours.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["append_line", "encode_line", "read_lines", "write_new_file"]

_DIGITS = 16


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:_DIGITS]


def encode_line(record: Mapping[str, Any]) -> bytes:
    """One line with its digest and its newline."""
    text = json.dumps(record, sort_keys=True).encode()
    return _digest(text).encode() + b" " + text + b"\n"


def _decode(line: bytes) -> dict[str, Any] | None:
    digest, _, line = line.partition(b" ")
    if digest.decode("latin-1") != _digest(line):
        return None
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def read_lines(content: bytes) -> list[dict[str, Any] | None]:
    """Every line of a file in order; None stands for a damaged one."""
    return [_decode(line) for line in content.split(b"\n") if line]


def append_line(path: Path, record: Mapping[str, Any], *, reserve: Path | None = None) -> None:
    """Adds a line; on disk when this returns. A torn line before it is closed first.

    Args:
        path: a file, made (mode 0600) when it is missing.
        record: JSON-serialisable.
        reserve: a file that is given up when the disk is full, so that this line still finds room.

    Raises:
        OSError: it cannot be written. What was written of it is known as damaged by `read_lines`.
    """
    try:
        _append(path, encode_line(record))
    except OSError as error:
        if reserve is None or error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        reserve.unlink(missing_ok=True)
        _append(path, encode_line(record))


def _append(path: Path, line: bytes) -> None:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    try:
        size = os.fstat(handle).st_size
        if size and os.pread(handle, 1, size - 1) != b"\n":
            line = b"\n" + line
        _write_all(handle, line)
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_all(handle: int, content: bytes) -> None:
    while content:
        content = content[os.write(handle, content) :]  # a full disk shows as a short write first


def write_new_file(path: Path, content: bytes, partial: Path) -> None:
    """Makes `path` (mode 0600) at once, whole or not at all; the caller syncs the folder.

    What a process that was killed has left of `partial` is removed first.

    Raises:
        OSError: it cannot be written; nothing is left of it.
    """
    partial.unlink(missing_ok=True)
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        try:
            _write_all(handle, content)
            os.fsync(handle)
        finally:
            os.close(handle)
        partial.rename(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
