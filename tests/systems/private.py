"""What somebody else does to a private server of ours: it is killed, or a line is added to one of its files."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["killed", "with_line"]


def killed(target: Any) -> None:
    """Kills the server's process, and waits until it is seen to be gone."""
    os.kill(target._reach.pid, signal.SIGKILL)
    while target._reach.pid is not None:
        time.sleep(0.01)


def with_line(file: Path, line: bytes) -> Callable[[], None]:
    """Adds a line to the end of a file; what takes it back."""
    before = file.read_bytes()
    file.write_bytes(before + line)

    def undo() -> None:
        file.write_bytes(before)

    return undo
