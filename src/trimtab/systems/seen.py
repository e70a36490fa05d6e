"""What this machine shows of a server's process: its program, its command line, and where its output goes."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["argv_of", "output_file", "program_folder"]


def argv_of(pid: int | None) -> tuple[str, ...]:
    """The command line of a process; () when this user may not see it, or there is none."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        return ()
    return tuple(os.fsdecode(word) for word in words if word)


def output_file(pid: int | None) -> Path | None:
    """The file that its standard error goes to; None when it is none, or this user may not see it."""
    found = _resolved(f"/proc/{pid}/fd/2")
    return found if found is not None and found.is_file() else None


def program_folder(pid: int | None) -> Path | None:
    """The folder of its program; None when this user may not see it."""
    found = _resolved(f"/proc/{pid}/exe")
    return found.parent if found is not None else None


def _resolved(text: str) -> Path | None:
    try:
        return Path(text).resolve(strict=True)
    except OSError:
        return None
