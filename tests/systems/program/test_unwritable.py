"""A configuration file that this user cannot write: no config is to blame for it, and `doctor` says so."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import PYTHON
from tests.systems.program.conftest import CONF, conf, made
from trimtab.errors import ApplyError
from trimtab.host import Folder
from trimtab.records import Fault, Status
from trimtab.space import Config
from trimtab.systems import Stack
from trimtab.systems.program import ProgramTarget
from trimtab.trial.forensics import Sentinel


@pytest.fixture
def target(folder: Path) -> Iterator[ProgramTarget]:
    found = made(folder, run=f"{PYTHON} program.py {folder}", health=f"test -f {folder}/seen", reload="true")
    found.open()
    yield found
    found.close()


@pytest.mark.parametrize(
    ("number", "fault"),
    [
        (errno.EACCES, Fault.ENVIRONMENT),
        (errno.EROFS, Fault.ENVIRONMENT),
        (errno.ENOSPC, Fault.RESOURCE),
        (errno.EINVAL, Fault.CONFIG),  # as of a value that the kernel refuses
    ],
)
def test_what_is_in_the_way_of_a_change_is_told_from_a_config_that_is_refused(
    folder: Path, target: ProgramTarget, monkeypatch: pytest.MonkeyPatch, number: int, fault: Fault
) -> None:
    def refuse(self: Folder, *_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Folder, "write", refuse)
    with pytest.raises(ApplyError, match="cannot write file=") as caught:
        target.apply(Config({"level": 9}))
    found = Sentinel(Stack.of(target)).refused(caught.value)
    assert (found.fault, found.status) == (
        fault,
        Status.CRASHED if fault is Fault.CONFIG else Status.INFRASTRUCTURE,
    )
    assert conf(folder) == CONF


def test_doctor_says_that_a_file_cannot_be_written(
    folder: Path, target: ProgramTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told() -> list[str]:
        return [text for check, is_fine, text in target.doctor() if check == "write" and not is_fine]

    assert told() == []
    owner, head = (folder / "squeeze.conf").stat().st_uid, f"what is in it cannot be tuned: {folder}/squeeze.conf: "
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert told() == [f"{head}it belongs to another user (uid={owner}) and could not be put back as it was"]
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    assert told() == [f"{head}this user may not write into its folder"]


@pytest.mark.needs("root")
def test_doctor_says_that_a_file_of_another_group_cannot_be_put_back(
    folder: Path, target: ProgramTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that `chown tuner FILE` has left to root's group: its owner may write it, and give it to no group but his own."""

    def told() -> list[str]:
        return [text for check, is_fine, text in target.doctor() if check == "write" and not is_fine]

    os.chown(folder / "squeeze.conf", 4242, 4343)
    for name in ("geteuid", "getegid"):
        monkeypatch.setattr(os, name, lambda: 4242)
    monkeypatch.setattr(os, "getgroups", lambda: [4243])
    assert told() == [
        f"what is in it cannot be tuned: {folder}/squeeze.conf: it belongs to a group that this user is not in (gid=4343) and"
        " could not be put back as it was"
    ]
    os.chown(folder, -1, 4343)
    folder.chmod(0o2775)
    assert told() == [], "a new file has the folder's group"
    folder.chmod(0o775)
    monkeypatch.setattr(os, "getgroups", lambda: [4243, 4343])
    assert told() == []
