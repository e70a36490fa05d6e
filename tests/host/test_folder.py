"""A folder that is held open: nothing in it is reached through a link, whatever becomes of its path meanwhile."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from trimtab.errors import TargetError
from trimtab.host import FileCopy, Folder, LocalHost, open_regular

ATTACKER = 65534
needs_root = pytest.mark.needs("root")


def link(path: Path, goal: Path, uid: int) -> None:
    path.symlink_to(goal)
    os.lchown(path, uid, uid)


def copy(text: str) -> FileCopy:
    return FileCopy(content=text.encode(), mode=0o600, uid=os.geteuid(), gid=os.getegid())


def test_a_link_in_the_place_of_a_file_is_neither_read_nor_written_through(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "file").symlink_to("secret")
    with Folder.open(tmp_path) as folder:
        with pytest.raises(OSError, match="it is a symbolic link"):
            folder.read("file")
        folder.write("file", copy("new"), beside=".file")
    assert (tmp_path / "secret").read_text() == "secret"
    assert not (tmp_path / "file").is_symlink()
    assert (tmp_path / "file").read_text() == "new"


def test_a_pipe_in_the_place_of_a_file_is_an_error_and_no_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "file")
    with Folder.open(tmp_path) as folder, pytest.raises(OSError, match="it is not a regular file"):
        folder.read("file")
    with pytest.raises(OSError, match="it is not a regular file"):
        open_regular(tmp_path / "file")


def test_what_is_missing_is_none_and_removing_it_changes_nothing(tmp_path: Path) -> None:
    with Folder.open(tmp_path) as folder:
        assert folder.read("none") is None
        assert folder.status("none") is None
        assert not folder.remove("none")
    with pytest.raises(NotADirectoryError):
        Folder.open(Path("/etc/hostname"))
    LocalHost().remove_leftover(tmp_path / "no folder" / "file")


@pytest.mark.parametrize("is_relative", [False, True])
def test_links_of_ones_own_on_the_way_are_followed(tmp_path: Path, is_relative: bool) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "link").symlink_to("a/../a/b" if is_relative else tmp_path / "a" / "b")
    with Folder.open(tmp_path / "link") as folder:
        folder.write("file", copy("text"), beside=".file")
    assert (tmp_path / "a" / "b" / "file").read_text() == "text"
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        Folder.open(tmp_path / "round")


@needs_root
def test_another_users_link_is_followed_only_to_what_is_that_users(tmp_path: Path) -> None:
    (tmp_path / "roots").mkdir()
    link(tmp_path / "link", tmp_path / "roots", ATTACKER)
    with pytest.raises(OSError, match=r"a symbolic link of another user's \(uid=65534\) leads there"):
        Folder.open(tmp_path / "link")
    with pytest.raises(TargetError, match="cannot write file=.*a symbolic link of another user's"):
        LocalHost().write_file(tmp_path / "link" / "x.conf", copy("evil"))
    assert list((tmp_path / "roots").iterdir()) == []
    os.chown(tmp_path / "roots", ATTACKER, ATTACKER)
    Folder.open(tmp_path / "link").close()


@needs_root
def test_a_log_is_not_read_through_another_users_link(tmp_path: Path) -> None:
    (tmp_path / "shadow").write_text("secret")
    link(tmp_path / "server.log", tmp_path / "shadow", ATTACKER)
    with pytest.raises(OSError, match="a symbolic link of another user's"):
        open_regular(tmp_path / "server.log")


@needs_root
def test_a_folder_that_is_swapped_for_a_link_while_a_file_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, victim = tmp_path / "data", tmp_path / "victim"
    data.mkdir()
    victim.mkdir()
    sync = os.fsync

    def swap(handle: int) -> None:
        if data.is_dir() and not data.is_symlink():
            data.rename(tmp_path / "moved")
            link(data, victim, ATTACKER)
        sync(handle)

    monkeypatch.setattr(os, "fsync", swap)
    LocalHost().write_file(data / "postgresql.auto.conf", copy("text"))
    assert list(victim.iterdir()) == []
    assert (tmp_path / "moved" / "postgresql.auto.conf").read_text() == "text"


@needs_root
def test_a_folder_that_is_made_for_a_user_is_given_away_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    make = os.mkdir

    def swap(name: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        make(name, mode, dir_fd=dir_fd)
        if dir_fd is not None:
            os.rmdir(name, dir_fd=dir_fd)
            link(tmp_path / name, victim, ATTACKER)

    with Folder.open(tmp_path) as folder:
        assert folder.make_folder("good", ATTACKER, ATTACKER)
        assert (tmp_path / "good").stat().st_uid == ATTACKER
        assert not folder.make_folder("good", ATTACKER, ATTACKER)
        monkeypatch.setattr(os, "mkdir", swap)
        with pytest.raises(OSError, match="it is a symbolic link|Not a directory"):
            folder.make_folder("run", ATTACKER, ATTACKER)
    assert victim.stat().st_uid == 0


def test_a_reader_sees_the_old_or_the_new_file_and_never_a_part(tmp_path: Path) -> None:
    texts = {"a" * 100_000, "b" * 100_000}
    LocalHost().write_file(tmp_path / "file", copy("a" * 100_000))

    def write() -> None:
        for number in range(40):
            LocalHost().write_file(tmp_path / "file", copy("ab"[number % 2] * 100_000))

    n_read = 0
    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(write)
        while not writing.done() or n_read == 0:
            assert (tmp_path / "file").read_text() in texts
            n_read += 1
    writing.result()
