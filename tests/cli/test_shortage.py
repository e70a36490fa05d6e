"""An operating system that has run out of something is told as that, and not as a bug."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from trimtab.cli.shortage import shortage


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.EMFILE, "too many open files: this process may open no more file=/x/y"),
        (errno.ENFILE, "too many open files on this machine file=/x/y"),
        (errno.ENOSPC, "no space left on the disk file=/x/y"),
        (errno.EDQUOT, "no space left on the disk file=/x/y"),
    ],
)
def test_what_ran_out(number: int, message: str) -> None:
    found = shortage(OSError(number, "", "/x/y"))
    assert found is not None
    assert found[0] == message


def test_inodes_are_told_from_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        f_files, f_favail = 100, 0

    monkeypatch.setattr("os.statvfs", lambda folder: Full)
    found = shortage(OSError(errno.ENOSPC, "", str(tmp_path / "file")))
    assert found is not None
    assert found[0].startswith("no file can be made: the file system has no inodes left file=")


def test_memory_and_everything_else() -> None:
    found = shortage(MemoryError())
    assert found is not None
    assert found[0] == "this machine has no memory left for Trimtab itself"
    assert shortage(OSError(errno.ENOENT, "", "/x")) is None
    assert shortage(ValueError()) is None


@pytest.mark.parametrize(
    "number", [errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP]
)
def test_a_file_that_is_refused(number: int) -> None:
    found = shortage(OSError(number, "", "/x/y"))
    assert found is not None
    assert found[0].startswith("cannot use file=/x/y: ")
    assert shortage(OSError(number, "")) is None, "without a file it is none of the user's"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.EIO, "", "/x/y"), "cannot read or write file=/x/y: Input/output error"),
        (OSError(errno.ESTALE, "", "/x/y"), "cannot read or write file=/x/y: Stale file handle"),
        (OSError(errno.EIO, ""), "cannot read or write: Input/output error"),  # as reading and writing say it
    ],
)
def test_a_disk_that_fails_is_no_bug(error: OSError, message: str) -> None:
    found = shortage(error)
    assert found is not None
    assert found[0] == message
    assert "dmesg" in found[1]


def test_a_name_that_no_file_can_have_is_no_bug(run: Run, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for words, code, why in (
        (["recover", "--state", "a" * 300], 3, "error: cannot use file="),
        (["init", "a" * 300], 3, "error: cannot use file="),
        (["report", "x", "--html", "a" * 300], 3, "error: cannot use file="),
        (["init", "loop/x", "--embedded"], 2, "error: cannot write file='loop/x': Too many levels of symbolic links"),
    ):
        ran = run(*words)
        assert (ran.code, ran.err[: len(why)]) == (code, why)
