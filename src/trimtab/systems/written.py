"""When files were written last, and whether that was after a program had read them."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from trimtab.host import process_name, process_parent, process_started_s, processes

__all__ = ["newer_than_workers", "written_s"]

_LINGER_S = 3.0
"""A process of before a reload ends its last requests first: for so long it is waited for."""
_POLL_S = 0.1


def written_s(path: Path) -> float:
    """When a file was last written, put in its place (it may bear an old date), or removed from its folder, by the clock; inf
    where that cannot be seen. A change of its mode counts as well."""
    for place in (path, path.parent):
        try:
            status = place.stat()
            return max(status.st_mtime, status.st_ctime)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return math.inf
    return 0.0  # there is no such folder


def newer_than_workers(paths: Sequence[Path], parent: int) -> Path | None:
    """The last written of these files, where a process of its own name that `parent` has started is older: a program that reads
    its files anew at a reload, as httpd does, starts new ones then. None where nothing of the kind shows."""
    newest = max(paths, key=written_s, default=None)
    if newest is None or written_s(newest) == math.inf:
        return None
    until = time.monotonic() + _LINGER_S
    while (began := _oldest_s(parent)) is not None and began < written_s(newest):
        if time.monotonic() > until:
            return newest
        time.sleep(_POLL_S)
    return None


def _oldest_s(parent: int) -> float | None:
    """When the oldest of its processes began, by the clock; None where it has none."""
    ages_s = [age for pid in _workers(parent) if (age := process_started_s(pid)) is not None]
    # The kernel tells the start in whole ticks, rounded down.
    return time.time() - max(ages_s) + 1.0 / os.sysconf("SC_CLK_TCK") if ages_s else None


def _workers(parent: int) -> Iterator[int]:
    name = process_name(parent)
    for pid in processes():
        if process_parent(pid) == parent and process_name(pid) == name:
            yield pid
