"""Where the history of a command is, and which of its studies is meant by a name."""

from __future__ import annotations

import os
from pathlib import Path

from trimtab.errors import HistoryError, UsageError
from trimtab.history.record import StudyRecord, StudySummary
from trimtab.history.store import History

__all__ = [
    "find_studies",
    "find_study",
    "fixed_place",
    "is_database",
    "is_only_written_to",
    "open_history_at",
    "place_of",
    "read_history_at",
]

_MOST_NAMED = 10

_SQLITE = "sqlite:///"

_MAGIC = b"SQLite format 3\0"


def is_database(path: Path) -> bool:
    """Whether a file is a SQLite database, such as a history: nothing else is written over one, whoever says so."""
    try:
        if not path.is_file():  # nobody may write to a pipe
            return False
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


_OPEN_FILES = ("/dev/std", "/dev/fd/", "/proc/")
"""Where files stand that a process has opened: what else it writes to them must not go to a file that was replaced."""


def is_only_written_to(place: Path) -> bool:
    """Whether no other file may take its place: a device, a pipe, an open file by its number, a file that is another's."""
    if os.path.abspath(place).startswith(_OPEN_FILES):
        return True
    goal = Path(os.path.realpath(place))
    is_ours = os.access(goal, os.W_OK) and os.access(goal.parent, os.W_OK)
    return place.exists() and not (place.is_file() and is_ours)


def place_of(url: str | None, state_dir: Path) -> str:
    """The file or URL of the history that is meant: `url`, or the state directory's own."""
    return url or str(state_dir / "history.db")


def fixed_place(url: str, folder: Path = Path()) -> str:
    """`url` as it means the same from everywhere: a file's path is absolute then; a relative one was meant from `folder`."""
    if "://" not in url:
        return str((folder / os.path.expanduser(url)).absolute())
    path = url.removeprefix(_SQLITE)
    is_relative = url.startswith(_SQLITE) and path and not path.startswith(("/", ":memory:", "file:"))
    return f"{_SQLITE}{(folder / os.path.expanduser(path)).absolute()}" if is_relative else url


def open_history_at(url: str | None, state_dir: Path) -> History:
    """The history at `url` (a file or a PostgreSQL URL), or the state directory's own; made when there is none.

    Raises:
        HistoryError: it, or the state directory, cannot be made or opened.
    """
    if url is None:
        try:
            state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise HistoryError(
                f"cannot make the state directory {str(state_dir)!r}: {error.strerror}",
                hint="give one that you may write to: --state DIRECTORY",
            ) from error
    return History.open(place_of(url, state_dir))


def read_history_at(url: str | None, state_dir: Path) -> History:
    """As `open_history_at`, for those who only read: where there is no history, nothing is made.

    Raises:
        HistoryError: there is none, or it cannot be opened.
    """
    return History.open(place_of(url, state_dir), is_there=True)


def find_study(history: History, name: str) -> StudyRecord:
    """The newest study of that name; "#7" is the one with that number, whatever came after it.

    Raises:
        UsageError: there is none; the hint lists those there are.
    """
    is_number = name.startswith("#") and name[1:].isdecimal()
    record = None if is_number else history.find_study(name)
    return record if record is not None else history.study(find_studies(history, name)[-1].id)


def find_studies(history: History, name: str) -> list[StudySummary]:
    """Every study of that name, oldest first; "#7" is the one with that number.

    Raises:
        UsageError: there is none; the hint lists those there are.
    """
    every = history.summaries()
    found = [study for study in every if name in (study.name, f"#{study.id}")]
    if found:
        return found
    known = sorted({study.name for study in every})
    shown = ", ".join(known[:_MOST_NAMED]) + (", …" if len(known) > _MOST_NAMED else "")
    hint = f"it holds: {shown}" if known else "it is empty; run `trimtab tune` first"
    if name.endswith(".toml"):
        hint = "give the study's name (`name` under [study] in the file) instead of the file"
    raise UsageError(f"the history holds no study named {name!r}", hint=hint)
