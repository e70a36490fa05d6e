"""What processes and volumes use, from the kernel's files."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from trimtab.host import (
    VolumeUse,
    available_memory_bytes,
    folder_bytes,
    oom_kills,
    process_use,
    stolen_cpu_s,
    swapped_bytes,
    volume_uses,
)

KIB, MIB = 1 << 10, 1 << 20


def proc(root: Path, pid: int, children: str = "", **kib: int) -> None:
    folder = root / f"proc/{pid}"
    (folder / f"task/{pid}").mkdir(parents=True)
    (folder / f"task/{pid}/children").write_text(children)
    lines = "".join(f"{name}:\t{value} kB\n" for name, value in kib.items())
    (folder / "status").write_text(f"Name:\tx\n{lines}Threads:\t1\n")


def test_shared_memory_counts_once_and_private_memory_everywhere(tmp_path: Path) -> None:
    proc(tmp_path, 10, "11 12", RssAnon=100, RssShmem=5000, VmSwap=7)
    proc(tmp_path, 11, "13", RssAnon=200, RssShmem=4000)
    proc(tmp_path, 12, RssAnon=300, HugetlbPages=1000)
    proc(tmp_path, 13, RssAnon=400, VmSwap=3)
    use = process_use(10, tmp_path)
    assert use is not None
    assert (use.memory_bytes, use.swap_bytes) == ((1000 + 5000) * KIB, 10 * KIB)
    assert process_use(99, tmp_path) is None


def test_children_are_found_where_the_kernel_does_not_list_them(tmp_path: Path) -> None:
    for pid, parent, kib in ((10, 1, 100), (11, 10, 200), (12, 11, 400), (20, 1, 800)):
        proc(tmp_path, pid, RssAnon=kib)
        (tmp_path / f"proc/{pid}/task/{pid}/children").unlink()
        (tmp_path / f"proc/{pid}/stat").write_text(f"{pid} (a (b) c) S {parent} {pid} {pid} 0 -1 4194304 1 0\n")
    use = process_use(10, tmp_path)
    assert use is not None
    assert use.memory_bytes == 700 * KIB


def test_a_name_that_ends_with_half_a_letter_hides_no_process(tmp_path: Path) -> None:
    """The kernel cuts it off after 15 bytes."""
    proc(tmp_path, 10, RssAnon=100)
    path = tmp_path / "proc/10/status"
    path.write_bytes(path.read_bytes().replace(b"\tx\n", "\taaaaaaaaaaaaaaü\n".encode().replace(b"\xbc", b"")))
    use = process_use(10, tmp_path)
    assert use is not None
    assert use.memory_bytes == 100 * KIB


@pytest.mark.parametrize("is_of_another_thread", [False, True])
def test_a_child_that_takes_memory_is_seen(is_of_another_thread: bool) -> None:
    code = "x = b'1' * (64 << 20); print(flush=True); input()"

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    alone = process_use(os.getpid())
    with ThreadPoolExecutor(1) as threads, threads.submit(start).result() if is_of_another_thread else start() as child:
        assert child.stdout is not None
        child.stdout.readline()
        mine, childs = process_use(os.getpid()), process_use(child.pid)
        child.communicate(b"\n")
    assert alone is not None
    assert mine is not None
    assert childs is not None
    assert childs.memory_bytes >= 64 * MIB
    assert mine.memory_bytes - alone.memory_bytes >= 60 * MIB


def test_memory_that_is_mapped_several_times_counts_once() -> None:
    """As the heap of ZGC: the kernel counts a page for each place where it is mapped."""
    code = (
        "import mmap, os\n"
        "file = os.memfd_create('heap'); os.ftruncate(file, 48 << 20)\n"
        "views = [mmap.mmap(file, 48 << 20) for _ in range(3)]\n"
        "other = mmap.mmap(-1, 16 << 20); other.write(b'1' * (16 << 20))\n"
        "for view in views: view.write(b'1' * (48 << 20))\n"
        "print(flush=True); input()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        use = process_use(child.pid)
        kernels = Path(f"/proc/{child.pid}/status").read_text(encoding="utf-8")
        child.communicate(b"\n")
    assert use is not None
    (shared,) = (int(line.split()[1]) for line in kernels.splitlines() if line.startswith("RssShmem"))
    assert shared * KIB >= (3 * 48 + 16) * MIB
    assert (48 + 16) * MIB <= use.memory_bytes < 110 * MIB


def test_files_of_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    assert available_memory_bytes(tmp_path) is None
    assert swapped_bytes(tmp_path) is None
    assert stolen_cpu_s(tmp_path) is None
    (tmp_path / "proc/meminfo").write_text("MemTotal: 100 kB\nMemAvailable: 60 kB\n")
    (tmp_path / "proc/vmstat").write_text("pswpin 3\npswpout 4\n")
    assert available_memory_bytes(tmp_path) == 60 * KIB
    assert swapped_bytes(tmp_path) == 7 * os.sysconf("SC_PAGE_SIZE")
    assert oom_kills(1, tmp_path) is None
    (tmp_path / "proc/stat").write_text("cpu  1 2 3\n")
    assert stolen_cpu_s(tmp_path) is None, "a kernel that does not count it"
    (tmp_path / "proc/stat").write_text("cpu  1 2 3 4 5 6 7 50 0 0\ncpu0 1 2 3 4 5 6 7 9 0 0\n")
    assert stolen_cpu_s(tmp_path) == 50 / os.sysconf("SC_CLK_TCK")


def test_kills_in_a_group_of_others_too_are_not_told(tmp_path: Path) -> None:
    """What else runs where the tuner runs, as in one container, may have been killed."""
    for pid in (os.getpid(), 1, 2):
        (tmp_path / f"proc/{pid}").mkdir(parents=True)
        group = "/box" if pid != 2 else "/box/server"
        (tmp_path / f"proc/{pid}/cgroup").write_text(f"0::{group}\n")
    (tmp_path / "proc/self").mkdir()
    (tmp_path / "proc/self/mountinfo").write_text("30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
    for group in ("box", "box/server"):
        (tmp_path / "sys/fs/cgroup" / group).mkdir(parents=True)
        (tmp_path / "sys/fs/cgroup" / group / "memory.events").write_text("oom 1\noom_kill 3\n")
    assert oom_kills(1, tmp_path) is None
    assert oom_kills(2, tmp_path) == 3


def hybrid(root: Path, groups: dict[int, str]) -> None:
    """As systemd's hybrid hierarchy: the memory controller is of v1, and everybody is in the root of v2."""
    for pid, group in groups.items():
        (root / f"proc/{pid}").mkdir(parents=True)
        (root / f"proc/{pid}/cgroup").write_text(f"4:memory:{group}\n0::/\n")
        folder = root / "sys/fs/cgroup/memory" / group.lstrip("/")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    (root / "sys/fs/cgroup/unified").mkdir()
    (root / "sys/fs/cgroup/unified/cgroup.procs").touch()
    (root / "proc/self").mkdir()
    (root / "proc/self/mountinfo").write_text(
        "30 23 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
        "31 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    )


def test_kills_are_seen_where_only_the_first_hierarchy_has_the_memory_controller(tmp_path: Path) -> None:
    hybrid(tmp_path, {os.getpid(): "/tuner", 1: "/server", 2: "/tuner", 3: "/"})
    assert oom_kills(1, tmp_path) == 2
    assert oom_kills(2, tmp_path) is None, "the tuner's own group"
    assert oom_kills(3, tmp_path) is None, "a group above the tuner's"


def test_each_volume_once(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (found,) = volume_uses([tmp_path, tmp_path / "a", tmp_path / "missing"])
    assert found.path == str(tmp_path)
    assert 0 < found.share <= 1
    assert VolumeUse(path="", used_bytes=0, size_bytes=0).share == 0.0


def test_size_of_a_tree(tmp_path: Path) -> None:
    (tmp_path / "data/base").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "data/base/1").write_bytes(b"x" * MIB)
    (tmp_path / "elsewhere/2").write_bytes(b"x" * 2 * MIB)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "data/inner").symlink_to(tmp_path / "elsewhere")
    assert MIB <= folder_bytes([tmp_path / "data"]) < MIB + 64 * KIB
    assert 3 * MIB <= folder_bytes([tmp_path / "data", tmp_path / "link"]) < 3 * MIB + 64 * KIB
    assert folder_bytes([tmp_path / "missing"]) == 0
