"""Rescue: a server that is down, or hangs, is brought back once its option file is as it was found.

In this order: a stopped process is let go on → restart, or start, with pauses in between, a redo log that a failed resize
left behind taken away first → one start with the values as found on the command line, which beats every file. What fails
after that is for people: the error says how.
"""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import stat
import struct
import time
from contextlib import suppress

from trimtab.errors import TargetError
from trimtab.host import Folder, process_state
from trimtab.systems.base import Own, Restarts, Snapshot
from trimtab.systems.mysql.reach import Reach
from trimtab.systems.mysql.values import option_text
from trimtab.systems.process import await_end
from trimtab.systems.session import FullError, LoginRefusedError

__all__ = ["LEFTOVER", "bring_up", "redo_files", "remove_leftover"]

LEFTOVER = "ib_logfile101"
"""What MariaDB writes a redo log of another size into before it takes the old one's place."""

_REDO, _SYSTEM = "ib_logfile0", "ibdata1"
_PAUSES_S = (0.0, 0.5, 2.0)
_WAKE_S = 3.0
_FULL_S = 10.0
_POLL_S = 0.05
_log = logging.getLogger(__name__)


def redo_files(reach: Reach) -> list[str]:
    """Names of the redo log files, for a snapshot; [] when the data directory cannot be seen."""
    if reach.data_dir is None:
        return []
    try:
        return sorted(path.name for path in reach.data_dir.glob("ib_logfile*"))
    except OSError:
        return []


def bring_up(reach: Reach, snapshot: Snapshot, own: Own, restarts: Restarts) -> bool:
    """Makes sure that a login works; whether the server was started for it, which `restarts` is asked for.

    Raises:
        LoginRefusedError: it runs and does not let this user in.
        TargetError: it cannot be brought up.
    """
    was_up = reach.is_up()
    if was_up and (_answers_within(reach, 0.0) or (_wake(reach) and _answers_within(reach, _WAKE_S))):
        return False
    if reach.no_restart:
        reach.ensure_up()
        return False
    restarts()
    first: TargetError | None = None
    for pause_s in _PAUSES_S:
        time.sleep(pause_s)
        try:
            await_end(lambda: reach.pid)
            if reach.is_up():
                reach.restart()
            else:
                remove_leftover(reach, snapshot)
                reach.ensure_up()
            return True
        except LoginRefusedError:
            raise
        except TargetError as error:
            first = first or error
    if first is not None:
        _last_resort(reach, snapshot, own, first)
    return True


def _answers_within(reach: Reach, timeout_s: float) -> bool:
    """Whether a login works and a query; a server whose connections are all in use is waited for.

    Raises:
        LoginRefusedError: it does not let us in: no restart would change that.
    """
    deadline, full_deadline = time.monotonic() + timeout_s, time.monotonic() + _FULL_S
    while True:
        try:
            with reach.connect() as session:
                session.rows("SELECT 1")
            return True
        except LoginRefusedError:
            raise
        except FullError:
            until = full_deadline
        except TargetError:
            until = deadline
        if time.monotonic() >= until:
            return False
        time.sleep(_POLL_S)


def _wake(reach: Reach) -> bool:
    """Lets a server that somebody has stopped (SIGSTOP) go on; whether there was anything to do."""
    pid = reach.pid
    if pid is None or process_state(pid) not in ("T", "t"):
        return False
    with suppress(OSError):
        os.kill(pid, signal.SIGCONT)
    return True


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


def _last_resort(reach: Reach, snapshot: Snapshot, own: Own, first: TargetError) -> None:
    """One start with our knobs as found on the command line.

    Raises:
        TargetError: the first trouble, when that does not help either.
    """
    try:
        reach.start_with(_overrides(snapshot, own))
    except TargetError as error:
        raise TargetError(
            f"{first.message}; and with the values as found on its command line: {error.message}", hint=first.hint
        ) from error
    _log.warning(
        "the server did not start with its own files (%s); it runs with the values as found on its command line",
        first.message,
    )


def _overrides(snapshot: Snapshot, own: Own) -> dict[str, str]:
    return {name: option_text(snapshot.values[name]) for name in sorted(own.texts) if name in snapshot.values}
