"""What a MySQL or MariaDB server and its machine use right now: memory, swap and volumes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trimtab.host import (
    available_memory_bytes,
    folder_bytes,
    oom_kills,
    process_use,
    swapped_bytes,
    volume_uses,
)
from trimtab.systems.base import Vitals
from trimtab.systems.mysql.reach import Reach

__all__ = ["data_bytes", "read_vitals"]


def read_vitals(reach: Reach, memory_limit_bytes: int | None) -> Vitals:
    """The server as it is now. How far replicas are behind is not known here: they do not tell their primary."""
    pid = reach.pid
    use = process_use(pid) if pid is not None else None
    is_here = pid is not None or reach.data_dir is not None
    return Vitals(
        memory_bytes=use.memory_bytes if use is not None else None,
        memory_limit_bytes=memory_limit_bytes,
        available_bytes=available_memory_bytes() if is_here else None,
        swap_bytes=use.swap_bytes if use is not None else None,
        swapped_bytes=swapped_bytes() if is_here else None,
        oom_kills=oom_kills(pid) if pid is not None else None,
        volumes=volume_uses(_folders(reach)),
    )


def data_bytes(reach: Reach) -> int | None:
    """Bytes that tables, redo and undo logs occupy; None when this user may not look."""
    folders = list(_folders(reach))
    return folder_bytes(folders) if folders else None


def _folders(reach: Reach) -> Iterator[Path]:
    if reach.data_dir is not None:
        yield reach.data_dir
