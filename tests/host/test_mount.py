"""Mounted file systems as the kernel shows them, and its refusals."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from tests.needs import require
from trimtab.host import Mount, mount_of, read_mounts, require_reconfigurable, set_option

LINES = r"""22 1 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard,commit=30
28 27 254:1 / /srv rw,noatime master:1 propagate_from:2 - xfs /dev/vdb rw,lazytime
29 27 254:0 /var/db /srv/with\040space rw,nosuid - ext4 /dev/vda rw
30 27 0:40 / /srv ro - tmpfs none rw
31 broken line
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text(LINES)
    return tmp_path


def test_a_line_says_where_it_is_and_with_which_options(root: Path) -> None:
    mounts = list(read_mounts(root))
    assert [mount.point for mount in mounts] == ["/proc", "/", "/srv", "/srv/with space", "/srv"]
    assert mounts[3] == Mount(
        number="29",
        point="/srv/with space",
        root="/var/db",
        device="254:0",
        kind="ext4",
        options=("rw", "nosuid"),
        fs_options=("rw",),
    )
    assert [mount.access_times for mount in mounts[1:4]] == ["relatime", "noatime", "strictatime"]
    assert [mount.is_read_only for mount in mounts[3:]] == [False, True]


def test_the_one_that_holds_a_folder_is_seen_and_no_hidden_one(tmp_path: Path) -> None:
    mount = mount_of(Path("/proc/self"))
    assert mount is not None
    assert (mount.point, mount.kind) == ("/proc", "proc")
    assert mount_of(tmp_path / "gone") is None
    require("mounts")
    inner = tmp_path / "outer/inner"
    inner.mkdir(parents=True)
    tmpfs = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs"]
    for folder in (inner, inner.parent):
        subprocess.run([*tmpfs, folder], check=True)
    try:
        inner.mkdir()
        found = mount_of(inner)
        assert found is not None
        assert found.point == str(inner.parent)
        assert any(each.point == str(inner) for each in read_mounts())
    finally:
        subprocess.run(["umount", inner.parent], check=True)
        subprocess.run(["umount", inner], check=True)
    found = mount_of(inner)
    assert found is not None
    assert found.point not in (str(inner), str(inner.parent))


def test_the_kernel_says_why_it_refuses(tmp_path: Path) -> None:
    require("mounts")
    with pytest.raises(OSError, match=os.strerror(errno.ENOENT)):
        require_reconfigurable(str(tmp_path / "gone"))
    proc = mount_of(Path("/proc"))
    assert proc is not None
    with pytest.raises(OSError, match="no_such_option"):
        set_option(proc, "no_such_option", "1")
