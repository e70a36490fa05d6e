"""The disk under a folder, over a tree as /sys has it: partitions, volumes of LVM, and what no disk holds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trimtab.host import disk_kind, disk_under


def _device(sys: Path, inner: str, *, number: str = "", queue: str | None = None, slaves: tuple[str, ...] = ()) -> Path:
    device = sys / "devices" / inner
    device.mkdir(parents=True)
    if queue is not None:
        (device / "queue").mkdir()
        (device / "queue/rotational").write_text(f"{queue}\n")
        (sys / "block").mkdir(exist_ok=True)
        (sys / "block" / device.name).symlink_to(device)
    if slaves:
        (device / "slaves").mkdir()
        for slave in slaves:
            (device / "slaves" / Path(slave).name).symlink_to(sys / "devices" / slave)
    if number:
        (sys / "dev/block").mkdir(parents=True, exist_ok=True)
        (sys / "dev/block" / number).symlink_to(device)
    return device


@pytest.fixture
def number(tmp_path: Path) -> str:
    device = tmp_path.stat().st_dev
    return f"{os.major(device)}:{os.minor(device)}"


@pytest.mark.parametrize(("flag", "kind"), [("0", "ssd"), ("1", "hdd")])
def test_a_partition_is_its_disk(tmp_path: Path, number: str, flag: str, kind: str) -> None:
    sys = tmp_path / "sys"
    _device(sys, "sda", queue=flag)
    (_device(sys, "sda/sda1", number=number) / "partition").write_text("1\n")
    assert (disk_under(tmp_path, sys), disk_kind(tmp_path, sys)) == ("sda", kind)


def test_a_volume_on_one_disk_is_that_disk(tmp_path: Path, number: str) -> None:
    sys = tmp_path / "sys"
    _device(sys, "nvme0n1", queue="0")
    (_device(sys, "nvme0n1/nvme0n1p2") / "partition").write_text("2\n")
    _device(sys, "dm-0", queue="0", slaves=("nvme0n1/nvme0n1p2",))
    _device(sys, "dm-1", queue="0", slaves=("dm-0",), number=number)
    assert disk_under(tmp_path, sys) == "nvme0n1"


def test_a_volume_over_several_disks_stands_for_itself(tmp_path: Path, number: str) -> None:
    sys = tmp_path / "sys"
    _device(sys, "sda", queue="1")
    _device(sys, "sdb", queue="1")
    _device(sys, "md0", queue="1", slaves=("sda", "sdb"), number=number)
    assert (disk_under(tmp_path, sys), disk_kind(tmp_path, sys)) == ("md0", "hdd")


def test_what_lies_on_no_disk_has_none(tmp_path: Path, number: str) -> None:
    assert disk_under(tmp_path, tmp_path / "sys") == ""
    assert disk_under(tmp_path / "gone") == ""
    _device(tmp_path / "sys", "odd", number=number)
    assert (disk_under(tmp_path, tmp_path / "sys"), disk_kind(tmp_path, tmp_path / "sys")) == ("", "")


def test_a_virtual_disk_does_not_say_of_which_kind_it_is(tmp_path: Path, number: str) -> None:
    _device(tmp_path / "sys", "vda", queue="1", number=number)
    assert (disk_under(tmp_path, tmp_path / "sys"), disk_kind(tmp_path, tmp_path / "sys")) == ("vda", "")
