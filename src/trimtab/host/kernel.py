"""The kernel's own log: whom it has killed because memory ran out."""

from __future__ import annotations

import errno
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

__all__ = ["OomKill", "kernel_oom_kills"]

_KILLED = re.compile(
    r"(Memory cgroup out of memory|Out of memory(?: \(oom_kill_allocating_task\))?): Kill(?:ed)? process (\d+) \((.*?)\)(?= |,|$)"
)
"""Kernels before 5.1 say "Kill process 12 (name) score 900 or sacrifice child"."""
_RECORD_BYTES = 8192

_DRIFT = 5e-4
"""NTP steers the monotonic clock by up to 500 ppm (MAXFREQ of linux/timex.h), and not the clock of the kernel's log: after weeks
they are minutes apart."""


@dataclass(frozen=True, slots=True)
class OomKill:
    """One process that the kernel killed; `is_limited`: by a cgroup's limit, not by the machine's memory."""

    pid: int
    name: str
    is_limited: bool


def kernel_oom_kills(since_s: float, path: Path = Path("/dev/kmsg")) -> list[OomKill]:
    """The kills since `since_s` (of `time.monotonic`), oldest first; [] where this user may not read the kernel's log.

    On a machine that has long been up some that came earlier may be among them: the clocks of the two differ.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return []
    try:
        return [kill for kill in map(_read, _records(handle, since_s)) if kill is not None]
    finally:
        os.close(handle)


def _records(handle: int, since_s: float) -> list[str]:
    """Texts of the records that tell of a kill; each read of the device gives one: "priority,number,microseconds,flags;text"."""
    # the kernel's log counts from boot without suspended time, as the monotonic clock does
    found, first_us = [], (since_s * (1 - _DRIFT) - 0.5) * 1e6
    deadline = time.monotonic() + 1.0
    while time.monotonic() < deadline:
        try:
            record = os.read(handle, _RECORD_BYTES)
        except OSError as error:
            if error.errno == errno.EPIPE:  # overwritten while we read: the next read goes on
                continue
            break
        if not record:
            break
        if b"Kill" not in record:  # thousands may be older, and of other things
            continue
        head, _, text = record.decode(errors="replace").partition(";")
        fields = head.split(",")
        if len(fields) >= 3 and fields[2].isdigit() and int(fields[2]) >= first_us:
            found.append(text)
    return found


def _read(text: str) -> OomKill | None:
    match = _KILLED.search(text)
    return OomKill(int(match[2]), match[3], match[1].startswith("Memory cgroup")) if match else None
