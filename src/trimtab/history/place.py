"""Where the history of a command is, and which of its studies is meant by a name."""

from __future__ import annotations

from pathlib import Path

from trimtab.errors import UsageError
from trimtab.history.record import StudyRecord
from trimtab.history.store import History

__all__ = ["find_study", "open_history_at", "place_of", "read_history_at"]


def place_of(url: str | None, state_dir: Path) -> str:
    """The file or URL of the history that is meant: `url`, or the state directory's own."""
    return url or str(state_dir / "history.db")


def open_history_at(url: str | None, state_dir: Path) -> History:
    """The history at `url` (a file or a PostgreSQL URL), or the state directory's own; made when there is none.

    Raises:
        HistoryError: it cannot be opened.
    """
    if url is None:
        state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
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
        HistoryError: there is none of that number.
    """
    if name.startswith("#") and name[1:].isdecimal():
        return history.study(int(name[1:]))
    record = history.find_study(name)
    if record is None:
        known = sorted({study.name for study in history.studies()})
        if name.endswith(".toml"):
            raise UsageError(
                f"the history holds no study named {name!r}",
                hint="give the study's name, which stands in the file under [study], and not the file",
            )
        raise UsageError(
            f"the history holds no study named {name!r}",
            hint=f"it holds: {', '.join(known)}" if known else "it is empty; run `trimtab tune` first",
        )
    return record
