"""Files of a Cassandra table that are linked into the folder of another one: a copy of its data without a row being written."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

__all__ = ["keep_files", "linked_files", "remove_unused"]

_FILE = re.compile(r"(?P<table>[a-z]{2}-[0-9a-zA-Z_]+-(?:big|bti))-(?P<part>\w+)\.\w+")
_ROWS = "Data"
_MARK = "trimtab-unfinished-copy"
"""A file in a folder whose table does not know its files yet: dropping the table leaves them there. The node ignores it."""


def linked_files(source: Path, copy: Path) -> bool:
    """Gives the folder `copy`, which must have none, the data files of the folder `source`; False where that is not allowed.

    Rows are linked: the node never changes such a file. All other parts, which it may write again, are copied with their owner.
    The node must be neither flushing nor compacting the source. Once it has taken the files, call `keep_files`; where it never
    does, whatever the reason, `remove_unused` finds them.
    """
    try:
        names = _files(source)
        if not names or _files(copy):
            return False
        (copy / _MARK).touch()
        for name in names:
            _give(source / name, copy / name)
    except OSError:
        return False
    return True


def keep_files(copy: Path) -> None:
    """The node has taken the files of this folder: from now on it deletes them with the table."""
    with suppress(OSError):
        (copy / _MARK).unlink(missing_ok=True)


def remove_unused(keyspace: Path) -> None:
    """Removes, below the folder of a keyspace that is not there any more, the files that the node never took."""
    with suppress(OSError):
        for mark in list(keyspace.glob(f"*/{_MARK}")):
            for name in _files(mark.parent):
                (mark.parent / name).unlink(missing_ok=True)
            mark.unlink(missing_ok=True)


def _files(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if _FILE.fullmatch(name) is not None]


def _give(old: Path, new: Path) -> None:
    if f"-{_ROWS}." in old.name:
        os.link(old, new)
        return
    shutil.copy2(old, new)
    owner = old.stat()
    if owner.st_uid != os.geteuid():
        os.chown(new, owner.st_uid, owner.st_gid)
