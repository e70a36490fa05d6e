"""Format: what a way of writing studies down promises; a plug-in of the group `trimtab.formats`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from trimtab.errors import HistoryError
from trimtab.history.record import StudyCopy

__all__ = ["MAX_FILE_BYTES", "MAX_LINE_BYTES", "Format", "Imported", "file_of", "refuse"]

MAX_FILE_BYTES = 4 << 30
"""Of a file that is read: 100,000 trials take some hundred megabytes."""

MAX_LINE_BYTES = 4 << 20
"""Of one line: a trial takes some kilobytes."""


@dataclass(slots=True)
class Imported:
    """What a file holds.

    Attributes:
        studies: read once, perhaps lazily; what is wrong with the file may only show while they are read.
        notes: one line for each kind of thing that could not be mapped; complete when `studies` has been read.
    """

    studies: Iterable[StudyCopy]
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Keeps a note, once."""
        if text not in self.notes:
            self.notes.append(text)


@runtime_checkable
class Format(Protocol):
    """One format. Made without arguments; holds no state, so it may be used by several threads.

    Attributes:
        suffixes: of the files that hold it, lower case, the usual one first: (".jsonl",).
        is_exact: whether reading gives exactly what was written, all of it.
        is_database: whether the place may be a postgresql:// URL as well as a path.
    """

    suffixes: Sequence[str]
    is_exact: bool
    is_database: bool

    def write(self, studies: Iterable[StudyCopy], place: str) -> Sequence[str]:
        """Writes `studies` to a new file (or into a database); says what the format cannot hold of them.

        Raises:
            HistoryError: a study that the format cannot hold at all.
            OSError: the file cannot be written.
        """

    def read(self, place: str) -> Imported:
        """What is at `place`. Nothing in it is run, and it may be hostile: sizes are limited, and types are checked.

        Raises:
            HistoryError: at once or while the studies are read: it is not of this format, or is damaged.
            OSError: the file cannot be read.
        """


def file_of(place: str) -> Path:
    """The file to be read, after a look at its size.

    Raises:
        HistoryError: it is not a file, or too large.
    """
    path = Path(place)
    if path.exists() and not path.is_file():
        raise HistoryError(f"{place!r} is not a file", hint="give the file to be imported")
    size = path.stat().st_size
    if size > MAX_FILE_BYTES:
        raise refuse(place, f"size_bytes={size} is above {MAX_FILE_BYTES}", "export fewer studies at once")
    return path


def refuse(place: str, why: str, hint: str = "export it again; nothing was imported") -> HistoryError:
    """The error for a file that cannot be imported."""
    return HistoryError(f"file={place!r} cannot be imported: {why}", hint=hint)
