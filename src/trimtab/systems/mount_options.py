"""Options of a mounted file system as lines, `commit = 5`, and as commands; pure but for the name of its device.

The first lines say which file system it is. `trimtab recover` uses them too, so that they need no catalogue.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from trimtab.host import FileCopy

__all__ = [
    "ACCESS_TIMES",
    "FILES_OF",
    "ID",
    "MOUNT",
    "WHICH",
    "commands_for",
    "device_of",
    "mount_option",
    "option_values",
    "point_of",
    "which_of",
]

MOUNT = "mount:"
"""What a path begins with that stands for the options of the file system which holds the folder after it."""

WHICH, ID = "mounted", "id"
"""The lines that say what it is."""
ACCESS_TIMES = "atime"
FILES_OF = {"ext4": ("extent_max_zeroout_kb",)}
"""Kind -> what is no option of the mount but a file below /sys/fs/KIND/DEVICE."""


def commands_for(copy: FileCopy) -> list[str]:
    """What a person writes to give the file system these options again."""
    values = option_values(copy)
    kind, _, rest = values.get(WHICH, "").partition(" ")
    files = FILES_OF.get(kind, ())
    options = ",".join(mount_option(name, text) for name, text in values.items() if name not in (WHICH, ID, *files))
    if values.get(ACCESS_TIMES) == "relatime":
        options = f"atime,{options}"  # mount(8) adds to the options there are: noatime goes first
    device = device_of(rest.partition(" ")[0])
    written = [f"echo {values[name]} > /sys/fs/{kind}/{device}/{name}" for name in files if name in values]
    return [f"mount -o remount,{options} {shlex.quote(point_of(copy))}", *written]


def device_of(number: str) -> str:
    """The device with a number such as "254:0" as the kernel names it: sda1, dm-0."""
    return Path("/sys/dev/block", number).resolve().name


def mount_option(name: str, text: str) -> str:
    """As an option of mount(8) is written."""
    if name == ACCESS_TIMES:
        return text
    if text in ("yes", "no"):
        return name if text == "yes" else f"no{name}"
    return f"{name}={text}"


def option_values(copy: FileCopy | None) -> dict[str, str]:
    lines = os.fsdecode(copy.content).split("\n") if copy is not None else ()
    return {name: value for name, is_line, value in (line.partition(" = ") for line in lines) if is_line}


def which_of(copy: FileCopy | None) -> str:
    """Which file system, for people and to tell it from another one."""
    return option_values(copy).get(WHICH, "no file system")


def point_of(copy: FileCopy | None) -> str:
    """Where it was mounted."""
    return which_of(copy).partition(" at ")[2]
