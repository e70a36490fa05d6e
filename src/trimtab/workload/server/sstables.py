"""Files of a Cassandra table that are linked into the folder of another one: a copy of its data without a row being written."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

__all__ = ["linked_files", "remove_files"]

_FILE = re.compile(r"(?P<table>[a-z]{2}-[0-9a-zA-Z_]+-(?:big|bti))-(?P<part>\w+)\.\w+")
_ROWS = "Data"


def linked_files(source: Path, copy: Path) -> bool:
    """Gives the folder `copy`, which must have none, the data files of the folder `source`; False where that is not allowed.

    Rows are linked: the node never changes such a file. All other parts, which it may write again, are copied with their owner.
    The node must be neither flushing nor compacting the source.
    """
    try:
        names = [name for name in os.listdir(source) if _FILE.fullmatch(name) is not None]
        if not names or any(_FILE.fullmatch(name) is not None for name in os.listdir(copy)):
            return False
        for name in names:
            _give(source / name, copy / name)
    except OSError:
        return False
    return True


def remove_files(folder: Path) -> None:
    """Removes what `linked_files` may have left in a folder whose table is gone."""
    with suppress(OSError):
        for name in os.listdir(folder):
            if _FILE.fullmatch(name) is not None:
                (folder / name).unlink(missing_ok=True)


def _give(old: Path, new: Path) -> None:
    if f"-{_ROWS}." in old.name:
        os.link(old, new)
        return
    shutil.copy2(old, new)
    owner = old.stat()
    if owner.st_uid != os.geteuid():
        os.chown(new, owner.st_uid, owner.st_gid)
