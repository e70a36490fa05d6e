"""The end of a server's log, for the lines shown after a failure."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["tail"]

_LONGEST_BYTES = 64 * 1024


def tail(path: Path, n_lines: int, start: int = 0) -> str:
    """The last lines of a log file from byte `start` on; "" when it cannot be read."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(start if start <= size else 0, size - _LONGEST_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    return "\n".join(lines[-n_lines:])
