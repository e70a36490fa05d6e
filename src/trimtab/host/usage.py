"""Usage: what the processes of a server and the machine under it use right now, from the kernel's own files.

Every figure is cheap enough to be asked for once a second beside a load.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trimtab.host.limits import cgroup_folder

__all__ = [
    "ProcessUse",
    "ThreadClock",
    "VolumeUse",
    "available_memory_bytes",
    "folder_bytes",
    "oom_kills",
    "process_use",
    "stolen_cpu_s",
    "swapped_bytes",
    "volume_uses",
]

_KIB = 1024
_STEAL = 8
"""Place of the steal time in the first line of /proc/stat, in ticks (proc_stat(5))."""
_BLOCK = 512
"""Bytes of a block of `st_blocks`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessUse:
    """What a process and its descendants use.

    Attributes:
        memory_bytes: anonymous memory of all of them, and the shared memory of the one that uses most of it: shared
            buffers count once, and so does a heap that its process maps several times, as that of ZGC.
        swap_bytes: of their memory, what lies in swap.
    """

    memory_bytes: int
    swap_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeUse:
    """How full a file system is; what is reserved for root counts as used.

    Attributes:
        path: a folder on it.
        used_bytes, size_bytes: of the whole file system, whoever uses it.
    """

    path: str
    used_bytes: int
    size_bytes: int

    @property
    def share(self) -> float:
        """Used share, in [0, 1]."""
        return self.used_bytes / self.size_bytes if self.size_bytes else 0.0


def process_use(pid: int, root: Path = Path("/")) -> ProcessUse | None:
    """What `pid` and its descendants use; None when it is gone or may not be seen."""
    rows = {each: row for each in _family(root, pid) if (row := _status(root, each))}
    if not rows:
        return None
    shared = {each: row.get("RssShmem", 0) + row.get("HugetlbPages", 0) for each, row in rows.items()}
    largest = max(shared, key=lambda each: shared[each])
    return ProcessUse(
        memory_bytes=sum(row.get("RssAnon", 0) for row in rows.values())
        + _counted_once(root, largest, shared[largest]),
        swap_bytes=sum(row.get("VmSwap", 0) for row in rows.values()),
    )


def _counted_once(root: Path, pid: int, shared_bytes: int) -> int:
    """Shared memory of a process without what the kernel counts again for each place where the process maps the same part of a
    file in memory: what such files hold, and at most the size of all else that is shared."""
    if not shared_bytes:
        return 0
    starts: Counter[tuple[str, str]] = Counter()
    lengths: Counter[str] = Counter()
    for line in _text(root / f"proc/{pid}/maps").splitlines():
        place, rights, offset, _, inode = line.split()[:5]
        if rights.endswith("s"):
            low, _, high = place.partition("-")
            starts[inode, offset] += 1
            lengths[inode] += int(high, 16) - int(low, 16)
    repeated = {inode for (inode, _), n in starts.items() if n > 1 and inode != "0"}
    if not repeated:
        return shared_bytes
    held = _held_bytes(root / f"proc/{pid}/fd", repeated)
    others = sum(length for inode, length in lengths.items() if inode not in held)
    return min(shared_bytes, sum(held.values()) + others)


def _held_bytes(folder: Path, inodes: Collection[str]) -> dict[str, int]:
    """Inode -> allocated bytes of those files that are open in `folder`, which is a process's."""
    found = {}
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                status = entry.stat()
                if str(status.st_ino) in inodes:
                    found[str(status.st_ino)] = status.st_blocks * _BLOCK
    return found


class ThreadClock:
    """CPU seconds of those threads of a process whose names begin with one of `names`.

    What a thread had used when it was seen last still counts after its end: the seconds of one process never fall.

    Args:
        names: the beginnings.
        root: of the file system.
    """

    def __init__(self, names: Sequence[str], root: Path = Path("/")) -> None:
        self._names = tuple(names)
        self._root = root
        self._pid: int | None = None
        self._ticks: dict[tuple[str, str], int] = {}
        """(thread, when it began) -> what it has used."""

    def seconds(self, pid: int) -> float | None:
        """So far; None when the process is gone, or may not be seen."""
        if pid != self._pid:
            self._pid, self._ticks = pid, {}
        n_seen = 0
        with suppress(OSError), os.scandir(self._root / f"proc/{pid}/task") as entries:
            for entry in entries:
                head, _, rest = _text(f"{entry.path}/stat").rpartition(")")
                n_seen += bool(rest)
                if head.partition("(")[2].startswith(self._names):
                    words = rest.split()
                    self._ticks[entry.name, words[19]] = sum(map(int, words[11:13]))
        return sum(self._ticks.values()) / os.sysconf("SC_CLK_TCK") if n_seen else None


def _family(root: Path, pid: int) -> Iterator[int]:
    by_parent = None if (root / f"proc/{pid}/task/{pid}/children").exists() else _children(root)
    waiting, seen = [pid], {pid}
    while waiting:
        each = waiting.pop()
        yield each
        found = _children_of(root, each) if by_parent is None else by_parent.get(each, [])
        waiting += [child for child in found if child not in seen]
        seen.update(found)


def _children_of(root: Path, pid: int) -> list[int]:
    """The kernel lists a process under the thread that has started it, whichever of its parent's that was."""
    found: list[int] = []
    with suppress(OSError), os.scandir(root / f"proc/{pid}/task") as threads:
        for thread in threads:
            found += map(int, _text(f"{thread.path}/children").split())
    return found


def _children(root: Path) -> dict[int, list[int]]:
    """By parent, of all processes: where the kernel was built without lists of children (CONFIG_PROC_CHILDREN)."""
    found: dict[int, list[int]] = {}
    for folder in (root / "proc").glob("[0-9]*"):
        fields = _text(folder / "stat").rpartition(")")[2].split()
        if len(fields) > 1:
            found.setdefault(int(fields[1]), []).append(int(folder.name))
    return found


def _status(root: Path, pid: int) -> dict[str, int]:
    """The memory lines of a process's status, in bytes."""
    found = {}
    for line in _text(root / f"proc/{pid}/status").splitlines():
        name, _, value = line.partition(":")
        if value.endswith(" kB"):
            found[name] = int(value.split()[0]) * _KIB
    return found


def _text(path: Path | str) -> str:
    """A file of the kernel's; "" where it cannot be read. A name in it may end with half a letter: it is cut off after 15 bytes.

    Unbuffered: a server has a thousand threads, and their files are read once a second.
    """
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def available_memory_bytes(root: Path = Path("/")) -> int | None:
    """Memory that the machine can still give without swapping, by the kernel's estimate; None when it does not say."""
    for line in _text(root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * _KIB
    return None


def swapped_bytes(root: Path = Path("/")) -> int | None:
    """Bytes that the machine has moved to and from swap since it was started; None when the kernel does not count them."""
    counts = dict(line.split() for line in _text(root / "proc/vmstat").splitlines())
    if "pswpin" not in counts or "pswpout" not in counts:
        return None
    return (int(counts["pswpin"]) + int(counts["pswpout"])) * os.sysconf("SC_PAGE_SIZE")


def stolen_cpu_s(root: Path = Path("/")) -> float | None:
    """CPU seconds that the hypervisor has taken since the machine started, all cores together; None where nothing says so."""
    try:
        return float(_text(root / "proc/stat").split("\n", 1)[0].split()[_STEAL]) / os.sysconf("SC_CLK_TCK")
    except (ValueError, IndexError):
        return None


def oom_kills(pid: int, root: Path = Path("/")) -> int | None:
    """Processes that the kernel has killed because memory ran out in the cgroup of `pid`; None when it does not say, or when this
    process is in the same one or below it: then others may be, and it cannot be told whose they were."""
    for version, name in ((2, "memory.events"), (1, "memory.oom_control")):
        folder = cgroup_folder("memory", version, root=root, pid=pid)
        if folder is None or not (folder / name).is_file():
            continue  # a hierarchy without the memory controller: of a hybrid system, the second
        own = cgroup_folder("memory", version, root=root, pid=os.getpid())
        if own is not None and own.is_relative_to(folder):
            return None
        for line in _text(folder / name).splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return None


def volume_uses(folders: Iterable[Path]) -> tuple[VolumeUse, ...]:
    """The file systems of `folders`, each once; folders that cannot be seen are left out."""
    found: dict[int, VolumeUse] = {}
    for folder in folders:
        try:
            device, usage = folder.stat().st_dev, shutil.disk_usage(folder)
        except OSError:
            continue
        found.setdefault(
            device, VolumeUse(path=str(folder), used_bytes=usage.total - usage.free, size_bytes=usage.total)
        )
    return tuple(found.values())


def folder_bytes(folders: Iterable[Path]) -> int:
    """Bytes allocated under `folders`, links followed at their tops only; what vanishes meanwhile does not count."""
    total, waiting = 0, [os.path.realpath(folder) for folder in folders]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        total += _allocated(entry)
        except OSError:
            continue
    return total


def _allocated(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_blocks * _BLOCK
    except OSError:
        return 0
