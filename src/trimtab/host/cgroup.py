"""MemoryCgroup: a memory limit for a server and all its children, where the kernel lets us set one (v1 or v2)."""

from __future__ import annotations

import os
from pathlib import Path

from trimtab.errors import TargetError
from trimtab.host.limits import cgroup_folder

__all__ = ["MemoryCgroup"]

_HINT = "run as root on a host with a writable memory cgroup, or set memory_limit = false"


class MemoryCgroup:
    """A cgroup of our own with a memory limit.

    Attributes:
        folder: its folder under the cgroup file system.
        limit_bytes: the limit; page cache counts.
    """

    def __init__(self, folder: Path, limit_bytes: int, version: int) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes
        self._version = version

    @classmethod
    def create(cls, name: str, limit_bytes: int, *, root: Path = Path("/")) -> MemoryCgroup:
        """Makes (or finds again) the cgroup `name` in that of this process, or of v2 in the nearest one above that may limit
        memory, and sets its limit.

        Raises:
            TargetError: there is no memory controller, or it may not be changed here; the message says which.
        """
        errors = []
        for version, limit_file in ((1, "memory.limit_in_bytes"), (2, "memory.max")):
            own = cgroup_folder("memory", version, root=root)
            if own is None:
                continue
            parent = own if version == 1 else _passing(own)
            if parent is None:
                errors.append(f"v2 {own}: no group from there up has memory in its cgroup.subtree_control")
                continue
            folder = parent / name
            try:
                folder.mkdir(exist_ok=True)
                _limit(folder, limit_file, limit_bytes)
                return cls(folder, limit_bytes, version)
            except OSError as error:
                errors.append(f"v{version} {folder}: {error.strerror}")
                _remove(folder)
        reason = "; ".join(errors) or "no memory controller is mounted"
        raise TargetError(f"cannot limit memory to memory_bytes={limit_bytes}: {reason}", hint=_HINT)

    def add(self, pid: int) -> None:
        """Moves a process into the cgroup; what it forks later follows.

        Raises:
            TargetError: the process is gone or may not be moved.
        """
        try:
            (self.folder / "cgroup.procs").write_text(str(pid))
        except OSError as error:
            raise TargetError(f"cannot put pid={pid} under the memory limit: {error.strerror}", hint=_HINT) from error

    def n_oom_kills(self) -> int:
        """How many processes the kernel has killed in it because memory ran out."""
        name = "memory.oom_control" if self._version == 1 else "memory.events"
        try:
            lines = (self.folder / name).read_text().splitlines()
        except OSError:
            return 0
        return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)

    def remove(self) -> None:
        """Removes the cgroup when it is empty; idempotent."""
        _remove(self.folder)


def _limit(folder: Path, limit_file: str, limit_bytes: int) -> None:
    """Sets the limit, and takes the group's swap away where the kernel counts it: a server over its limit would go on in it."""
    with_swap = folder / "memory.memsw.limit_in_bytes"  # v1: memory and swap together, never below the limit of memory
    if with_swap.exists():
        with_swap.write_text("-1")
    (folder / limit_file).write_text(str(limit_bytes))
    if with_swap.exists():
        with_swap.write_text(str(limit_bytes))
    if (folder / "memory.swap.max").exists():
        (folder / "memory.swap.max").write_text("0")


def _passing(folder: Path) -> Path | None:
    """The nearest group from `folder` up whose children have the memory controller; None when there is none.

    A group that holds processes passes no controller on ("no internal processes", cgroup-v2 of the kernel's documentation), so it
    is not that of this process unless that is the root.
    """
    for each in (folder, *folder.parents):
        try:
            controllers = (each / "cgroup.subtree_control").read_text().split()
        except OSError:
            return None
        if "memory" in controllers:
            return each
    return None


def _remove(folder: Path) -> None:
    if folder.is_dir():
        try:
            os.rmdir(folder)
        except OSError:
            return  # still has processes: the next user of the name finds and re-uses it
