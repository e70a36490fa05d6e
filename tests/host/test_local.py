"""The local host runs commands without a shell and replaces files at once."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.needs import require
from trimtab.errors import TargetError
from trimtab.host import FileCopy, Host, LocalHost, sync_folder

HOST = LocalHost()


def test_it_is_a_host() -> None:
    assert isinstance(HOST, Host)


def test_a_command_gives_exit_code_and_both_streams() -> None:
    result = HOST.run(
        [sys.executable, "-c", "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"], timeout_s=30
    )
    assert (result.exit_code, result.stdout, result.stderr) == (3, "out\n", "err\n")
    assert result.output == "out\nerr"


def test_no_shell_looks_at_the_arguments() -> None:
    assert HOST.run(["/bin/echo", "$HOME; ls", "*"], timeout_s=30).stdout == "$HOME; ls *\n"


def test_a_missing_program_is_told() -> None:
    with pytest.raises(TargetError, match="cannot run command='/no/such': No such file or directory"):
        HOST.run(["/no/such"], timeout_s=5)


@pytest.mark.slow
def test_a_command_that_takes_too_long_dies_with_its_children(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    with pytest.raises(TargetError, match="did not end within timeout_s=2"):
        HOST.run(["/bin/sh", "-c", 'sleep 600 & echo $! > "$0"; wait', str(mark)], timeout_s=2)
    child = int(mark.read_text())
    deadline = time.monotonic() + 60
    while psutil.pid_exists(child) and psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, "the grandchild outlived the time-out"
        time.sleep(0.01)


def test_ctrl_c_while_a_command_ends_is_raised_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    """`Popen.wait` then gives the command a quarter of a second, in which most end: there is nobody left to kill."""
    wait = subprocess.Popen.wait

    def interrupted(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        wait(process)
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        HOST.run(["true"], timeout_s=20)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that every user may enter."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.slow
@pytest.mark.needs("root")
def test_one_that_may_not_be_killed_does_not_block(open_folder: Path) -> None:
    """As `sudo systemctl restart` for a user who is not root: the process is root's."""
    setpriv = shutil.which("setpriv")
    assert setpriv is not None
    as_root = open_folder / "as-root"
    shutil.copy(setpriv, as_root)
    as_root.chmod(0o4755)
    code = f"""
import os
from trimtab.errors import TargetError
from trimtab.host import LocalHost
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
try:
    LocalHost().run([{str(as_root)!r}, "--ruid", "0", "sleep", "60"], timeout_s=1)
except TargetError as error:
    print(error.message)
"""
    began = time.monotonic()
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    took_s = time.monotonic() - began
    found = re.search("did not end within timeout_s=1, and cannot be killed: pid=([0-9]+)$", told.stdout.strip())
    assert found, told
    os.kill(int(found[1]), signal.SIGKILL)
    assert took_s < 30


def test_a_daemon_left_behind_does_not_block(tmp_path: Path) -> None:
    script = "import subprocess; print(subprocess.Popen(['sleep','30'], start_new_session=True).pid)"
    result = HOST.run([sys.executable, "-c", script], timeout_s=20)
    os.kill(int(result.stdout), 9)
    assert result.exit_code == 0


@pytest.mark.needs("root")
def test_a_command_can_run_as_another_user_without_groups() -> None:
    result = HOST.run(["/usr/bin/id"], timeout_s=30, user=65534, group=65534)
    assert "uid=65534" in result.stdout
    assert "groups=65534" in result.stdout
    assert "(root)" not in result.stdout


def test_a_file_comes_back_with_bytes_and_mode(tmp_path: Path) -> None:
    path = tmp_path / "conf"
    copy = FileCopy(content=b"a\r\n\xff\x00", mode=0o640, uid=os.geteuid(), gid=os.getegid())
    HOST.write_file(path, copy)
    assert HOST.read_file(path) == copy
    assert [p.name for p in tmp_path.iterdir()] == ["conf"]


@pytest.mark.needs("root")
def test_the_owner_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "conf"
    HOST.write_file(path, FileCopy(content=b"x", mode=0o600, uid=65534, gid=65534))
    status = path.stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (65534, 65534, 0o600)


@pytest.mark.slow
@pytest.mark.needs("root")
def test_a_file_whose_group_cannot_be_kept_is_left_with_the_reason(open_folder: Path) -> None:
    """Its owner may write into it, and can make no other one of that group."""
    path = open_folder / "conf"
    path.write_text("old")
    os.chown(path, 65534, 4343)
    os.chown(open_folder, 65534, 65534)
    code = f"""
import os
from pathlib import Path
from trimtab.errors import TargetError
from trimtab.host import LocalHost
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
try:
    LocalHost().write_file(Path({str(path)!r}), LocalHost().read_file(Path({str(path)!r})))
except TargetError as error:
    print(error)
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert told.stdout.startswith(
        f"cannot write file={str(path)!r}: Operation not permitted\nhint: a new file of the same owner and group takes its place"
    ), told
    assert [each.name for each in open_folder.iterdir()] == ["conf"]


def test_a_missing_file_is_none(tmp_path: Path) -> None:
    assert HOST.read_file(tmp_path / "none") is None


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "conf"
    path.write_bytes(b"old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("trimtab.host.local.os.fsync", full)
    with pytest.raises(TargetError, match=r"cannot write file='.*conf': No space left on device"):
        HOST.write_file(path, FileCopy(content=b"new", mode=0o600, uid=os.geteuid(), gid=os.getegid()))
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["conf"]


def test_what_a_killed_write_left_is_removed_and_does_not_hinder_the_next(tmp_path: Path) -> None:
    path, elsewhere = tmp_path / "conf", tmp_path / "elsewhere"
    copy = FileCopy(content=b"new", mode=0o600, uid=os.geteuid(), gid=os.getegid())
    HOST.write_file(path, copy)
    (tmp_path / ".conf.trimtab").write_bytes(b"ne")
    HOST.remove_leftover(path)
    HOST.remove_leftover(path)
    assert [p.name for p in tmp_path.iterdir()] == ["conf"]
    elsewhere.write_bytes(b"untouched")
    (tmp_path / ".conf.trimtab").symlink_to(elsewhere)
    HOST.write_file(path, copy)
    assert elsewhere.read_bytes() == b"untouched"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["conf", "elsewhere"]


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"cannot write file='.*/none/conf': No such file or directory"):
        HOST.write_file(tmp_path / "none/conf", FileCopy(content=b"", mode=0o600, uid=0, gid=0))


def test_a_file_that_is_mounted_by_itself_is_told(tmp_path: Path) -> None:
    """As a container's configuration often is: nothing can take its place."""
    require("mounts")
    path = tmp_path / "conf"
    path.write_bytes(b"old")
    subprocess.run(["mount", "--bind", path, path], check=True)
    try:
        with pytest.raises(TargetError, match=r"conf': Device or resource busy\nhint: .*: mount its folder instead"):
            HOST.write_file(path, FileCopy(content=b"new", mode=0o600, uid=os.geteuid(), gid=os.getegid()))
        assert path.read_bytes() == b"old"
        assert [p.name for p in tmp_path.iterdir()] == ["conf"]
    finally:
        subprocess.run(["umount", path], check=True)


def test_a_folder_cannot_be_read_as_a_file(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"cannot read file='.*': Is a directory"):
        HOST.read_file(tmp_path)


def test_a_file_can_be_removed_twice(tmp_path: Path) -> None:
    path = tmp_path / "conf"
    path.write_text("x")
    HOST.remove_file(path)
    HOST.remove_file(path)
    assert not path.exists()


def test_a_folder_cannot_be_removed_as_a_file(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    with pytest.raises(TargetError, match=r"cannot remove file='.*/d'"):
        HOST.remove_file(tmp_path / "d")


def test_facts_name_this_machine(tmp_path: Path) -> None:
    facts = HOST.facts(tmp_path)
    assert facts.hostname
    assert facts.kernel.startswith("Linux ")
    assert facts.disk in ("ssd", "hdd", "")
    assert HOST.disk_free_bytes(tmp_path) > 0


def test_what_is_written_in_place_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut just after a way back would bring the trial's value back; a file of the kernel is on none."""
    path, synced, fsync = tmp_path / "conf", list[Path](), os.fsync
    path.write_text("threads = 2\n")

    def seen(handle: int) -> None:
        synced.append(Path(f"/proc/self/fd/{handle}").readlink())
        fsync(handle)

    monkeypatch.setattr(os, "fsync", seen)
    HOST.write_in_place(path, b"threads = 1\n")
    assert (path.read_text(), synced) == ("threads = 1\n", [path])
    name = Path("/proc/self/comm")
    HOST.write_in_place(name, name.read_bytes())


def test_folders_that_nothing_syncs_are_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those that VirtualBox shares: the file is replaced, and a restore must not be told to have failed."""
    fsync = os.fsync

    def as_shared(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", as_shared)
    path = tmp_path / "conf"
    HOST.write_file(path, FileCopy(content=b"found", mode=0o640, uid=os.geteuid(), gid=os.getegid()))
    assert path.read_bytes() == b"found"
    HOST.remove_file(path)
    sync_folder(tmp_path)
