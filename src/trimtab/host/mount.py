"""Mounted file systems: which of them holds a folder, its options, and a change of one option that leaves all others alone.

The calls are the kernel's own (mount_setattr(2), fspick(2), fsconfig(2)): mount(8) would give the options of /etc/fstab again.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

__all__ = [
    "Mount",
    "file_system_id",
    "mount_of",
    "read_mounts",
    "require_reconfigurable",
    "set_access_times",
    "set_option",
    "sets_access_times",
]

_ESCAPED = re.compile(r"\\([0-7]{3})")

# The same numbers on all architectures but Alpha.
_FSCONFIG, _FSPICK, _MOUNT_SETATTR = 431, 433, 442
_HERE = -100
_CLOEXEC, _NO_AUTOMOUNT = 1, 4
_SET_FLAG, _SET_STRING, _RECONFIGURE = 0, 1, 7
_ALL_TIMES = 0x70
_ACCESS_TIMES = {"relatime": 0x00, "noatime": 0x10, "strictatime": 0x20}


class _MountAttr(ctypes.Structure):
    """struct mount_attr of the kernel."""

    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


@dataclass(frozen=True, slots=True)
class Mount:
    """A file system at its place.

    Attributes:
        number: of the mount, as long as it lasts.
        point: the folder where it is mounted.
        root: the part of it that is seen there; "/" but for bind mounts.
        device: its number, "254:0".
        kind: "ext4", say.
        options: of this place, such as "noatime".
        fs_options: of the file system, wherever it is mounted, such as "lazytime".
    """

    number: str
    point: str
    root: str
    device: str
    kind: str
    options: tuple[str, ...]
    fs_options: tuple[str, ...]

    @property
    def access_times(self) -> str:
        """When reading a file writes the time of it: "relatime", "noatime" or "strictatime"."""
        return next((word for word in ("noatime", "relatime") if word in self.options), "strictatime")

    @property
    def is_read_only(self) -> bool:
        """Here, or everywhere."""
        return "ro" in self.options or "ro" in self.fs_options


def read_mounts(root: Path = Path("/")) -> Iterator[Mount]:
    """All that this process sees, in the order in which they were mounted; none where /proc cannot be read."""
    text = ""
    with suppress(OSError):
        text = os.fsdecode((root / "proc/self/mountinfo").read_bytes())
    yield from _mounts_in(text)


@lru_cache(maxsize=4)
def _mounts_in(text: str) -> tuple[Mount, ...]:
    """The mounts of a mountinfo, which is read many times in a trial and seldom changes."""
    return tuple(_each_mount(text))


def _each_mount(text: str) -> Iterator[Mount]:
    for line in text.split("\n"):
        left, _, right = line.partition(" - ")
        fields, tail = left.split(" "), right.split(" ")
        if len(fields) >= 6 and len(tail) >= 3:
            yield Mount(
                number=fields[0],
                point=_plain(fields[4]),
                root=_plain(fields[3]),
                device=fields[2],
                kind=tail[0],
                options=tuple(fields[5].split(",")),
                fs_options=tuple(tail[2].split(",")),
            )


def mount_of(folder: Path) -> Mount | None:
    """The mounted file system that holds `folder`; None when there is no such folder, or it cannot be seen."""
    try:
        handle = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = Path(f"/proc/self/fdinfo/{handle}").read_text()
    except OSError:
        return None
    finally:
        os.close(handle)
    number = re.search(r"^mnt_id:\s*(\d+)$", text, re.MULTILINE)
    return next((each for each in read_mounts() if number is not None and each.number == number[1]), None)


def file_system_id(folder: Path) -> str:
    """A number of the file system that holds `folder`, as a text; "" when it cannot be seen.

    That of ext4 and of tmpfs is random, and no other one gets it, while numbers of devices are used again.
    """
    try:
        return f"{os.statvfs(folder).f_fsid:x}"
    except OSError:
        return ""


def require_reconfigurable(point: str) -> None:
    """That options of the file system mounted at `point` could be changed.

    Raises:
        OSError: the kernel does not let this process, or cannot.
    """
    with _picked(point):
        pass
    # A root of a namespace of users may ask, and is refused once it changes something.
    if Path("/proc/self/uid_map").read_text().split() != ["0", "0", str((1 << 32) - 1)]:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))


@cache
def sets_access_times() -> bool:
    """Whether this kernel can change `Mount.access_times` and nothing else: since 5.12."""
    try:
        _call(_MOUNT_SETATTR, ctypes.c_int(_HERE), b"", ctypes.c_uint(0xFFFF_FFFF), None, ctypes.c_size_t(0))
    except OSError as error:
        return error.errno != errno.ENOSYS
    return True


def set_access_times(point: str, word: str) -> None:
    """Makes reads at this place write times as `word` of `Mount.access_times` says.

    Raises:
        OSError: the kernel refuses it, or is older than 5.12.
    """
    attributes = _MountAttr(attr_set=_ACCESS_TIMES[word], attr_clr=_ALL_TIMES)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    _call(_MOUNT_SETATTR, ctypes.c_int(_HERE), os.fsencode(point), ctypes.c_uint(0), ctypes.byref(attributes), size)


def set_option(mount: Mount, option: str, value: str = "") -> None:
    """Changes one option of a mounted file system, for all its places: `option`, or `option=value`.

    Raises:
        OSError: the kernel refuses it, with the file system's own words where it has some.
    """
    # Asked for anew: a file system takes these two from what it is given, also when that is nothing.
    kept = [flag for flag in ("ro", "lazytime") if flag in mount.fs_options and option not in (flag, f"no{flag}")]
    with _picked(mount.point) as handle:
        try:
            for flag in kept:
                _configure(handle, _SET_FLAG, flag.encode(), None)
            _configure(handle, _SET_STRING if value else _SET_FLAG, option.encode(), value.encode() if value else None)
            _configure(handle, _RECONFIGURE, None, None)
        except OSError as error:
            raise OSError(error.errno, _words_of(handle) or error.strerror) from error


@contextmanager
def _picked(point: str) -> Iterator[int]:
    flags = ctypes.c_uint(_CLOEXEC | _NO_AUTOMOUNT)
    handle = _call(_FSPICK, ctypes.c_int(_HERE), os.fsencode(point), flags)
    try:
        yield handle
    finally:
        os.close(handle)


def _configure(handle: int, command: int, key: bytes | None, value: bytes | None) -> None:
    _call(_FSCONFIG, ctypes.c_int(handle), ctypes.c_uint(command), key, value, ctypes.c_int(0))


def _call(number: int, *arguments: object) -> int:
    done: int = _libc().syscall(ctypes.c_long(number), *arguments)
    if done < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return done


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _words_of(handle: int) -> str:
    """What the file system says of a refusal: each read gives one message, "e ext4: words"."""
    words = []
    with suppress(OSError):
        while text := os.read(handle, 1024):
            words.append(text.decode(errors="replace").strip().partition(" ")[2])
    return "; ".join(words)


def _plain(text: str) -> str:
    """A path of mountinfo without its escapes."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), text)
