"""The lines of `trimtab doctor` that every kind of database server has: memory, disk, restart, knobs."""

from __future__ import annotations

import os
import shlex
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from trimtab.errors import TargetError
from trimtab.host import Limits, LocalHost
from trimtab.redact import redact
from trimtab.systems.account import user_name
from trimtab.systems.base import KnobState
from trimtab.systems.server_catalog import Denial
from trimtab.systems.start_limit import OF_SYSTEMD
from trimtab.units import counted, format_duration, format_size

__all__ = [
    "PASSWORD_FILES",
    "Line",
    "denial_lines",
    "disk_lines",
    "knob_line",
    "later_login_notes",
    "loss_lines",
    "memory_lines",
    "recover_line",
    "restart_line",
    "warmup_line",
]

Line = tuple[str, bool, str]
"""(check, is_fine, explanation)."""

PASSWORD_FILES = "a file of password_files"
"""Where systems that a catalogue describes find a password later."""

_LOW_DISK_BYTES = 2 << 30
_UNSEEN = "as the study file says: the server is on another machine"


def denial_lines(denial: Denial | None) -> list[Line]:
    """Why nothing at all may be changed, and what works all the same; none where something may."""
    if denial is None:
        return []
    return [
        (
            "changes",
            False,
            f"{denial.says}; {denial.hint}. `trimtab advise` and `trimtab bench` need no right to change",
        )
    ]


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


def restart_line(no_restart: str, command: str | None = None) -> Line:
    """Whether the server can be restarted; `no_restart` says why not, and `command` how, where the study file does, whose
    passwords are not shown."""
    if no_restart:
        return ("restart", True, f"{no_restart}: such knobs are locked")
    words, shown = shlex.split(command or ""), redact(command or "")
    if not words:
        return ("restart", True, "possible")
    is_ours_to_find = "/" not in words[0] or os.path.isabs(words[0])  # others are relative to the study file
    if is_ours_to_find and "{" not in words[0] and shutil.which(words[0]) is None:
        return ("restart", False, f"restart={shown!r}: there is no program {words[0]!r}")
    if words[:2] == ["sudo", "-n"] and os.geteuid() != 0 and not _is_allowed(words[2:]):
        needed = (
            f"{user_name()} ALL=(root) NOPASSWD: {redact(shlex.join([shutil.which(words[2]) or words[2], *words[3:]]))}"
        )
        return ("restart", False, f"restart={shown!r}: sudo asks for a password; a line for sudoers: {needed}")
    is_roots = words[0] in OF_SYSTEMD and os.geteuid() != 0
    more = f"; {words[0]} may need root: `sudo -n {shown}` with a line in sudoers" if is_roots else ""
    return ("restart", True, f"by the command {words[0]!r} of the study file, which is not tried here{more}")


def loss_lines(losses: Iterable[str]) -> list[Line]:
    """What a restart would take for good, which a study goes on without."""
    return [("restart loses", False, text) for text in losses]


def _is_allowed(argv: Sequence[str]) -> bool:
    """Whether sudo would run that without a password."""
    if not argv:
        return False
    try:
        return LocalHost().run(["sudo", "-n", "-l", *argv], timeout_s=10.0).exit_code == 0
    except TargetError:
        return False


def warmup_line(floor_s: float, *, is_compiled: bool) -> Line:
    """How long a load runs before what it does is measured; `is_compiled`: and until nothing is compiled for it any more."""
    least = f"{format_duration(floor_s)} of load" if floor_s else ""
    until = " and until ".join(filter(None, (least, "what the load runs is compiled" if is_compiled else "")))
    text = f"{until} after each restart, or as long as [measure] warmup_cap"
    return ("warm-up", True, text if least else f"until {text}")


def memory_lines(
    total_with: Callable[[int], float], budget_bytes: int, limits: Limits, *, is_here: bool, is_limited: bool
) -> list[Line]:
    """The budget beside the machine, and for how many clients it is enough; and the cores that only the study file tells.

    Args:
        total_with: bytes under the running config, with so many clients.
        budget_bytes: what all memory knobs share.
        limits: of the machine, or of another one as the study file tells them.
        is_here: whether it is this machine.
        is_limited: whether a cgroup holds the server to its budget.
    """
    machine = f"machine {format_size(limits.memory_bytes)} ({limits.memory_source})"
    budget = f"budget {format_size(budget_bytes)}, {machine if is_here else _UNSEEN}"
    limit = (
        "held by a cgroup"
        if is_limited
        else "the memory settings must fit into it together; no cgroup holds the server to it"
    )
    none, one = (total_with(n) for n in (0, 1))
    n_clients = int((budget_bytes - none) // (one - none)) if one > none else 0
    room = f"leaves room for {counted(n_clients, 'client')}, each with {format_size(one - none)}"
    is_fine = n_clients >= 1 if one > none else one <= budget_bytes
    fits = f"the running config {room if one > none else f'takes {format_size(one)}, whatever the number of clients'}"
    breaks = f"the running config breaks the budget even with one client: {format_size(one)}"
    return [
        *([] if is_here else [("cores", True, f"{limits.cores}, {_UNSEEN}")]),
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
