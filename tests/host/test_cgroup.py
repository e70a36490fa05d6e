"""A memory cgroup limits a process where the kernel allows it, and says plainly where not."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.needs import require
from trimtab.errors import TargetError
from trimtab.host import MemoryCgroup, oom_kills
from trimtab.host.limits import read_limits

LIMIT = 64 << 20


@pytest.fixture
def cgroup() -> Iterator[MemoryCgroup]:
    require("memory-cgroup")
    made = MemoryCgroup.create(f"trimtab-test-{uuid.uuid4().hex[:8]}", LIMIT)
    yield made
    made.remove()
    assert not made.folder.exists()


def test_a_process_in_it_is_killed_above_the_limit(cgroup: MemoryCgroup) -> None:
    script = "import sys; sys.stdin.readline(); b = bytearray(256 << 20); print('survived')"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        cgroup.add(process.pid)
        assert read_limits(pid=process.pid).memory_bytes == LIMIT
        assert oom_kills(process.pid) == 0, "the guards see it, in whatever hierarchy it is"
        out, _ = process.communicate("go\n", timeout=60)
    assert (process.returncode, out) == (-9, "")
    assert cgroup.n_oom_kills() == 1


def test_a_limited_process_gets_no_swap_and_the_limit_can_be_changed_both_ways(cgroup: MemoryCgroup) -> None:
    def shown(name: str) -> str | None:
        file = cgroup.folder / name
        return file.read_text().strip() if file.exists() else None

    for limit in (LIMIT, 2 * LIMIT, LIMIT // 2):
        again = MemoryCgroup.create(cgroup.folder.name, limit)
        assert again.folder == cgroup.folder
        assert str(limit) in (shown("memory.limit_in_bytes"), shown("memory.max"))
        assert shown("memory.memsw.limit_in_bytes") in (None, str(limit)), "with swap no more than without"
        assert shown("memory.swap.max") in (None, "0")


def test_a_dead_process_cannot_be_added(cgroup: MemoryCgroup) -> None:
    process = subprocess.Popen(["/bin/true"])
    process.wait()
    with pytest.raises(TargetError, match=f"cannot put pid={process.pid} under the memory limit"):
        cgroup.add(process.pid)


def test_no_controller_is_told(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    with pytest.raises(TargetError, match="cannot limit memory to memory_bytes=1024: no memory controller is mounted"):
        MemoryCgroup.create("x", 1024, root=tmp_path)


def test_a_limit_that_cannot_be_set_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    (tmp_path / "proc/self/mountinfo").write_text("30 20 0:30 / /cg rw - cgroup2 cgroup2 rw\n")
    (tmp_path / "cg/x/memory.max").mkdir(parents=True)  # a folder where the file should be: writing fails
    (tmp_path / "cg/cgroup.subtree_control").write_text("cpu memory pids\n")
    with pytest.raises(TargetError, match=r"cannot limit memory to memory_bytes=1024: v2 .*Is a directory") as caught:
        MemoryCgroup.create("x", 1024, root=tmp_path)
    assert "memory_limit = false" in str(caught.value)
    assert sorted(os.listdir(tmp_path / "cg")) == ["cgroup.subtree_control", "x"]


def unified(root: Path, *controllers: str) -> Path:
    """A v2 hierarchy in which this process is in /user.slice/session; `controllers`: what the root and the slice pass on."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text("0::/user.slice/session\n")
    (root / "proc/self/mountinfo").write_text("30 20 0:30 / /cg rw - cgroup2 cgroup2 rw\n")
    top = root / "cg"
    (top / "user.slice/session").mkdir(parents=True)
    for folder, names in zip((top, top / "user.slice", top / "user.slice/session"), (*controllers, ""), strict=True):
        (folder / "cgroup.subtree_control").write_text(f"{names}\n")
    return top


def test_under_v2_it_is_made_where_memory_is_passed_on(tmp_path: Path) -> None:
    """A group that holds processes, as that of this one, passes nothing on: what is made in it has no memory.max."""
    top = unified(tmp_path, "cpu memory", "memory pids")
    (top / "user.slice/x").mkdir()
    (top / "user.slice/x/memory.swap.max").write_text("max\n")
    made = MemoryCgroup.create("x", 1024, root=tmp_path)
    assert made.folder == top / "user.slice/x"
    assert (made.folder / "memory.max").read_text() == "1024"
    assert (made.folder / "memory.swap.max").read_text() == "0"
    plain = MemoryCgroup.create("y", 1024, root=tmp_path)
    assert not (plain.folder / "memory.swap.max").exists(), "a kernel that does not count swap"


def test_under_v2_it_is_told_where_nobody_passes_memory_on(tmp_path: Path) -> None:
    unified(tmp_path, "cpu", "pids")
    message = r"cannot limit memory to memory_bytes=1024: v2 .*session: no group from there up has memory in its cgroup"
    with pytest.raises(TargetError, match=message):
        MemoryCgroup.create("x", 1024, root=tmp_path)
