"""Options of a mounted file system as a channel: read from the kernel, and changed one by one while it is mounted.

They are lines, `commit = 5`, so that they are compared and taken back like those of any file. The first one says which file
system that is: where another one is mounted in its place, nothing is written to it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from trimtab.errors import TargetError
from trimtab.host import (
    FileCopy,
    LocalHost,
    Mount,
    file_system_id,
    mount_of,
    read_mounts,
    require_reconfigurable,
    set_access_times,
    set_option,
    sets_access_times,
)
from trimtab.systems.catalog import Channel
from trimtab.systems.channel_paths import needs_mount
from trimtab.systems.file_channel import FileChannel
from trimtab.systems.mount_options import (
    ACCESS_TIMES,
    FILES_OF,
    ID,
    MOUNT,
    WHICH,
    device_of,
    mount_option,
    option_values,
    point_of,
    which_of,
)

__all__ = ["MountChannel"]

_FLAGS_OF = {"ext4": ("lazytime", "discard"), "tmpfs": ("lazytime",)}
"""Others are not asked for any: XFS and F2FS set options back that are not named when one of them changes."""
_NUMBERS_OF = {"ext4": ("commit", "min_batch_time", "max_batch_time")}
_MODE = 0o644


class MountChannel(FileChannel):
    """One file system. See `FileChannel`: the file is what the kernel says of its options.

    Args:
        name, table: as of any channel.
        path: `mount:` and a folder on it.
    """

    is_live = True
    keeps = "options of the file system"

    def __init__(self, name: str, table: Channel, path: Path) -> None:
        super().__init__(name, table, path, LocalHost(), {})
        self.is_lasting = False

    def fleeting(self) -> str:
        """See `FileChannel`."""
        return "options of a mounted file system are gone after a restart of the machine; put the printed ones into /etc/fstab"

    def read(self) -> FileCopy | None:
        """Its options; None when no folder is known, or it is not there.

        Raises:
            TargetError: the kernel does not show them.
        """
        mount = self._mount()
        return _read(mount) if mount is not None else None

    def _mount(self) -> Mount | None:
        return None if needs_mount(self.path) else mount_of(self._folder)

    @property
    def _folder(self) -> Path:
        return Path(str(self.path).removeprefix(MOUNT) or "/")  # a path does not end with /

    def missing(self, copy: FileCopy | None) -> str:
        """Why nothing can be changed."""
        if needs_mount(self.path):
            return 'no file system is known that the other targets use: name a folder on it, names = { mount = "/var/lib" }'
        mount = self._mount()
        if copy is None or mount is None:
            return f"there is no folder={str(self._folder)!r}"
        if mount.is_read_only:
            return f"the file system at {mount.point} is mounted read-only"
        try:
            require_reconfigurable(mount.point)
        except OSError as error:
            return f"the kernel does not let this user change options of {mount.point}: {error.strerror}"
        return ""

    def place(self, line: int) -> str:
        """See `FileChannel`; the folder alone."""
        return f"{MOUNT}{self._folder}"

    def told(self) -> tuple[str, bool, str]:
        """For doctor."""
        copy = self.read()
        why = self.missing(copy)
        return "file system", not why, why or f"its settings are those of {which_of(copy)}"

    def no_place(self, found: FileCopy | None, address: str, value: str) -> str:
        """Why an option that it does not show cannot be set."""
        if found is None:
            return self.missing(None)
        return f"{which_of(found)} has no option {address} that this kernel can change"

    def changed(self, found: FileCopy | None, values: Mapping[str, str]) -> FileCopy | None:
        """See `FileChannel`.

        Raises:
            TargetError: there is no such folder.
        """
        if found is None and values:
            raise TargetError(self.missing(None), hint="name a folder that is there: names = { mount = ... }")
        return super().changed(found, values)

    def without(
        self, now: FileCopy | None, found: FileCopy | None, ours: Mapping[str, Sequence[str]], left_digest: str
    ) -> FileCopy | None:
        """See `FileChannel`; another file system that is mounted there now has nothing of ours.

        Raises:
            TargetError: the one that was changed is mounted, but not to be reached there.
        """
        here = _read_at(found)
        if found is None or not _is_same(here, found):
            _require_unmounted(found)
            return now
        return super().without(here, found, ours, left_digest)

    def fragment(self, values: Mapping[str, str], names: Mapping[str, str]) -> str:
        """The options for /etc/fstab, and lines of tmpfiles.d(5) for what is no option."""
        mount = self._mount()
        files = [name for name in values if mount is not None and name in FILES_OF.get(mount.kind, ())]
        options = {name: text for name, text in values.items() if name not in files}
        told = ",".join(mount_option(name, text) for name, text in options.items())
        knobs = ", ".join(names.get(name, name) for name in options)
        place = mount.point if mount is not None else "the file system"
        lines = [f"# {knobs}: options of {place} in /etc/fstab\n# {told}\n"] if options else []
        if mount is not None:
            lines += (f"# {names.get(n, n)}\nw {_file(mount, n)} - - - - {values[n]}\n" for n in files)
        return "".join(lines)

    def put(self, copy: FileCopy | None) -> None:
        """Gives the file system that `copy` was read from these options, each that differs; nothing happens without one.

        Raises:
            TargetError: the kernel refuses one (the others are changed), or another file system is mounted there now.
        """
        now = _read_at(copy)
        if copy is None or now == copy:
            return
        mount = mount_of(Path(point_of(copy)))
        if mount is None or not _is_same(now, copy):
            raise TargetError(
                f"another file system is mounted where {which_of(copy)} was",
                hint="mount that one again; its options are then those of /etc/fstab",
            )
        before, refused = option_values(now), []
        for name, text in option_values(copy).items():
            if before.get(name) != text and (why := self._refused(mount, name, text)):
                refused.append(f"{name}={text}: {why}")
        after = option_values(_read_at(copy))
        left = [
            f"{name}={text}: it stays {after.get(name)}"
            for name, text in option_values(copy).items()
            if after.get(name) != text
        ]
        if refused or left:
            raise TargetError(
                f"the kernel refuses for {mount.point}: {'; '.join(refused or left)}",
                hint="leave the knob out of the study",
            )

    def _refused(self, mount: Mount, name: str, text: str) -> str:
        """Sets one option; why the kernel does not let us, "" when it does."""
        try:
            if name in FILES_OF.get(mount.kind, ()):
                self._host.write_in_place(_file(mount, name), f"{text}\n".encode("latin-1"))
            elif name == ACCESS_TIMES:
                set_access_times(mount.point, text)
            else:
                option, _, value = mount_option(name, text).partition("=")
                set_option(mount_of(Path(mount.point)) or mount, option, value)
        except OSError as error:
            return error.strerror or str(error)
        except KeyError:
            return "it knows no such word"
        except TargetError as error:
            return error.message
        return ""

    def remove_leftover(self) -> None:
        """There is none."""


def _read(mount: Mount) -> FileCopy:
    """The options of a mounted file system as lines.

    Raises:
        TargetError: the kernel does not show them.
    """
    try:
        text = "".join(f"{name} = {value}\n" for name, value in _lines(mount))
    except OSError as error:
        raise TargetError(
            f"the options of {mount.point} cannot be read: {error}", hint="it may just have been unmounted: mount it"
        ) from error
    return FileCopy(content=os.fsencode(text), mode=_MODE, uid=0, gid=0)


def _lines(mount: Mount) -> Iterator[tuple[str, str]]:
    options, point = _told_options(mount), mount.point.replace("\n", "?")
    yield WHICH, f"{mount.kind} {mount.device} at {point}"
    yield ID, file_system_id(Path(mount.point))
    if sets_access_times():
        yield ACCESS_TIMES, mount.access_times
    for flag in _FLAGS_OF.get(mount.kind, ()):
        yield flag, "yes" if flag in options else "no"
    for name in _NUMBERS_OF.get(mount.kind, ()):
        if options.get(name):
            yield name, options[name]
    for name in FILES_OF.get(mount.kind, ()):
        file = _file(mount, name)
        # By its mode: to root the kernel says that it may write what it then does not let it write.
        if file.is_file() and file.stat().st_mode & stat.S_IWUSR:
            yield name, file.read_text().strip()


def _told_options(mount: Mount) -> dict[str, str]:
    """Option -> value, "" of a flag. ext4 names more of them in a file than mountinfo does, which leaves out usual ones."""
    words = [*mount.fs_options]
    told = Path("/proc/fs", mount.kind, device_of(mount.device), "options")
    if mount.kind in _NUMBERS_OF and told.is_file():
        words += told.read_text().split()
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def _file(mount: Mount, name: str) -> Path:
    return Path("/sys/fs", mount.kind, device_of(mount.device), name)


def _read_at(copy: FileCopy | None) -> FileCopy | None:
    """What is mounted now where that file system was, whatever has become of the folder that the study names."""
    mount = mount_of(Path(point)) if (point := point_of(copy)) else None
    return _read(mount) if mount is not None and mount.point == point else None


def _is_same(one: FileCopy | None, other: FileCopy | None) -> bool:
    """Whether both were read from one file system at one place."""
    first, second = option_values(one), option_values(other)
    return all(first.get(line) == second.get(line) for line in (WHICH, ID))


def _require_unmounted(found: FileCopy | None) -> None:
    """That the file system as found took its options with it.

    Raises:
        TargetError: it is mounted still, where they cannot be put back.
    """
    which, was = which_of(found), option_values(found).get(ID)
    for mount in read_mounts():
        if not which.startswith(f"{mount.kind} {mount.device} at "):
            continue
        seen = mount_of(Path(mount.point))
        if seen == mount and file_system_id(Path(mount.point)) != was:
            continue  # the number of its device was given to another one
        raise TargetError(
            f"{which} is mounted in another place, or behind another file system",
            hint="mount it as it was, or unmount it: that ends what was changed",
        )
