"""Limits: the cores and the memory that a process may really use: affinity, cgroup quota (v1 and v2), RAM."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trimtab.host.mount import read_mounts

__all__ = ["Limits", "cgroup_folder", "most_open_files", "read_limits"]

_UNLIMITED_BYTES = 1 << 62
"""cgroup v1 prints a number near 2^63, rounded to pages, for "no limit"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Usable cores and memory.

    Attributes:
        cores: the smaller of affinity and CPU quota, rounded down, at least 1.
        memory_bytes: the smaller of RAM and every cgroup limit above this process, `memory.high` of v2 among them: what goes
            beyond that is slowed down, and its memory taken away.
        cores_source, memory_source: which of them decided: "affinity", "quota"; "ram", "cgroup".
    """

    cores: int
    memory_bytes: int
    cores_source: str
    memory_source: str


def read_limits(root: Path = Path("/"), pid: int | None = None) -> Limits:
    """The limits of process `pid` (None: this one); `root` is where proc and sys are found (for tests).

    Of a process that is gone or may not be asked, the cores that this one may use.
    """
    n_affinity = _affinity_cores(pid) if root == Path("/") else _cpuinfo_cores(root)
    quota = min(_quotas(root, pid), default=float("inf"))
    ram = _ram_bytes(root)
    limit = min(_memory_limits(root, pid), default=_UNLIMITED_BYTES)
    return Limits(
        cores=max(1, int(min(n_affinity, quota))),
        memory_bytes=min(ram, limit),
        cores_source="quota" if quota < n_affinity else "affinity",
        memory_source="cgroup" if limit < ram else "ram",
    )


def most_open_files(pid: int, *, root: Path = Path("/")) -> int | None:
    """How many files process `pid` may open at most, by its hard limit; None when it has none or cannot be seen."""
    for line in (_read(root / f"proc/{pid}/limits") or "").splitlines():
        if line.startswith("Max open files"):
            hard = line.split()[4]
            return int(hard) if hard.isdecimal() else None
    return None


def _affinity_cores(pid: int | None) -> int:
    try:
        return len(os.sched_getaffinity(pid or 0))
    except OSError:  # it is gone, or may not be asked
        return len(os.sched_getaffinity(0))


def _cpuinfo_cores(root: Path) -> int:
    return sum(line.startswith("processor") for line in (root / "proc/cpuinfo").read_text().splitlines())


def _ram_bytes(root: Path) -> int:
    for line in (root / "proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return _UNLIMITED_BYTES


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None


def _mounts(root: Path) -> Iterator[tuple[str, str, str, set[str]]]:
    """(root inside the hierarchy, mount point, type, super options) of every cgroup mount."""
    for mount in read_mounts(root):
        if mount.kind in ("cgroup", "cgroup2"):
            yield mount.root, mount.point, mount.kind, set(mount.fs_options)


def cgroup_folder(controller: str, version: int, *, root: Path = Path("/"), pid: int | None = None) -> Path | None:
    """The folder of the cgroup that `pid` is in, for `controller`; None when there is no such hierarchy."""
    group = None
    for line in (_read(root / f"proc/{pid or 'self'}/cgroup") or "").splitlines():
        number, names, path = line.split(":", 2)
        if (version == 2 and number == "0" and not names) or (version == 1 and controller in names.split(",")):
            group = path
    for inside, point, kind, options in _mounts(root):
        if group is None or not (kind == "cgroup2" if version == 2 else controller in options):
            continue
        # In a container the mount shows only the part below `inside`, and the path may name the outer tree.
        relative = group.removeprefix(inside) if inside != "/" else group
        folder = root / point.lstrip("/") / relative.lstrip("/")
        return folder if folder.is_dir() else root / point.lstrip("/")
    return None


def _chain(controller: str, version: int, root: Path, pid: int | None) -> Iterator[Path]:
    """The folder of the process's cgroup and of all its ancestors."""
    folder = cgroup_folder(controller, version, root=root, pid=pid)
    while folder is not None and (folder / "cgroup.procs").exists():
        yield folder
        folder = folder.parent


def _memory_limits(root: Path, pid: int | None) -> Iterator[int]:
    for version, names in ((1, ("memory.limit_in_bytes",)), (2, ("memory.max", "memory.high"))):
        for folder in _chain("memory", version, root, pid):
            for text in (_read(folder / name) for name in names):
                if text is not None and text.isdigit() and int(text) < _UNLIMITED_BYTES:
                    yield int(text)


def _quotas(root: Path, pid: int | None) -> Iterator[float]:
    for folder in _chain("cpu", 1, root, pid):
        quota, period = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
        if quota and period and int(quota) > 0:
            yield int(quota) / int(period)
    for folder in _chain("cpu", 2, root, pid):
        parts = (_read(folder / "cpu.max") or "max").split()
        if parts[0] != "max":
            yield int(parts[0]) / int(parts[1])
