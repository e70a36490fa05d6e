"""Studies of real servers (PostgreSQL 18), as the history kept them: real.db.gz."""

from __future__ import annotations

import gzip
from pathlib import Path

__all__ = ["REAL", "unpack_real"]

REAL = Path(__file__).with_name("real.db.gz")
"""Studies demo (30 trials) and ya (9), and one with odd names and two trials."""


def unpack_real(path: Path) -> Path:
    """The history, at `path`."""
    path.write_bytes(gzip.decompress(REAL.read_bytes()))
    return path
