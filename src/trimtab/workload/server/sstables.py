"""Files of a Cassandra table that are linked into the folder of another one: a copy of its data without a row being written."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

__all__ = ["linked_files"]

_FILE = re.compile(r"(?P<table>[a-z]{2}-[0-9a-zA-Z_]+-(?:big|bti))-(?P<part>\w+)\.\w+")
_ROWS = "Data"


def linked_files(source: Path, copy: Path) -> list[str]:
    """Gives the folder `copy` the data files of the folder `source`; their names, none where that is not allowed or one is there.

    Rows are linked: the node never changes such a file. All other parts, which it may write again, are copied with their owner.
    The node must be neither flushing nor compacting the source.
    """
    parts: dict[str, list[str]] = {}
    for name in sorted(os.listdir(source)):
        if (match := _FILE.fullmatch(name)) is not None:
            parts.setdefault(match["table"], []).append(name)
    if any((copy / name).exists() for names in parts.values() for name in names):
        return []
    made: list[str] = []
    try:
        for names in parts.values():
            for name in names:
                made.append(name)
                _give(source / name, copy / name)
    except OSError:
        for name in made:
            (copy / name).unlink(missing_ok=True)
        return []
    return made


def _give(old: Path, new: Path) -> None:
    if f"-{_ROWS}." in old.name:
        os.link(old, new)
        return
    shutil.copy2(old, new)
    owner = old.stat()
    if owner.st_uid != os.geteuid():
        os.chown(new, owner.st_uid, owner.st_gid)
