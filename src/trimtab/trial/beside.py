"""A third copy of an entry beside each private server that it changes.

A private server lies in the cache, and its state directory does not: that one can be removed, or the next study can have another
one, while the server still holds what a killed study has set. The copy tells whoever uses the server next. Where it cannot be
written, the entry does without; so does one of a rollback that comes while a study works on the server, and will be refused.
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
    """Writes the first line beside every private server of `snapshots` that no living process has one of its own about."""
    for path in _paths(snapshots):
        with suppress(OSError):
            if not _is_alive(path):
                write_new_file(path, line, path.with_suffix(".open-partial"))


def append_beside(snapshots: Sequence[Snapshot], record: Mapping[str, Any], entry: Path) -> None:
    """Adds a line to each that is of `entry`, an .open file."""
    for path in _own_paths(snapshots, entry):
        with suppress(OSError):
            append_line(path, record)


def forget_beside(snapshots: Sequence[Snapshot], entry: Path) -> None:
    """Removes each that is of `entry`, an .open file that is about to be closed."""
    for path in _own_paths(snapshots, entry):
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _own_paths(snapshots: Sequence[Snapshot], entry: Path) -> Iterable[Path]:
    """Those of `entry`, by its name: one that was taken over from a state directory that is gone lies elsewhere now. A damaged
    one says of nobody that it is theirs."""
    there = (path for path in _paths(snapshots) if path.exists())
    return (path for path in there if Path(str(_head(path).get("journal", entry))).name == entry.name)


def _head(path: Path) -> Mapping[str, Any]:
    """Its first line; empty where there is none, or none that can be read."""
    try:
        with path.open("rb") as file:
            return next(iter(read_lines(file.readline())), None) or {}
    except OSError:
        return {}


def _is_alive(path: Path) -> bool:
    """Whether a process that lives has written it."""
    try:
        return Beside(b"", _head(path)).is_owner_alive
    except (KeyError, ValueError):
        return False


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
