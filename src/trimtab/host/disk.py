"""The disk under a folder, as the kernel knows it."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["disk_kind", "disk_under"]


def disk_under(folder: Path, sys: Path = Path("/sys")) -> str:
    """The name of the whole disk that holds `folder`, as in /sys/block; "" when no disk does, or it cannot be seen.

    A partition's is its disk; a volume of LVM or LUKS that lies on one disk is that disk. A volume over several disks stands for
    itself.
    """
    try:
        number = folder.stat().st_dev
        device = (sys / "dev/block" / f"{os.major(number)}:{os.minor(number)}").resolve(strict=True)
        for _ in range(8):  # a volume may lie on another
            if (device / "partition").exists():
                device = device.parent
            below = sorted(os.listdir(device / "slaves")) if (device / "slaves").is_dir() else []
            if len(below) != 1:
                break
            device = (device / "slaves" / below[0]).resolve(strict=True)
    except OSError:
        return ""
    return device.name if (device / "queue").is_dir() else ""


def disk_kind(folder: Path, sys: Path = Path("/sys")) -> str:
    """ "ssd" or "hdd" by the kernel's rotational flag of the disk under `folder`; "" where that flag says nothing."""
    disk = disk_under(folder, sys)
    if not disk or disk.startswith(("vd", "xvd")):
        return ""  # virtual disks show the default of their driver, whatever the host has
    try:
        flag = (sys / "block" / disk / "queue/rotational").read_text().strip()
    except OSError:
        return ""
    return "hdd" if flag == "1" else "ssd"
