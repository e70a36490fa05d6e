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
from trimtab.host import MemoryCgroup
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
        out, _ = process.communicate("go\n", timeout=60)
    assert (process.returncode, out) == (-9, "")
    assert cgroup.n_oom_kills() == 1


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
    with pytest.raises(TargetError, match=r"cannot limit memory to memory_bytes=1024: v2 .*Is a directory") as caught:
        MemoryCgroup.create("x", 1024, root=tmp_path)
    assert "memory_limit = false" in str(caught.value)
    assert os.listdir(tmp_path / "cg") == ["x"]
