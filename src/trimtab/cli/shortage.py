"""Words for an operating system that has run out of something, or refuses a file: no bug of ours, each with its own way out."""

from __future__ import annotations

import errno
import os

__all__ = ["EXIT_CODE", "shortage"]

EXIT_CODE = 3

_REFUSED = (
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP
)  # fmt: skip
_BROKEN = (errno.EIO, errno.ESTALE)


def shortage(error: BaseException) -> tuple[str, str] | None:
    """(what happened, what to do) when `error` says that files, inodes, disk or memory ran out, a file is refused, or a disk
    fails; None for anything else."""
    if isinstance(error, MemoryError):
        return "this machine has no memory left for Trimtab itself", "give the server less, or the machine more"
    if not isinstance(error, OSError):
        return None
    where = f" file={error.filename}" if error.filename else ""
    if error.errno == errno.EMFILE:
        return f"too many open files: this process may open no more{where}", "raise its limit (ulimit -n)"
    if error.errno == errno.ENFILE:
        return f"too many open files on this machine{where}", "raise fs.file-max, or find who keeps them open"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        if error.errno == errno.ENOSPC and _has_no_inodes(error.filename):
            return f"no file can be made: the file system has no inodes left{where}", "remove small files there"
        free = "free some" if where else "free some where the output goes"
        return f"no space left on the disk{where}", f"{free}, or give another state directory with --state"
    if error.errno in _BROKEN:
        why = "a disk, a network file system or the terminal fails: see the kernel's messages (dmesg), then run this again"
        return f"cannot read or write{where}: {os.strerror(error.errno)}", why
    if error.errno in _REFUSED and where:  # without a file it is none of the user's
        return f"cannot use{where}: {os.strerror(error.errno)}", "check the path and its mode, or give another path"
    return None


def _has_no_inodes(name: object) -> bool:
    folder = os.path.dirname(os.fsdecode(name)) if isinstance(name, str | bytes) else ""
    try:
        found = os.statvfs(folder or ".")
    except OSError:
        return False
    return found.f_files > 0 and found.f_favail == 0
