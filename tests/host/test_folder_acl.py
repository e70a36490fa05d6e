"""A file that is replaced keeps its access control list and its other extended attributes (acl(5), xattr(7))."""

from __future__ import annotations

import errno
import os
import stat
import struct
from pathlib import Path

import pytest

from trimtab.errors import TargetError
from trimtab.host import FileCopy, LocalHost

ACL, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
OWNER, USER, GROUP, MASK, OTHER = 0x01, 0x02, 0x04, 0x10, 0x20
READ, WRITE = 4, 6
NO_ID = 0xFFFFFFFF
STRANGER = 65534


def acl(*entries: tuple[int, int, int]) -> bytes:
    """As the kernel has it: version 2, then tag, rights and number of each entry (linux/posix_acl_xattr.h)."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def rights(path: Path) -> dict[int, int]:
    """Tag -> rights of the list of a file."""
    return {tag: may for tag, may, _ in struct.iter_unpack("<HHI", os.getxattr(path, ACL)[4:])}


LIST = acl(
    (OWNER, WRITE, NO_ID), (USER, WRITE, STRANGER), (GROUP, READ, NO_ID), (MASK, WRITE, NO_ID), (OTHER, 0, NO_ID)
)
"""A stranger may write, the group may only read; the mode shows rw for the group, which is the mask."""


def set_or_skip(path: Path, name: str, value: bytes) -> None:
    try:
        os.setxattr(path, name, value)
    except OSError as error:
        pytest.skip(f"this file system has no {name}: {error.strerror}")


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "httpd.conf"
    path.write_text("Timeout 60\n")
    path.chmod(0o640)
    set_or_skip(path, ACL, LIST)
    return path


def changed(path: Path) -> FileCopy:
    """The file as it is read, with other content: as a trial writes it."""
    found = LocalHost().read_file(path)
    assert found is not None
    return FileCopy(content=b"Timeout 5\n", mode=found.mode, uid=found.uid, gid=found.gid)


def test_the_list_is_kept_and_the_group_gets_no_more(conf: Path) -> None:
    assert stat.S_IMODE(conf.stat().st_mode) == 0o660, "the mask, not what the group may do"
    found = LocalHost().read_file(conf)
    assert found is not None
    LocalHost().write_file(conf, changed(conf))
    assert conf.read_text() == "Timeout 5\n"
    assert os.getxattr(conf, ACL) == LIST
    assert rights(conf)[GROUP] == READ
    LocalHost().write_file(conf, found)
    assert (conf.read_text(), os.getxattr(conf, ACL)) == ("Timeout 60\n", LIST)
    assert stat.S_IMODE(conf.stat().st_mode) == 0o660


def test_the_mode_that_is_asked_for_bounds_it(conf: Path) -> None:
    """As chmod does: it sets the mask."""
    copy = changed(conf)
    LocalHost().write_file(conf, FileCopy(content=copy.content, mode=0o640, uid=copy.uid, gid=copy.gid))
    assert rights(conf) == {OWNER: WRITE, USER: WRITE, GROUP: READ, MASK: READ, OTHER: 0}
    assert stat.S_IMODE(conf.stat().st_mode) == 0o640


def test_one_that_cannot_be_kept_is_refused_and_nothing_is_changed(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise OSError(errno.EPERM, "no")

    with monkeypatch.context() as patch:
        patch.setattr(os, "setxattr", refuse)
        with pytest.raises(
            TargetError,
            match=r"cannot write file='.*conf': its access control list cannot be kept: Operation not permit",
        ) as raised:
            LocalHost().write_file(conf, changed(conf))
    assert raised.value.hint
    assert (conf.read_text(), os.getxattr(conf, ACL)) == ("Timeout 60\n", LIST)
    assert [path.name for path in conf.parent.iterdir()] == ["httpd.conf"]


def test_other_attributes_are_kept_where_that_is_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.conf"
    path.write_text("a\n")
    set_or_skip(path, "user.origin", b"puppet")
    LocalHost().write_file(path, changed(path))
    assert os.getxattr(path, "user.origin") == b"puppet"
    set_one = os.setxattr

    def refuse(handle: int, name: str, value: bytes) -> None:
        if name.startswith("user."):
            raise OSError(errno.EPERM, "no")
        set_one(handle, name, value)

    monkeypatch.setattr(os, "setxattr", refuse)
    LocalHost().write_file(path, changed(path))
    assert path.read_text() == "Timeout 5\n", "such an attribute gives no rights"


def test_the_folders_default_list_adds_nothing_to_a_file_without_one(tmp_path: Path) -> None:
    path = tmp_path / "x.conf"
    path.write_text("a\n")
    path.chmod(0o640)
    set_or_skip(tmp_path, DEFAULT, LIST)
    LocalHost().write_file(path, changed(path))
    assert ACL not in os.listxattr(path), "the new file would let the stranger in"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_file_system_without_attributes_is_none_of_our_business(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.conf"
    path.write_text("a\n")

    def lacks(*arguments: object) -> list[str]:
        raise OSError(errno.ENOTSUP, "not supported")

    monkeypatch.setattr(os, "listxattr", lacks)
    LocalHost().write_file(path, changed(path))
    assert path.read_text() == "Timeout 5\n"


@pytest.mark.needs("root")
def test_the_list_of_another_users_file_gives_no_rights_on_what_is_roots(conf: Path) -> None:
    """Whoever may write into the folder has put it into the place of root's."""
    os.chown(conf, STRANGER, STRANGER)
    LocalHost().write_file(conf, FileCopy(content=b"secret\n", mode=0o640, uid=0, gid=0))
    assert ACL not in os.listxattr(conf)
    assert (conf.stat().st_uid, stat.S_IMODE(conf.stat().st_mode)) == (0, 0o640)


@pytest.mark.needs("root")
def test_the_list_of_a_users_file_is_kept_for_that_user(conf: Path) -> None:
    os.chown(conf, STRANGER, STRANGER)
    LocalHost().write_file(conf, changed(conf))
    assert os.getxattr(conf, ACL) == LIST
    assert conf.stat().st_uid == STRANGER
