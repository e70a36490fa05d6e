"""Where the study file of a study lies, and which history `tune` was given, kept in the state directory; what the file says is
read when it is needed."""

from __future__ import annotations

import os
import re
import tomllib
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from trimtab.errors import UsageError
from trimtab.history import fixed_place
from trimtab.host import is_word, read_state_file, require_own_folder
from trimtab.redact import without_password
from trimtab.trial.command_line import command_at

if TYPE_CHECKING:  # who only reads a history loads no study file
    from collections.abc import Sequence

    from trimtab.study.file import StudyFile

__all__ = ["history_of", "only_history_of", "remember_file", "remembered_file"]

_MADE_FOR = re.compile(r"\.(bench|rate|rank-[a-z-]+)$")
"""Behind the name of the study that `bench` and `rank --design` have measured for."""


def remember_file(state_dir: Path, study: str, path: Path, *, history: str | None = None) -> None:
    """Keeps where the study file lies, and the history that was given instead of the file's, without its password; what cannot be
    kept is asked for later."""
    folder = state_dir.absolute() / "studies"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        place = folder / study
        place.unlink(missing_ok=True)
        place.touch(0o600)
        place.write_bytes(os.fsencode(f"{path.absolute()}\n{_kept_place(history)}"))


def _kept_place(history: str | None) -> str:
    if history is None:
        return ""
    return without_password(history) if "://" in history else fixed_place(history)


def _remembered(state_dir: Path, study: str) -> tuple[Path, str] | None:
    """The study file's path, and the history that was given or ""; None when nothing is known."""
    folder = state_dir.absolute() / "studies"
    require_own_folder(folder)
    if not is_word(study) or not (folder / study).exists():
        return None
    text = os.fsdecode(read_state_file(folder / study))
    path, sign, history = text.rpartition("\n")
    return (Path(path), history) if sign else (Path(text), "")


def remembered_file(state_dir: Path, study: str, *, history: str | None = None) -> Path:
    """Where the study file of that name lies.

    Args:
        state_dir: where `tune` has left it.
        study: its name.
        history: that was given to the command which asks, for the hint; None: none was.

    Raises:
        UsageError: it is not known here, or no longer there.
    """
    there = f" --history {quote(without_password(history))}" if history else ""
    hint = f"give it: {command_at(state_dir, f'trimtab apply {study} --study FILE{there}')}"
    found = _remembered(state_dir, study)
    if found is None:
        raise UsageError(f"where the study file of study={study!r} lies is not known here", hint=hint)
    path, _ = found
    if not path.is_file():
        raise UsageError(f"the study file={str(path)!r} of study={study!r} is no longer there", hint=hint)
    return path


def history_of(state_dir: Path, study: str, file: StudyFile | None = None) -> str | None:
    """The file or URL of the history that holds a study; None: the state directory's own, as far as is known.

    It is the one that the last `tune --history` was given, else the one that the study file names.

    Args:
        state_dir: where `tune` has left where its study file lies.
        study: its name.
        file: the study's, where it is at hand; None: the remembered one.
    """
    owner, known = _MADE_FOR.sub("", study), None
    with suppress(OSError, UsageError):  # what is not obeyed counts as not known
        known = _remembered(state_dir, owner)
    if known is not None and known[1]:
        return known[1]
    if file is not None:
        return file.history
    return None if known is None else _named_in(known[0], owner)


def only_history_of(state_dir: Path, studies: Sequence[str]) -> str | None:
    """As `history_of`, for several studies.

    Raises:
        UsageError: they are in several histories.
    """
    found = {study: history_of(state_dir, study) for study in studies}
    if len(set(found.values())) > 1:
        shown = ", ".join(f"{study} in {place or state_dir / 'history.db'}" for study, place in found.items())
        raise UsageError(f"the studies are in several histories: {shown}", hint="name one history with --history")
    return next(iter(found.values()), None)


def _named_in(path: Path, study: str) -> str | None:
    """[study] history of the file, when that is still of this study; the rest of the file need not be right."""
    with suppress(OSError, ValueError, RecursionError):
        table = tomllib.loads(path.read_text(encoding="utf-8-sig")).get("study")
        if isinstance(table, dict) and table.get("name") == study and isinstance(table.get("history"), str):
            return fixed_place(table["history"], path.parent)
    return None
