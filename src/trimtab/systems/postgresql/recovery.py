"""A server on its way up: whether it gets on with replaying its log, and which server processes work on a directory."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from trimtab.host import (
    process_name,
    process_numbers,
    process_parent,
    process_ticks,
    process_title,
    processes,
    works_in,
)
from trimtab.systems.process import pid_file_number
from trimtab.systems.progress import Progress

__all__ = ["PID_FILE", "Recovery", "postmaster_in", "servers_in", "startup_process"]

_PROGRAM = "postgres"
PID_FILE = "postmaster.pid"
"""In the data directory."""
_REPLAYS = re.compile(r"postgres: (.*: )?startup( |$)")
"""A server with a `cluster_name`, as each of Debian's has one, shows it in the titles of its processes."""


class Recovery(Progress):
    """Tells a start that takes long because the log is replayed from one that stands still.

    Args:
        pid: of the postmaster.
        timeout_s: how long nothing may happen.
        clock: seconds of a clock that never goes back.
    """

    DOES = "replaying its log"

    def __init__(self, pid: int, timeout_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(timeout_s, clock=clock)
        self._pid = pid

    def _work(self) -> tuple[str, str]:
        return startup_process(self._pid)


def startup_process(postmaster: int) -> tuple[str, str]:
    """Title of the process that replays ("postgres: startup recovering 0000..."), and its use of CPU; "" for none."""
    for child in processes():
        title = process_title(child) if process_parent(child) == postmaster else ""
        if _REPLAYS.match(title):
            return title, f"{title} {process_ticks(child)}"
    return "", ""


def servers_in(data_dir: Path) -> list[int]:
    """Processes of any postgres whose working directory is `data_dir`: a postmaster, or what outlived one."""
    # what is gone, a zombie, or somebody else's does not show: a server over this directory is its owner's
    return [pid for pid in processes() if process_name(pid).startswith(_PROGRAM) and works_in(pid, data_dir)]


def postmaster_in(data_dir: Path) -> int | None:
    """The process over `data_dir` that its pid file names; None when there is none, or it cannot be seen.

    Its number here is another where the server runs in a container: there every postmaster may be number 1.
    """
    number = pid_file_number(data_dir / PID_FILE)
    if number is None:
        return None
    if _is_postmaster(number, data_dir, number):
        return number
    return next((pid for pid in processes() if _is_postmaster(pid, data_dir, number)), None)


def _is_postmaster(pid: int, data_dir: Path, number: int) -> bool:
    return process_name(pid).startswith(_PROGRAM) and process_numbers(pid)[-1:] == (number,) and works_in(pid, data_dir)
