"""A server on its way up: whether it gets on with replaying its log, and which server processes work on a directory."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

import psutil

__all__ = ["Recovery", "servers_in", "startup_process"]

_LOOK_S = 0.5
_TELL_S = 10.0

_log = logging.getLogger(__name__)


class Recovery:
    """Tells a start that takes long because the log is replayed from one that stands still.

    Args:
        pid: of the postmaster.
        timeout_s: how long nothing may happen.
    """

    def __init__(self, pid: int, timeout_s: float) -> None:
        self._pid = pid
        self._timeout_s = timeout_s
        self._seen = ""
        self._looked_at = self._began_at = self._moved_at = self._told_at = time.monotonic()

    def has_stalled(self) -> bool:
        """Whether nothing has moved for `timeout_s`; says now and then what it waits for."""
        now = time.monotonic()
        if now - self._looked_at < _LOOK_S:
            return False
        self._looked_at = now
        title, work = startup_process(self._pid)
        if title and work != self._seen:
            self._seen, self._moved_at = work, now
        if title and now - self._told_at > _TELL_S:
            self._told_at = now
            _log.warning("the server has been replaying its log for %.0f s: %s", now - self._began_at, title)
        return now - self._moved_at > self._timeout_s


def startup_process(postmaster: int) -> tuple[str, str]:
    """Title of the process that replays ("postgres: startup recovering 0000..."), and its use of CPU; "" for none."""
    try:
        children = psutil.Process(postmaster).children()
    except psutil.Error:
        return "", ""
    for child in children:
        try:
            title = " ".join(child.cmdline()).strip()
            if title.startswith("postgres: startup"):
                return title, f"{title} {child.cpu_times()}"
        except psutil.Error:
            continue
    return "", ""


def servers_in(data_dir: Path) -> list[int]:
    """Processes of any postgres whose working directory is `data_dir`: a postmaster, or what outlived one."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            is_there = entry.name.isdigit() and os.readlink(entry / "cwd") == os.path.realpath(data_dir)
            if is_there and (entry / "comm").read_text().strip().startswith("postgres"):
                found.append(int(entry.name))
        except OSError:
            continue  # gone, a zombie, or somebody else's: a server over this directory is its owner's
    return found
