"""The lines of `trimtab doctor` that every kind of database server has: memory, disk, restart, knobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from trimtab.host import Limits, LocalHost
from trimtab.systems.base import KnobState
from trimtab.systems.catalog import Channel
from trimtab.systems.channel_paths import needs_disk
from trimtab.units import counted, format_duration, format_size

__all__ = [
    "PASSWORD_FILES",
    "Line",
    "disk_lines",
    "knob_line",
    "later_login_notes",
    "memory_lines",
    "named_disk_lines",
    "recover_line",
    "restart_line",
    "warmup_line",
]

Line = tuple[str, bool, str]
"""(check, is_fine, explanation)."""

PASSWORD_FILES = "a file of password_files"
"""Where systems that a catalogue describes find a password later."""

_LOW_DISK_BYTES = 2 << 30


def recover_line(where: str, file: str) -> Line:
    """Whether `trimtab recover` can log in after a power cut; `where` the only password stands, "" for none that is needed."""
    if not where:
        return ("recover", True, "can log in later, without anything that only this command was given")
    only = f"the password is only in {where}"
    if where == "url":
        return (
            "recover",
            False,
            f"{only}: after a power cut `trimtab recover` could not log in; put it into {file} too",
        )
    return ("recover", True, f"{only}: `trimtab recover` needs it there again after a power cut, or in {file}")


def later_login_notes(where: str, file: str) -> tuple[str, ...]:
    """What to tell before the first change: that `recover` could not log in later, where that is so; see `recover_line`."""
    if where != "url":
        return ()
    return (
        "the password is only in url: after a power cut `trimtab recover` and `rollback` could not log in."
        f" Put it into {file} as well (the dead-man has it, and restores after a kill)",
    )


def restart_line(no_restart: str) -> Line:
    """Whether the server can be restarted; `no_restart` says why not."""
    return ("restart", True, f"{no_restart}: such knobs are locked" if no_restart else "possible")


def warmup_line(floor_s: float, *, is_compiled: bool) -> Line:
    """How long a load runs before what it does is measured; `is_compiled`: and until nothing is compiled for it any more."""
    least = f"{format_duration(floor_s)} of load" if floor_s else ""
    until = " and until ".join(filter(None, (least, "what the load runs is compiled" if is_compiled else "")))
    text = f"{until} after each restart, or as long as [measure] warmup_cap"
    return ("warm-up", True, text if least else f"until {text}")


def named_disk_lines(disk: str, channels: Iterable[Channel]) -> list[Line]:
    """Whose queue is tuned, of a catalogue with settings of a disk; none while no disk is known."""
    has_queue = any(needs_disk(Path(channel.path)) for channel in channels)
    return [("queue", True, f"its settings are those of the disk {disk}")] if disk and has_queue else []


def memory_lines(
    total_with: Callable[[int], float], budget_bytes: int, limits: Limits, *, is_limited: bool
) -> list[Line]:
    """The budget beside the machine, and for how many clients it is enough.

    Args:
        total_with: bytes under the running config, with so many clients.
        budget_bytes: what all memory knobs share.
        limits: of the machine.
        is_limited: whether a cgroup holds the server to its budget.
    """
    budget = f"budget {format_size(budget_bytes)}, machine {format_size(limits.memory_bytes)} ({limits.memory_source})"
    limit = "held by a cgroup" if is_limited else "a sum over knobs; no cgroup holds the server to it"
    none, one = (total_with(n) for n in (0, 1))
    n_clients = int((budget_bytes - none) // (one - none)) if one > none else 0
    room = f"leaves room for {counted(n_clients, 'client')}, each with {format_size(one - none)}"
    is_fine = n_clients >= 1 if one > none else one <= budget_bytes
    fits = f"the running config {room if one > none else f'takes {format_size(one)}, whatever the number of clients'}"
    breaks = f"the running config breaks the budget even with one client: {format_size(one)}"
    return [
        ("memory", budget_bytes <= limits.memory_bytes, f"{budget}; {limit}"),
        ("memory use", is_fine, fits if is_fine else f"{breaks}; it is measured anyway"),
    ]


def disk_lines(host: LocalHost, data_dir: Path | None) -> list[Line]:
    """What is free under the data directory; nothing where that cannot be seen."""
    if data_dir is None:
        return []
    free = host.disk_free_bytes(data_dir)
    return [("disk", free >= _LOW_DISK_BYTES, f"{format_size(free)} free under the data directory")]


def knob_line(states: Mapping[str, KnobState]) -> Line:
    """How many of the curated knobs may be changed, and what locks the others."""
    curated = [state for state in states.values() if state.is_curated]
    n_open = sum(not state.lock_reason for state in curated)
    reasons = Counter(state.lock_reason for state in curated if state.lock_reason)
    locked = "; ".join(f"{count} locked: {reason}" for reason, count in reasons.most_common())
    what = f"{n_open} of {len(curated)} curated knobs may be changed" + (f"; {locked}" if locked else "")
    return ("knobs", n_open > 0, what)
