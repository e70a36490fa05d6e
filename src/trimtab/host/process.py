"""Processes of this machine: whether one runs, and a mark that tells it from a later one with the same number."""

from __future__ import annotations

from pathlib import Path

__all__ = ["is_ending", "is_running", "process_mark", "process_state"]

_EXITING = 0x4
"""PF_EXITING among the kernel's flags of a process (proc_pid_stat(5), field 9)."""


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


def is_ending(pid: int) -> bool:
    """Whether `pid` is on its way out: dead, or between its end and the release of what it holds.

    The threads of a large server that was killed end one by one: its files and locks stay taken for that long.
    """
    fields = _fields(pid)
    return bool(fields) and (fields[0] in ("Z", "X") or bool(int(fields[6]) & _EXITING))


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
