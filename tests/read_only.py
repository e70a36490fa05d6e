"""A disk that has become read-only, as after an error: what lies on it can be read, and nothing can be opened for writing."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

__all__ = ["make_read_only"]


def make_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on `os.open` opens files for reading alone."""
    opened = os.open

    def read_only(path: Any, flags: int, *more: int, **at: Any) -> int:
        if flags & os.O_ACCMODE != os.O_RDONLY:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return opened(path, flags, *more, **at)

    monkeypatch.setattr(os, "open", read_only)
