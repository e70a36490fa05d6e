"""Studies from elsewhere: taken in whole or not at all, known ones recognised, none ever overwritten."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path, PurePath
from typing import Any

from trimtab.errors import HistoryError
from trimtab.history import codec
from trimtab.history.formats import Format, Imported
from trimtab.history.record import StudyCopy
from trimtab.history.resting import connect_to_read
from trimtab.history.rows import is_damage
from trimtab.history.schema import url_of
from trimtab.history.store import History
from trimtab.history.typed import verdict_to_json
from trimtab.history.validate import check_copy
from trimtab.records import Verdict

__all__ = [
    "Arrival",
    "Arrivals",
    "digest",
    "export_studies",
    "import_file",
    "merge",
    "read_file",
    "reading_history",
    "take_in",
]

_LOCAL = ("apply_command", "undo_command", "fragment_path")
"""Keys of a verdict that only mean something where the study was made."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One study that came: under which name it is kept now, None when it was here already."""

    name: str
    kept_as: str | None


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What an import or a merge did.

    Attributes:
        studies: one entry for each study of the source, in its order.
        notes: what could not be mapped.
    """

    studies: tuple[Arrival, ...]
    notes: tuple[str, ...] = ()


def digest(copy: StudyCopy) -> str:
    """A hash of all that a study holds, but for its name, where it came from, and what only holds where it was made."""
    record = copy.record
    verdict = {key: value for key, value in verdict_to_json(record.verdict).items() if key not in _LOCAL}
    head = {
        **codec.study_to_json(record),
        "created_at": float(record.created_at),
        "status": record.status,
        "verdict": verdict,
    }
    found = hashlib.sha256(_canonical(head))
    for trial in sorted(copy.trials, key=lambda trial: trial.number):
        found.update(_canonical(codec.trial_to_json(trial)))
        found.update(b"" if trial.measurement is None else trial.measurement.histogram)
    for event in copy.events:
        found.update(_canonical([event.kind, event.text, float(event.at)]))
    return found.hexdigest()


def _canonical(value: Any) -> bytes:
    return json.dumps(json.loads(codec.dumps(value)), sort_keys=True).encode()


def export_studies(
    history: History, study_ids: Iterable[int], target: Format, place: str, *, shown: str = ""
) -> tuple[str, ...]:
    """Writes studies to a file (or database) of format `target`; says what that cannot hold.

    Args:
        history, study_ids: which.
        target, place: how, and where.
        shown: what messages call the place; itself when empty.

    Raises:
        HistoryError: no such study, or the format cannot hold one of them; the place cannot be written.
    """
    try:
        return tuple(target.write((history.copy(study_id) for study_id in study_ids), place))
    except OSError as error:
        raise HistoryError(
            f"cannot write {shown or place!r}: {error.strerror}",
            hint="give a path that you may write to, with free space",
        ) from error


def import_file(history: History, source: Format, place: str) -> Arrivals:
    """Takes in every study of a file (or database), in one transaction.

    A study that is here already, under whatever name, is left out. One whose name is taken gets a name of its own:
    studies of one file that share a name share the new one.

    Raises:
        HistoryError: the file is not of that format, damaged, or holds what no study can hold. Nothing is kept then.
    """
    return take_in(history, read_file(source, place), place)


def merge(history: History, place: str) -> Arrivals:
    """Takes in every study of another history, as `import_file` does. A file is not changed, whatever its version.

    Raises:
        HistoryError: it is not there or no history, is damaged, or holds what no study can hold. Nothing is kept then.
    """
    with reading_history(place) as imported:
        return take_in(history, imported, place)


def read_file(source: Format, place: str) -> Imported:
    """What `take_in` is to be given of a file (or database). Its first study has been read: whether there is such a file is known
    before a history is made for it.

    Raises:
        HistoryError: the file is not of that format, damaged, or holds what no study can hold.
    """
    with _of_file(place):
        return _begun(source.read(place), place)


@contextmanager
def reading_history(place: str) -> Iterator[Imported]:
    """The same of another history, while this lasts."""
    with _opened_copy(place) as other:
        yield _begun(Imported(other.copy(summary.id) for summary in other.summaries()), place)


def _begun(imported: Imported, place: str) -> Imported:
    studies = iter(imported.studies)
    first = list(islice(studies, 1))
    for copy in first:
        check_copy(copy, place)
    imported.studies = chain(first, studies)
    return imported


@contextmanager
def _of_file(place: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise HistoryError(f"cannot read {place!r}: {error.strerror}", hint="give a file that you may read") from error


@contextmanager
def _opened_copy(place: str) -> Iterator[History]:
    if "://" in place and not place.startswith("sqlite:"):
        with History.open(place, is_there=True) as history:
            yield history
        return
    path = Path(os.path.expanduser(place.removeprefix("sqlite:///")))
    if not path.is_file():
        raise HistoryError(f"there is no history={place!r}", hint="give the file of another history")
    with tempfile.TemporaryDirectory(prefix="trimtab-merge-") as directory:
        copy = Path(directory) / "history.db"
        try:
            with closing(connect_to_read(path)) as source, closing(sqlite3.connect(copy)) as target:
                source.backup(target)
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL:
                raise HistoryError(
                    f"history={place!r} cannot be read from a copy in {tempfile.gettempdir()}: {error}",
                    hint="make room there, or set TMPDIR to a folder that has it",
                ) from error
            raise HistoryError(f"history={place!r} cannot be used: {error}", hint="nothing was changed") from error
        with History.open(copy, is_there=True, shown=repr(place)) as history:
            yield history


@dataclass(slots=True)
class _Arriving:
    """Decides on each study that comes: is it known, and what is it called here."""

    history: History
    origin: str
    arrivals: list[Arrival] = field(default_factory=list)
    _taken: set[str] = field(default_factory=set)
    _by_time: dict[float, list[int]] = field(default_factory=dict)
    _digests: set[str] = field(default_factory=set)
    _renamed: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for summary in self.history.summaries():
            self._taken.add(summary.name)
            self._by_time.setdefault(summary.created_at, []).append(summary.id)

    def chosen(self, copies: Iterable[StudyCopy], place: str) -> Iterator[StudyCopy]:
        """The studies that are new, as they are to be kept."""
        for copy in copies:
            check_copy(copy, place)
            own = digest(copy)
            # Only a study of the same second of birth can be the same: few need to be read.
            self._digests |= {self._digest_of(each) for each in self._by_time.pop(copy.record.created_at, ())}
            if own in self._digests:
                self.arrivals.append(Arrival(copy.record.name, None))
                continue
            self._digests.add(own)
            name = self._name_for(copy.record.name)
            self.arrivals.append(Arrival(copy.record.name, name))
            verdict = _at_home(copy.record.verdict, name)
            yield replace(copy, record=replace(copy.record, name=name, origin=self.origin, verdict=verdict))

    def _digest_of(self, study_id: int) -> str:
        """Of a study that is here; "" for one that is damaged: what comes is not the same, and may be a sound copy of it."""
        try:
            return digest(self.history.copy(study_id))
        except HistoryError as error:
            if not is_damage(error):
                raise
            return ""

    def _name_for(self, name: str) -> str:
        if name not in self._renamed:
            found, n = name, 1
            while found in self._taken:
                n += 1
                found = f"{name}-{n}"
            self._renamed[name] = found
            self._taken.add(found)
        return self._renamed[name]


def take_in(history: History, imported: Imported, place: str) -> Arrivals:
    """Keeps every study that came from `place`, in one transaction, as `import_file` does.

    Of several at the same time each waits for the one before: it would not know what that is about to keep.

    Raises:
        HistoryError: it holds what no study can hold. Nothing is kept then.
    """
    with history.importing(), _of_file(place):
        arriving = _Arriving(history, _origin(place))
        history.add_copies(arriving.chosen(imported.studies, place))
    return Arrivals(tuple(arriving.arrivals), tuple(imported.notes))


def _origin(place: str) -> str:
    """The name of the file or database, else of the server: directories, users and passwords are nobody's business."""
    if "://" in place:
        url = url_of(place)
        name = PurePath(url.database or "").name or url.host or ""
    else:
        name = PurePath(place).name
    return "".join(char if char.isprintable() else "?" for char in name) or "another history"


def _at_home(verdict: Verdict, name: str) -> Verdict:
    """The verdict with commands that hold here: a file must not put commands into a report."""
    quoted = shlex.quote(name)
    return replace(
        verdict,
        fragment_path="",
        apply_command=verdict.apply_command and f"trimtab apply {quoted}",
        undo_command=verdict.undo_command and f"trimtab rollback {quoted}",
    )
