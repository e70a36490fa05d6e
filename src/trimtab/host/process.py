"""Processes of this machine: whether one runs, and a mark that tells it from a later one with the same number."""

from __future__ import annotations

from pathlib import Path

__all__ = ["is_running", "process_mark", "process_state"]


def _fields(pid: int) -> list[str]:
    """Of /proc/PID/stat from the state on; the name before it may hold anything, brackets too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def process_state(pid: int) -> str:
    """The kernel's letter: R, S, D, T (stopped), Z (dead, not reaped), ...; "" when there is no such process."""
    return (_fields(pid) or [""])[0]


def is_running(pid: int) -> bool:
    """Whether `pid` lives; a zombie does not."""
    return process_state(pid) not in ("", "Z", "X")


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
