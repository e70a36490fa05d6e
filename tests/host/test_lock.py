"""A file lock has one holder, whose death frees it."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.read_only import make_read_only
from trimtab.errors import TargetError
from trimtab.host import FileLock


def test_the_second_is_refused_and_sees_the_first(tmp_path: Path) -> None:
    first, second = FileLock(tmp_path / "a/lock"), FileLock(tmp_path / "a/lock")
    assert first.acquire("study=one")
    assert not second.acquire("study=two")
    assert second.holder() == "study=one"
    first.describe("study=three")
    assert second.holder() == "study=three"
    first.release()
    first.release()
    assert second.acquire("study=two")
    assert second.is_held
    second.release()


def test_taking_it_twice_is_fine(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "lock")
    assert lock.acquire("a")
    assert lock.acquire("b")
    lock.release()
    assert not lock.is_held


def test_a_file_system_without_locks_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_handle: int, _flags: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(TargetError, match="cannot be used: No locks available"):
        FileLock(tmp_path / "lock").acquire("me")


def test_a_full_disk_keeps_nobody_from_a_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_handle: int, _content: bytes, _at: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.pwrite", refuse)
    lock = FileLock(tmp_path / "lock")
    assert lock.acquire("me")
    assert not FileLock(tmp_path / "lock").acquire("another")
    lock.release()


def test_a_disk_that_has_become_read_only_keeps_nobody_from_a_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server that is to be put back may lie on another one."""
    lock = FileLock(tmp_path / "lock")
    assert lock.acquire("the tuner")
    lock.release()
    make_read_only(monkeypatch)
    assert lock.acquire("the dead-man")
    assert not FileLock(tmp_path / "lock").acquire("another")
    lock.release()
    with pytest.raises(TargetError, match="cannot be used: Read-only file system"):
        FileLock(tmp_path / "new").acquire("me")


def test_nobody_holds_a_missing_file(tmp_path: Path) -> None:
    assert FileLock(tmp_path / "none").holder() == ""


def test_the_holders_death_frees_it(tmp_path: Path) -> None:
    script = (
        "import sys,time; from pathlib import Path; from trimtab.host import FileLock;"
        f"lock = FileLock(Path({str(tmp_path / 'lock')!r})); lock.acquire('dead');"
        "print('held', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        lock = FileLock(tmp_path / "lock")
        assert not lock.acquire("me")
        process.kill()
        process.wait()
    assert lock.acquire("me")
    lock.release()


@pytest.mark.needs("root")
def test_a_lock_file_of_another_user_is_told_and_is_no_bug(tmp_path: Path) -> None:
    """First `sudo trimtab`, then without."""
    lock = FileLock(tmp_path / "locks" / "db.lock")
    assert lock.acquire("root")
    lock.release()
    (tmp_path / "locks").chmod(0o755)
    for path in (tmp_path, *list(tmp_path.parents)[:3]):
        path.chmod(path.stat().st_mode | 0o011)
    script = (
        "import os, sys; from pathlib import Path; from trimtab.host import FileLock; from trimtab.errors import TargetError\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "try:\n    FileLock(Path(sys.argv[1])).acquire('me')\n"
        "except TargetError as error:\n    print(error); sys.exit(error.exit_code)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(lock.path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 3, done.stderr
    assert "cannot be used: Permission denied (owner uid=0, this is uid=65534)" in done.stdout
    assert "hint: run Trimtab as the same user each time" in done.stdout


@pytest.mark.needs("root")
def test_a_lock_file_that_is_another_users_or_a_link_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "db.lock"
    path.write_text("holder")
    os.chown(path, 65534, 65534)
    with pytest.raises(TargetError, match="it belongs to another user"):
        FileLock(path).acquire("me")
    assert path.read_text() == "holder"
    (tmp_path / "link.lock").symlink_to(path)
    with pytest.raises(TargetError, match="it is a symbolic link"):
        FileLock(tmp_path / "link.lock").acquire("me")
