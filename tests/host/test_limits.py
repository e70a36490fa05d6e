"""Limits are the smallest of what proc, affinity and every cgroup above the process say."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from trimtab.host import Limits, most_open_files, read_limits
from trimtab.host.limits import cgroup_folder

GIB = 1 << 30


def machine(root: Path, *, n_cores: int = 8, ram: int = 16 * GIB) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(f"MemTotal: {ram // 1024} kB\nMemFree: 1 kB\n")
    (root / "proc/cpuinfo").write_text("".join(f"processor\t: {i}\nmodel name : x\n\n" for i in range(n_cores)))
    return root


def mount(root: Path, *, kind: str, point: str, inside: str = "/", options: str = "rw") -> None:
    line = f"30 20 0:30 {inside} {point} rw - {kind} {kind} {options}\n"
    with (root / "proc/self/mountinfo").open("a") as file:
        file.write(line)


def group(root: Path, path: str, **files: str) -> None:
    folder = root / path.lstrip("/")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cgroup.procs").write_text("")
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def test_without_cgroups_ram_and_cores_count(tmp_path: Path) -> None:
    limits = read_limits(machine(tmp_path))
    assert limits == Limits(cores=8, memory_bytes=16 * GIB, cores_source="affinity", memory_source="ram")


def test_version_1_takes_the_tightest_ancestor(tmp_path: Path) -> None:
    root = machine(tmp_path)
    (root / "proc/self/cgroup").write_text("4:memory:/outer/inner\n2:cpu,cpuacct:/outer\n")
    mount(root, kind="cgroup", point="/sys/fs/cgroup/memory", options="rw,memory")
    mount(root, kind="cgroup", point="/sys/fs/cgroup/cpu", options="rw,cpu,cpuacct")
    group(root, "/sys/fs/cgroup/memory", memory__limit_in_bytes="9223372036854771712")
    group(root, "/sys/fs/cgroup/memory/outer", memory__limit_in_bytes=str(2 * GIB))
    group(root, "/sys/fs/cgroup/memory/outer/inner", memory__limit_in_bytes=str(4 * GIB))
    group(root, "/sys/fs/cgroup/cpu/outer", cpu__cfs_quota_us="250000", cpu__cfs_period_us="100000")
    assert read_limits(root) == Limits(cores=2, memory_bytes=2 * GIB, cores_source="quota", memory_source="cgroup")


def test_version_2_reads_max_files(tmp_path: Path) -> None:
    root = machine(tmp_path)
    (root / "proc/self/cgroup").write_text("0::/app.slice\n")
    mount(root, kind="cgroup2", point="/sys/fs/cgroup")
    group(root, "/sys/fs/cgroup/app.slice", memory__max=str(GIB), cpu__max="50000 100000")
    limits = read_limits(root)
    assert (limits.cores, limits.memory_bytes) == (1, GIB)  # half a core still counts as one


def test_version_2_without_limits_says_max(tmp_path: Path) -> None:
    root = machine(tmp_path)
    (root / "proc/self/cgroup").write_text("0::/app\n")
    mount(root, kind="cgroup2", point="/sys/fs/cgroup")
    group(root, "/sys/fs/cgroup/app", memory__max="max", cpu__max="max 100000")
    assert read_limits(root).memory_source == "ram"


def test_in_a_container_the_mount_shows_the_inner_part_only(tmp_path: Path) -> None:
    root = machine(tmp_path)
    (root / "proc/self/cgroup").write_text("4:memory:/docker/abc\n")
    mount(root, kind="cgroup", point="/sys/fs/cgroup/memory", inside="/docker/abc", options="rw,memory")
    group(root, "/sys/fs/cgroup/memory", memory__limit_in_bytes=str(GIB))
    assert read_limits(root).memory_bytes == GIB
    assert cgroup_folder("memory", 1, root=root) == root / "sys/fs/cgroup/memory"


def test_what_the_kernel_throttles_beyond_counts_as_a_limit(tmp_path: Path) -> None:
    root = machine(tmp_path)
    (root / "proc/self/cgroup").write_text("0::/system.slice/db.service\n")
    mount(root, kind="cgroup2", point="/sys/fs/cgroup")
    group(root, "/sys/fs/cgroup/system.slice", memory__max=str(4 * GIB), memory__high="max")
    group(root, "/sys/fs/cgroup/system.slice/db.service", memory__max=str(3 * GIB), memory__high=str(2 * GIB))
    limits = read_limits(root)
    assert (limits.memory_bytes, limits.memory_source) == (2 * GIB, "cgroup")


def test_a_server_that_is_gone_has_the_cores_of_this_process() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert read_limits(pid=child.pid).cores == read_limits().cores


def test_no_hierarchy_has_no_folder(tmp_path: Path) -> None:
    assert cgroup_folder("memory", 2, root=machine(tmp_path)) is None


def test_this_machine_has_cores_and_memory() -> None:
    limits = read_limits()
    assert 1 <= limits.cores <= len(os.sched_getaffinity(0))
    assert limits.memory_bytes > 64 << 20


@pytest.mark.parametrize("cores", [{0}])
def test_affinity_counts(cores: set[int]) -> None:
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, cores & before or {min(before)})
        assert read_limits().cores == 1
    finally:
        os.sched_setaffinity(0, before)


def test_the_hard_limit_of_open_files_counts(tmp_path: Path) -> None:
    head = "Limit                     Soft Limit           Hard Limit           Units\n"
    for pid, hard in ((7, "20000"), (8, "unlimited")):
        folder = tmp_path / f"proc/{pid}"
        folder.mkdir(parents=True)
        (folder / "limits").write_text(f"{head}Max open files            1024                 {hard:20} files\n")
    assert most_open_files(7, root=tmp_path) == 20000
    assert most_open_files(8, root=tmp_path) is None
    assert most_open_files(9, root=tmp_path) is None
    assert most_open_files(os.getpid()) == resource.getrlimit(resource.RLIMIT_NOFILE)[1]
