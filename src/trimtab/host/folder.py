"""Folder: files reached through a folder that is held open, never by a name that somebody else can turn into a link.

Root writes into folders that belong to a server's user, and that user may put a link into the place of any name in them,
at any moment. So a folder is opened once, and everything in it is done relative to its descriptor, without following links.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from trimtab.host.base import FileCopy

__all__ = ["Folder", "open_regular", "sync_handle"]

_ACL = "system.posix_acl_access"
"""Its access control list (acl(5)): where there is one, the group's bits of the mode are the most that any it names may do."""

_OF_CONTENT = ("security.ima", "security.evm")
"""What the kernel has signed of a file; a new one gets its own."""

_MOST_LINKS = 40
"""As the kernel's own limit (path_resolution(7))."""


class Folder:
    """A folder that is held open; what is done in it stays in it, whatever becomes of its path meanwhile.

    Every method takes the name of an entry, never a path, and raises OSError. A symbolic link in the place of a file is an
    error, and so is anything else that is no plain file (a pipe, a device).

    Attributes:
        path: by which it was opened, for messages.
    """

    def __init__(self, path: Path, handle: int) -> None:
        self.path = path
        self._handle = handle

    @classmethod
    def open(cls, path: Path) -> Folder:
        """Opens a folder.

        A link on the way is followed when its owner could have made it no worse by hand: root, this user, or the owner of
        the folder that it leads to.

        Raises:
            OSError: it is missing, is no folder, may not be entered, or another user's link leads there.
        """
        handle = _walk(path)
        if not stat.S_ISDIR(os.fstat(handle).st_mode):
            os.close(handle)
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        return cls(path, handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Gives it back; idempotent."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    @property
    def owner(self) -> int:
        """User id of its owner."""
        return os.fstat(self._handle).st_uid

    def give(self, uid: int, gid: int) -> None:
        """Gives the folder itself to a user."""
        if self.owner != uid:
            handle = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._handle)
            try:
                os.fchown(handle, uid, gid)
            finally:
                os.close(handle)

    def open_file(self, name: str, flags: int, mode: int = 0o600) -> int:
        """A descriptor of a plain file; closed by the caller."""
        return _plain(_open(name, flags, mode, self._handle), self.path / name)

    def read(self, name: str, *, most_bytes: int | None = None) -> FileCopy | None:
        """The file, up to `most_bytes`, with mode and owner; None when there is none."""
        try:
            handle = self.open_file(name, os.O_RDONLY)
        except FileNotFoundError:
            return None
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(handle)
            content = file.read(-1 if most_bytes is None else most_bytes)
            return FileCopy(content=content, mode=status.st_mode & 0o7777, uid=status.st_uid, gid=status.st_gid)

    def write(self, name: str, copy: FileCopy, *, beside: str) -> None:
        """Replaces the file at once, with mode and owner, by way of a file named `beside`; durable. The new file has the access
        control list and the other extended attributes of the one that it replaces.

        Raises:
            OSError: also when the list cannot be kept: the mode alone would let others in, or keep some out.
        """
        attributes = self._attributes(name, copy.uid)
        self.remove(beside)
        handle = self.open_file(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(copy.content)
                status = os.fstat(handle)
                if (status.st_uid, status.st_gid) != (copy.uid, copy.gid):
                    os.fchown(handle, copy.uid, copy.gid)
                if attributes is not None:
                    _set_attributes(handle, attributes)
                os.fchmod(handle, copy.mode)  # after the list, which has its own idea of it
                file.flush()
                os.fsync(handle)
            self.rename(beside, name)
            self.sync()
        except OSError:
            self.remove(beside)
            raise

    def _attributes(self, name: str, uid: int) -> dict[str, bytes] | None:
        """Extended attributes of a plain file of that user, those that can be read; None when there is no such file that can be
        read. Of another user's nothing is taken: its list would let them read what is root's, if they have put it there."""
        status = self.status(name)
        if status is None or not stat.S_ISREG(status.st_mode):
            return None
        try:
            handle = self.open_file(name, os.O_RDONLY)
        except (PermissionError, FileNotFoundError):
            return None
        found = {}
        try:
            if os.fstat(handle).st_uid != uid:
                return None
            for attribute in _listed(handle):
                try:
                    found[attribute] = os.getxattr(handle, attribute)
                except OSError as error:
                    if attribute == _ACL and error.errno != errno.ENODATA:
                        raise
        finally:
            os.close(handle)
        return found

    def rename(self, old: str, new: str) -> None:
        """Gives an entry another name in this folder; a file of that name is replaced."""
        os.rename(old, new, src_dir_fd=self._handle, dst_dir_fd=self._handle)

    def remove(self, name: str) -> bool:
        """Removes a file, or a link itself; whether there was one."""
        if self.status(name) is None:  # asked first: a read-only disk refuses to remove what is not there
            return False
        os.unlink(name, dir_fd=self._handle)
        return True

    def make_folder(self, name: str, uid: int, gid: int) -> bool:
        """Makes a private folder for a user; False when there is something of that name already."""
        try:
            os.mkdir(name, 0o700, dir_fd=self._handle)
        except FileExistsError:
            return False
        handle = _open(name, os.O_RDONLY | os.O_DIRECTORY, 0, self._handle)
        try:
            # Only what was just made here is given away: somebody may have put a folder of another's in its place.
            if os.fstat(handle).st_uid == os.geteuid():
                os.fchown(handle, uid, gid)
        finally:
            os.close(handle)
        return True

    def status(self, name: str) -> os.stat_result | None:
        """Of the entry itself, not of what a link leads to; None when there is none."""
        try:
            return os.stat(name, dir_fd=self._handle, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def sync(self) -> None:
        """Makes the names in it durable: a rename or a new file is lost with the power otherwise."""
        handle = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._handle)
        try:
            sync_handle(handle)
        finally:
            os.close(handle)


def sync_handle(handle: int) -> None:
    """Makes what is open durable; no error where there is nothing that could be synced (EINVAL), as of files of the kernel, and
    of folders on AFS or that VirtualBox shares.

    Raises:
        OSError: the disk has failed.
    """
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """A descriptor of the plain file at `path`, which may be a link as in `Folder.open`; closed by the caller.

    Raises:
        OSError: as `Folder.open`, or it is not a regular file.
    """
    found = _plain(_walk(path), path)
    try:
        # The very file that was looked at, whatever has its name now.
        return os.open(f"/proc/self/fd/{found}", flags | os.O_CLOEXEC | os.O_NONBLOCK)
    finally:
        os.close(found)


def _walk(path: Path) -> int:
    """A descriptor (O_PATH) of what `path` leads to, found one step after the other."""
    waiting = deque(path.absolute().parts[1:])
    owners: set[int] = set()
    n_links = 0
    here = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        while waiting:
            step = os.open(waiting.popleft(), os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
            status = os.fstat(step)
            if not stat.S_ISLNK(status.st_mode):
                os.close(here)
                here = step
                continue
            goal = os.readlink("", dir_fd=step)
            os.close(step)
            owners.add(status.st_uid)
            n_links += 1
            if n_links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            if goal.startswith("/"):
                os.close(here)
                here = os.open("/", os.O_PATH | os.O_CLOEXEC)
            waiting.extendleft(part for part in reversed(goal.split("/")) if part not in ("", "."))
        strangers = owners - {0, os.geteuid(), os.fstat(here).st_uid}
        if strangers:
            who = ", ".join(f"uid={uid}" for uid in sorted(strangers))
            raise OSError(errno.EPERM, f"a symbolic link of another user's ({who}) leads there", str(path))
    except BaseException:
        os.close(here)
        raise
    return here


def _open(name: str, flags: int, mode: int, folder: int) -> int:
    # Without O_NONBLOCK a pipe in the file's place would keep us waiting for ever.
    safe = flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        return os.open(name, safe, mode, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a symbolic link", name) from error
        raise


def _listed(handle: int) -> list[str]:
    """Names of its extended attributes; [] where the file system has none."""
    try:
        return os.listxattr(handle)
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.ENOSYS):
            return []
        raise


def _set_attributes(handle: int, attributes: Mapping[str, bytes]) -> None:
    """Gives a new file these, as far as this user may; a list that it has from its folder is no longer there.

    Raises:
        OSError: the access control list cannot be set.
    """
    for attribute, value in attributes.items():
        if attribute not in (_ACL, *_OF_CONTENT):
            with suppress(OSError):
                os.setxattr(handle, attribute, value)
    try:
        if _ACL in attributes:
            os.setxattr(handle, _ACL, attributes[_ACL])
        elif _ACL in _listed(handle):
            os.removexattr(handle, _ACL)
    except OSError as error:
        raise OSError(
            error.errno, f"its access control list cannot be kept: {os.strerror(error.errno or 0)}"
        ) from error


def _plain(handle: int, path: Path) -> int:
    """The same descriptor, when it is that of a plain file; closed otherwise."""
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return handle
