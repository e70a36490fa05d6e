"""Rescue of a MySQL or MariaDB server: what a redo log that could not be made leaves behind is taken away before a start."""

from __future__ import annotations

import fcntl
import logging
import os
import stat
import struct

from trimtab.errors import TargetError
from trimtab.host import Folder
from trimtab.space import Value
from trimtab.systems.base import Own, Snapshot
from trimtab.systems.mysql.reach import Reach
from trimtab.systems.mysql.values import option_text
from trimtab.systems.server_change import ServerChannel

__all__ = ["LEFTOVER", "ServerRescue", "redo_files", "remove_leftover"]

LEFTOVER = "ib_logfile101"
"""What MariaDB writes a redo log of another size into before it takes the old one's place."""

_REDO, _SYSTEM = "ib_logfile0", "ibdata1"
_log = logging.getLogger(__name__)


class ServerRescue(ServerChannel[Reach]):
    """See `Rescue`."""

    FULL_S = 10.0
    PAUSES_S = (0.0, 0.5, 2.0)

    def _text(self, value: Value) -> str:
        return option_text(value)

    def _before_start(self, snapshot: Snapshot) -> None:
        remove_leftover(self._reach, snapshot)

    def _by_hand_started(self, snapshot: Snapshot, own: Own, first: TargetError) -> None:
        _log.warning(
            "the server did not start with its own files (%s); it runs with the values as found on its command line",
            first.message,
        )


def redo_files(reach: Reach) -> list[str]:
    """Names of the redo log files, for a snapshot; [] when the data directory cannot be seen."""
    if reach.data_dir is None:
        return []
    try:
        return sorted(path.name for path in reach.data_dir.glob("ib_logfile*"))
    except OSError:
        return []


def remove_leftover(reach: Reach, snapshot: Snapshot) -> bool:
    """Takes away the new redo log of a resize that failed; whether there was one.

    Only one that was not there at the snapshot, beside a redo log that is, and while no server has the data open.
    """
    known = snapshot.reach.get("redo_files")
    folder = reach.data_dir
    if folder is None or not known or LEFTOVER in known or _REDO not in known or reach.pid is not None:
        return False
    try:
        with Folder.open(folder) as inside:
            leftover, redo = inside.status(LEFTOVER), inside.status(_REDO)
            if leftover is None or redo is None or not stat.S_ISREG(leftover.st_mode) or not redo.st_size:
                return False
            if _is_open(inside):
                return False
            inside.remove(LEFTOVER)
    except OSError:
        return False
    _log.warning(
        "removed %s (bytes=%d), which a redo log that could not be made has left behind",
        folder / LEFTOVER,
        leftover.st_size,
    )
    return True


def _is_open(data_dir: Folder) -> bool:
    """Whether a server has locked its system tablespace; asks, and locks nothing."""
    handle = data_dir.open_file(_SYSTEM, os.O_RDWR)
    try:
        asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        return bool(struct.unpack("hhqqi4x", fcntl.fcntl(handle, fcntl.F_GETLK, asked))[0] != fcntl.F_UNLCK)
    finally:
        os.close(handle)
