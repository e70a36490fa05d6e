"""Processes of this machine: whether one runs, a mark that tells it from a later one with the same number, and what it
works on. A number that a file names says nothing by itself: the process may be a stranger, or live in another namespace."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

__all__ = [
    "is_ending",
    "is_kernel_thread",
    "is_running",
    "kill_group",
    "machine_mark",
    "process_mark",
    "process_name",
    "process_numbers",
    "process_parent",
    "process_started_s",
    "process_state",
    "process_ticks",
    "process_title",
    "processes",
    "works_in",
]

_EXITING = 0x4
"""PF_EXITING among the kernel's flags of a process (proc_pid_stat(5), field 9)."""
_KERNEL_THREAD = 0x200000
"""PF_KTHREAD, another of these flags."""


def _fields(pid: int) -> list[str]:
    """Of /proc/PID/stat from the state on; the name before it may hold anything: brackets, or half a letter, for it is cut off
    after 15 bytes."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def process_state(pid: int) -> str:
    """The kernel's letter: R, S, D, T (stopped), Z (dead, not reaped), ...; "" when there is no such process."""
    return (_fields(pid) or [""])[0]


def is_running(pid: int) -> bool:
    """Whether `pid` lives; a zombie does not."""
    return process_state(pid) not in ("", "Z", "X")


def is_ending(pid: int) -> bool:
    """Whether `pid` is on its way out: dead, or between its end and the release of what it holds.

    The threads of a large server that was killed end one by one: its files and locks stay taken for that long.
    """
    fields = _fields(pid)
    return bool(fields) and (fields[0] in ("Z", "X") or bool(int(fields[6]) & _EXITING))


def is_kernel_thread(pid: int) -> bool:
    """Whether it is the kernel's own, and hence no program."""
    fields = _fields(pid)
    return bool(fields) and bool(int(fields[6]) & _KERNEL_THREAD)


def process_mark(pid: int) -> str:
    """This boot and the kernel's tick at which the process began; "" when it does not run.

    Two processes never share a mark and a number, not after a reboot either; a step of the clock does not change it.
    """
    fields = _fields(pid)
    if not fields or fields[0] in ("Z", "X"):
        return ""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = ""
    return f"{boot}:{fields[19]}"


def processes() -> Iterator[int]:
    """The number of every process that can be seen here."""
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def process_name(pid: int) -> str:
    """The kernel's short name of it, up to 15 characters; "" when there is no such process."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").rstrip("\n")
    except OSError:
        return ""


def process_title(pid: int) -> str:
    """Its command line, which servers rewrite to say what they do; "" when there is no such process."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def process_ticks(pid: int) -> int:
    """The kernel's ticks of CPU that it has used; 0 when there is no such process."""
    fields = _fields(pid)
    return int(fields[11]) + int(fields[12]) if fields else 0


def process_parent(pid: int) -> int | None:
    """Its parent; None when there is no such process."""
    fields = _fields(pid)
    return int(fields[1]) if fields else None


def process_numbers(pid: int) -> tuple[int, ...]:
    """Its number here, and in each namespace inside ours down to its own, where a container counts from 1; () when gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except OSError:
        return ()
    line = next((line for line in text.splitlines() if line.startswith("NSpid:")), f"NSpid: {pid}")
    return tuple(int(word) for word in line.split()[1:])


def process_started_s(pid: int) -> float | None:
    """How long ago it began, in seconds, by a clock that nobody sets; None when there is no such process."""
    fields = _fields(pid)
    if not fields:
        return None
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")


def works_in(pid: int, folder: Path) -> bool:
    """Whether its working directory is this very folder, by whatever path it calls it; False where that cannot be seen."""
    try:
        return os.path.samestat(os.stat(f"/proc/{pid}/cwd"), os.stat(folder))
    except OSError:
        return False


def machine_mark() -> str:
    """What tells this machine (or container) from others, the same after a reboot; "" where it has no mark."""
    try:
        text = Path("/etc/machine-id").read_text().strip()
    except OSError:
        return ""
    return hashlib.sha256(text.encode()).hexdigest()[:16] if text else ""


def kill_group(process: subprocess.Popen[bytes]) -> bool:
    """Kills a process that leads a group, with everything that it has started; False for one of another user's, as what sudo
    starts is."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:  # it has ended by itself
        return True
    except PermissionError:
        return False
    return True
