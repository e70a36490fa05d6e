"""A third copy of an entry beside each private server that it changes.

A private server lies in the cache, and its state directory does not: that one can be removed, or the next study can have another
one, while the server still holds what a killed study has set. The copy tells whoever uses the server next. Where it cannot be
written, the entry does without.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from trimtab.errors import TargetError
from trimtab.host import is_running, process_mark, read_state_file
from trimtab.systems import Snapshot
from trimtab.trial.lines import append_line, read_lines, write_new_file

__all__ = ["Beside", "append_beside", "begin_beside", "forget_beside", "read_beside"]


class Beside:
    """What lies beside a server: all its lines, and the entry that they are of.

    Attributes:
        content: the lines as they were written.
        entry: the entry's .open file.
        is_owner_alive: whether the process that made it still runs.
        is_kept: whether the entry is still where it was made.
    """

    def __init__(self, content: bytes, head: Mapping[str, Any]) -> None:
        self.content = content
        self.entry = Path(str(head["journal"]))
        self.is_owner_alive = is_running(int(head["pid"])) and process_mark(int(head["pid"])) == head["owner"]

    @property
    def is_kept(self) -> bool:
        return self.entry.exists() or self.entry.with_suffix(".copy").exists()


def _path(folder: Path) -> Path:
    return folder.parent / f"{folder.name}.open"


def _paths(snapshots: Sequence[Snapshot]) -> Iterable[Path]:
    return (_path(Path(str(each.reach["folder"]))) for each in snapshots if "folder" in each.reach)


def begin_beside(snapshots: Sequence[Snapshot], line: bytes) -> None:
    """Writes the first line beside every private server of `snapshots`."""
    for path in _paths(snapshots):
        with suppress(OSError):
            write_new_file(path, line, path.with_suffix(".open-partial"))


def append_beside(snapshots: Sequence[Snapshot], record: Mapping[str, Any]) -> None:
    """Adds a line to each."""
    for path in _paths(snapshots):
        with suppress(OSError):
            if path.exists():
                append_line(path, record)


def forget_beside(snapshots: Sequence[Snapshot]) -> None:
    """Removes each: the entry is about to be closed."""
    for path in _paths(snapshots):
        with suppress(OSError):
            path.unlink(missing_ok=True)


def read_beside(folder: Path) -> Beside | None:
    """What lies beside the server in `folder`; None when nothing does.

    Raises:
        TargetError: its first line is damaged.
        UsageError: it is not this user's.
    """
    path = _path(folder)
    try:
        content = read_state_file(path)
    except FileNotFoundError:
        return None
    head = next(iter(read_lines(content)), None)
    if head is None or not {"journal", "pid", "owner"} <= head.keys():
        raise TargetError(
            f"the server in folder={str(folder)!r} may hold what a killed study has set, and file={str(path)!r} about it is"
            " damaged",
            hint=f"remove the server's folder {folder} and that file: its data is made again",
        )
    return Beside(content, head)
