"""An entry of the journal: the targets as found, and every step since; what is ours on them can be told from it."""

from __future__ import annotations

import base64
import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trimtab.errors import TargetError
from trimtab.host import process_mark, read_state_file, sync_folder
from trimtab.systems import Own, Snapshot
from trimtab.trial.beside import append_beside, forget_beside
from trimtab.trial.lines import append_line, encode_line, read_lines

__all__ = [
    "APPLIED",
    "APPLY",
    "BY_HAND",
    "FAILED",
    "MAX_RESTARTS",
    "RESTARTED",
    "RESTORED",
    "RETRY",
    "TRIED",
    "Entry",
    "lines_of",
    "own_from_json",
    "own_to_json",
    "snapshot_from_json",
    "snapshot_to_json",
]

_POLL_S = 0.05
_ALONE, _TAKEN = -2, -1
"""Places of a line that only the second file has, before and after it was taken."""
BY_HAND = (
    "restore the target's configuration from your own backup, then remove that entry's files (.open and .copy) from the"
    " folder journal of the state directory"
)
"""For what cannot be read any more."""

APPLY, APPLIED, RESTORED = "apply", "applied", "restored"
"""Steps about a target: a change is announced, is made, is taken back."""
RESTARTED = "restarted"
"""Step about a target: it was restarted because one that it follows was."""
TRIED = "restart tried"
"""Step: an undo is about to restart a target."""
FAILED = "undo failed"
"""Step: an undo ended with an error."""
RETRY = "retry"
"""Step: the user allows one more restart."""
MAX_RESTARTS = 3
"""Of undos that died in the middle; after one that failed none is made."""


def _encode(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode("ascii")}
    raise TypeError(f"cannot journal a {type(value).__name__}")


def _decode(value: dict[str, Any]) -> Any:
    return base64.b64decode(value["base64"]) if set(value) == {"base64"} else value


def snapshot_to_json(snapshot: Snapshot) -> str:
    """One line of JSON; bytes are kept exactly."""
    return json.dumps(asdict(snapshot), default=_encode, sort_keys=True)


def snapshot_from_json(text: str) -> Snapshot:
    """The inverse of `snapshot_to_json`.

    Raises:
        TargetError: the text is no snapshot.
    """
    try:
        return Snapshot(**json.loads(text, object_hook=_decode))
    except (ValueError, TypeError) as error:
        raise TargetError(f"the journal holds no readable snapshot: {error}", hint=BY_HAND) from error


def own_to_json(own: Own) -> dict[str, Any]:
    """For a step of the journal, or a rollback file."""
    return asdict(own)


def own_from_json(table: Mapping[str, Any]) -> Own:
    """The inverse of `own_to_json`.

    Raises:
        TargetError: the table says nothing of the kind.
    """
    try:
        own = Own(**table)
        if not all(isinstance(each, Mapping) for each in (own.texts, own.values, own.units, own.picture)):
            raise TypeError("texts, values, units and picture are tables")
        return own
    except TypeError as error:
        raise TargetError(f"the journal does not say what was changed: {error}", hint=BY_HAND) from error


@dataclass(frozen=True, slots=True)
class Entry:
    """One open entry.

    Attributes:
        path: its .open file.
        study: name of the study that made it.
        purpose: "prepare" (of data), "tune", "bench", "apply" or "rollback".
        pid, owner: the process that made it, and its mark (see `process_mark`).
        opened_at: seconds since the epoch.
        snapshots: the targets as found, in the order in which they are changed.
    """

    path: Path
    study: str
    purpose: str
    pid: int
    owner: str
    opened_at: float
    snapshots: tuple[Snapshot, ...]

    @property
    def state_dir(self) -> Path:
        """The state directory that the journal lies in."""
        return self.path.parent.parent

    @property
    def _copy(self) -> Path:
        return self.path.with_suffix(".copy")

    @property
    def _reserve(self) -> Path:
        return self.path.with_suffix(".reserve")

    @property
    def is_open(self) -> bool:
        """Whether its files are still there."""
        return self.path.exists() or self._copy.exists()

    def note(self, step: str, detail: Mapping[str, Any] | None = None) -> None:
        """Appends one step; on disk when this returns. Announce a change by it, and make the change afterwards.

        Raises:
            TargetError: it cannot be written, or the entry is gone; do not make the change then.
        """
        line = _step(step, detail)
        if not self.is_open:  # lines without the first one would be no entry, and stand in the way of every command
            raise TargetError(
                f"journal entry={self.path.name} is gone: somebody has removed its files",
                hint=f"step={step} was not made; start the command again",
            )
        try:
            for path in (self.path, self._copy):
                append_line(path, line)
        except OSError as error:
            # What is rolled back is known in this state directory alone.
            other = "" if self.purpose == "rollback" else ", or give another state directory with --state"
            raise TargetError(
                f"cannot write the journal in directory={self.path.parent}: {error.strerror}",
                hint=f"step={step} was not made; free space there{other}",
            ) from error
        append_beside(self.snapshots, line, self.path)

    def note_if_possible(self, step: str, detail: Mapping[str, Any] | None = None) -> None:
        """As `note`, for what must be done whether it can be written down or not: a restore. One that is closed stays so."""
        line = _step(step, detail)
        for path in (self.path, self._copy) if self.is_open else ():
            with suppress(OSError):
                append_line(path, line, reserve=self._reserve)
        append_beside(self.snapshots, line, self.path)

    def steps(self) -> list[tuple[str, Mapping[str, Any]]]:
        """Every step that can be read in one of the two files, in order: its name and its detail."""
        lines = _merged(*(lines_of(path) for path in (self.path, self._copy)))
        return [(line["step"], line.get("detail", {})) for line in lines if "step" in line]

    @property
    def n_damaged(self) -> int:
        """How many lines of its first file cannot be read."""
        if not self.path.exists():
            return 1
        return sum(line is None for line in lines_of(self.path))

    @property
    def is_lossy(self) -> bool:
        """Whether a line is damaged that nobody has again: what is ours is not known for certain then.

        A line that was cut off while it was written does not count: the step that it announces was never made.
        """
        files = [path for path in (self.path, self._copy) if path.exists()]
        readable = [path for path in files if not _is_unreadable(path)]
        if not readable:
            return bool(files)
        if len(readable) == 1:  # nobody has again what that one does not say
            return _n_flipped(readable[0]) > 0
        first, second = (
            [encode_line(line) for line in lines_of(path) if line is not None] for path in (self.path, self._copy)
        )
        known = frozenset(first)
        return _n_flipped(self.path) > sum(line not in known for line in second)

    def own(self, target: str) -> Own:
        """What may be ours on one of its targets: all that was announced and not taken back."""
        own = Own()
        for step, detail in self.steps():
            if detail.get("target") != target:
                continue
            if step == APPLY:
                own = own_from_json(detail["own"]).over(own)
            elif step == APPLIED:
                own = own_from_json(detail["own"])
            elif step == RESTORED:
                own = Own()
        return own

    @property
    def failure(self) -> str:
        """Why the last undo failed; "" when none has since the last change."""
        text = ""
        for step, detail in self.steps():
            if step == APPLY:
                text = ""
            elif step == FAILED:
                text = str(detail.get("error", ""))
        return text

    def n_restarts(self, target: str) -> int:
        """How often an undo has tried to restart a target since it was last changed, or restarted as it should be; one that
        failed after it counts for all."""
        n_tried, has_failed = 0, False
        for step, detail in self.steps():
            if detail.get("target", target) != target:
                continue
            # One whose settings are taken back without a restart may still have failed to follow another one.
            if step in (APPLY, RESTARTED, RETRY) or (step == RESTORED and detail.get("restarted")):
                n_tried, has_failed = 0, False
            elif step == TRIED:
                n_tried += 1
            elif step == FAILED:
                has_failed |= n_tried > 0
        return MAX_RESTARTS if has_failed else n_tried

    @property
    def is_owner_alive(self) -> bool:
        """Whether the process that opened it still runs (a zombie, or a pid used again by another one, does not count)."""
        return bool(self.owner) and process_mark(self.pid) == self.owner

    @contextmanager
    def claim(self, timeout_s: float = 0.0) -> Iterator[bool]:
        """The right to restore, held by one process at a time and freed by its death.

        Yields True when it is ours; False when another one still has it after `timeout_s`, or has closed the entry.
        """
        deadline = time.monotonic() + timeout_s
        handle = self._try_claim()
        while handle is None and self.is_open and time.monotonic() < deadline:
            time.sleep(_POLL_S)
            handle = self._try_claim()
        try:
            yield handle is not None
        finally:
            if handle is not None:
                os.close(handle)

    def _try_claim(self) -> int | None:
        for path in (self.path, self._copy):
            try:
                handle = _open_to_lock(path)
            except FileNotFoundError:
                continue
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(handle)
                return None
            except OSError:
                os.close(handle)
                raise
            if path.exists():
                return handle
            os.close(handle)  # its last holder has closed the entry
        return None

    def close(self, outcome: str, *, by: str = "trimtab") -> None:
        """Marks the entry as done: the targets are as they were found, or as the user wants them. Idempotent.

        The line "close" is the moment: a death after it leaves an entry that the next reader only tidies away.

        Raises:
            TargetError: it is marked in no file, or the audit log lacks its line: the message says which.
        """
        if not self.is_open:
            return
        self.note_if_possible("close", {"outcome": outcome})
        self._finish(outcome, by)

    def _finish(self, outcome: str, by: str) -> None:
        by_target = {str(d.get("target")): d["changes"] for _, d in self.steps() if "changes" in d}
        is_one = len(self.snapshots) == 1
        changes = {n if is_one else f"{t}.{n}": value for t, table in by_target.items() for n, value in table.items()}
        line = {
            "study": self.study,
            "purpose": self.purpose,
            "target": ", ".join(snapshot.target for snapshot in self.snapshots),
            "uid": os.getuid(),
            "by": by,
            "opened_at": self.opened_at,
            "closed_at": time.time(),
            "last_changes": changes,
            "outcome": outcome,
        }
        try:
            append_line(self.path.parent / "audit.jsonl", line, reserve=self._reserve)
        except OSError as error:
            file = str(self.path.parent / "audit.jsonl")
            raise TargetError(
                f"{outcome}; but no line about it can be written to file={file!r}: {error.strerror}",
                hint="the entry is closed; put what is in that file's place away, so that later changes are recorded",
            ) from error
        finally:
            forget_beside(self.snapshots, self.path)  # first: what lies there without its entry is of one that was lost
            self._remove(outcome)

    def _remove(self, outcome: str) -> None:
        try:
            for path in (self._reserve, self._copy, self.path):
                path.unlink(missing_ok=True)
            sync_folder(self.path.parent)
        except OSError as error:
            if any(step == "close" for step, _ in self.steps()):
                return  # the next reader tidies it away
            raise TargetError(
                f"{outcome}; but journal entry={self.path.name} cannot be closed: {error.strerror}",
                hint=f"make directory={str(self.path.parent)!r} writable again, then run `trimtab recover`",
            ) from error


def _open_to_lock(path: Path) -> int:
    """For writing, without which NFS gives no lock that excludes others (flock(2)); for reading where a disk has become
    read-only: the restore must go on."""
    with suppress(OSError):
        return os.open(path, os.O_RDWR)
    return os.open(path, os.O_RDONLY)


def lines_of(path: Path) -> list[dict[str, Any] | None]:
    """Its lines, None for one that is damaged, and for all of a file that its disk cannot read any more."""
    try:
        return read_lines(read_state_file(path))
    except FileNotFoundError:  # not asked before: another process may close the entry at any moment
        return []
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return [None]


def _merged(first: Sequence[dict[str, Any] | None], second: Sequence[dict[str, Any] | None]) -> list[dict[str, Any]]:
    """The lines of both, in order; each once. A long study has thousands: none is looked for among all others."""
    mine, others = ([line for line in lines if line is not None] for lines in (first, second))
    if mine == others:
        return mine
    places: dict[bytes, int] = {}
    for place, line in enumerate(mine):
        places.setdefault(encode_line(line), place)
    merged: list[dict[str, Any]] = []
    n_taken = 0
    for line in others:
        place = places.setdefault(text := encode_line(line), _ALONE)
        if place == _ALONE:
            merged.append(line)
            places[text] = _TAKEN
        elif place >= n_taken:
            merged += mine[n_taken : place + 1]
            n_taken = place + 1
    return merged + mine[n_taken:]


def _is_unreadable(path: Path) -> bool:
    """Whether its disk cannot read it any more."""
    try:
        read_state_file(path)
    except OSError as error:
        return error.errno == errno.EIO
    return False


def _n_flipped(path: Path) -> int:
    """Damaged lines that were whole once: they end as one does. None of an entry that is closed meanwhile."""
    try:
        content = read_state_file(path)
    except FileNotFoundError:
        return 0
    return sum(not line or None in read_lines(line) for line in content.split(b"\n")[:-1] if line.endswith(b"}"))


def _step(step: str, detail: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"step": step, "at": time.time(), "detail": json.loads(json.dumps(dict(detail or {}), default=_encode))}
