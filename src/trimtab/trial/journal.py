"""Journal: what was found before the first change, on disk before that change, so that a death of Trimtab can be undone.

One entry is two files: NAME.open, lines that begin with a digest (see `lines`), and NAME.copy, its first line again.
The first line holds the snapshot of every target that will change; each later one announces a step before it is made. An
entry that still exists is *open*: its targets may hold a config of ours, and `trimtab recover` puts them back. Closing
an entry moves one line about it to `audit.jsonl` and removes the files.

The files are made in the order open, copy and removed in the order copy, open. So an entry without its .open was
tampered with, never half made: its copy counts.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from trimtab.errors import TargetError
from trimtab.host import is_running, process_mark, sync_folder
from trimtab.target import Snapshot
from trimtab.trial.lines import append_line, encode_line, read_lines, write_new_file

__all__ = ["SCHEMA_VERSION", "Entry", "Journal", "snapshot_from_json", "snapshot_to_json"]

SCHEMA_VERSION = 2
"""Of the files; 1 had neither digests nor copies. Older ones are read, newer ones refused."""

_RESERVE_BYTES = 64 * 1024
"""Kept on disk beside the entry, and given up when a full disk would else keep a restore from being written down."""
_POLL_S = 0.05
_BY_HAND = "restore the target's configuration from your own backup and remove the journal file"


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
        raise TargetError(f"the journal holds no readable snapshot: {error}", hint=_BY_HAND) from error


def _hashes(snapshots: Sequence[Snapshot]) -> dict[str, str | None]:
    """File -> sha256 as found; None for one that did not exist."""
    found: dict[str, str | None] = {}
    for snapshot in snapshots:
        for path, table in snapshot.files.items():
            content = table.get("content")
            data = content if isinstance(content, bytes) else str(content).encode("latin-1", errors="replace")
            found[path] = hashlib.sha256(data).hexdigest() if content is not None else None
    return found


@dataclass(frozen=True, slots=True)
class Entry:
    """One open entry.

    Attributes:
        path: its .open file.
        study: name of the study that made it.
        purpose: "tune", "bench", "apply" or "rollback".
        pid, owner: the process that made it, and its mark (see `process_mark`).
        opened_at: seconds since the epoch.
        snapshots: the targets as found, in the order in which they are changed.
        owner_started_at: of an entry of schema version 1: when that process started, by its clock; else 0.
    """

    path: Path
    study: str
    purpose: str
    pid: int
    owner: str
    opened_at: float
    snapshots: tuple[Snapshot, ...]
    owner_started_at: float = 0.0

    @property
    def snapshot(self) -> Snapshot:
        """The first target as found; most entries have one."""
        return self.snapshots[0]

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
            TargetError: it cannot be written; do not make the change then.
        """
        try:
            append_line(self.path, _step(step, detail))
        except OSError as error:
            raise TargetError(
                f"cannot write the journal in directory={self.path.parent}: {error.strerror}",
                hint=f"step={step} was not made; free space there, or give another state directory with --state",
            ) from error

    def note_if_possible(self, step: str, detail: Mapping[str, Any] | None = None) -> None:
        """As `note`, for what must be done whether it can be written down or not: a restore."""
        try:
            append_line(self.path, _step(step, detail), reserve=self._reserve)
        except OSError:
            return

    def steps(self) -> list[tuple[str, Mapping[str, Any]]]:
        """Every step that can be read, in order: its name and its detail."""
        lines = read_lines(self.path.read_bytes()) if self.path.exists() else []
        return [(line["step"], line.get("detail", {})) for line in lines if line is not None and "step" in line]

    @property
    def n_damaged(self) -> int:
        """How many of its lines cannot be read; the step of such a line may or may not have been made."""
        if not self.path.exists():
            return 1
        return sum(line is None for line in read_lines(self.path.read_bytes()))

    @property
    def is_owner_alive(self) -> bool:
        """Whether the process that opened it still runs (a zombie, or a pid used again by another one, does not count)."""
        if not self.owner_started_at:
            return bool(self.owner) and process_mark(self.pid) == self.owner
        try:
            return is_running(self.pid) and abs(psutil.Process(self.pid).create_time() - self.owner_started_at) < 2
        except psutil.Error:
            return False

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
                handle = os.open(path, os.O_RDONLY)
            except FileNotFoundError:
                continue
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(handle)
                return None
            if path.exists():
                return handle
            os.close(handle)  # its last holder has closed the entry
        return None

    def close(self, outcome: str, *, by: str = "trimtab") -> None:
        """Marks the entry as done: the targets are as they were found, or as the user wants them. Idempotent.

        The line "close" is the moment: a death after it leaves an entry that the next reader only tidies away.
        """
        if not self.is_open:
            return
        self.note_if_possible("close", {"outcome": outcome})
        self._finish(outcome, by)

    def _finish(self, outcome: str, by: str) -> None:
        changes: Mapping[str, Any] = next((d["changes"] for _, d in reversed(self.steps()) if "changes" in d), {})
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
        finally:
            for path in (self._reserve, self._copy, self.path):
                path.unlink(missing_ok=True)
            sync_folder(self.path.parent)


def _step(step: str, detail: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"step": step, "at": time.time(), "detail": json.loads(json.dumps(dict(detail or {}), default=_encode))}


class Journal:
    """The entries of one state directory."""

    def __init__(self, state_dir: Path) -> None:
        self._directory = state_dir.absolute() / "journal"

    def begin(self, *snapshots: Snapshot, study: str, purpose: str) -> Entry:
        """Writes `snapshots` durably; nothing of their targets may be changed before this returns.

        Raises:
            TargetError: the journal cannot be written.
        """
        pid = os.getpid()
        entry = Entry(
            path=self._directory / f"{snapshots[0].target}-{pid}-{time.time_ns()}.open",
            study=study,
            purpose=purpose,
            pid=pid,
            owner=process_mark(pid),
            opened_at=time.time(),
            snapshots=snapshots,
        )
        line = encode_line(_head(entry))
        made: list[Path] = []
        try:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._sweep()
            for suffix, content in ((".reserve", bytes(_RESERVE_BYTES)), (".open", line), (".copy", line)):
                made.append(entry.path.with_suffix(suffix))
                write_new_file(made[-1], content, made[-1].with_suffix(f"{suffix}.partial"))
            sync_folder(self._directory)
        except OSError as error:
            for path in reversed(made):
                path.unlink(missing_ok=True)
            raise TargetError(
                f"cannot write the journal in directory={self._directory}: {error.strerror}",
                hint="nothing was changed; give a writable state directory with --state or TRIMTAB_STATE",
            ) from error
        return entry

    def _sweep(self) -> None:
        """What a `begin` that died has left: nothing was changed under such a name."""
        for path in (*self._directory.glob("*.partial"), *self._directory.glob("*.reserve")):
            owner = path.name.rsplit("-", 2)[-2:-1]
            is_entry = path.with_suffix(".open").exists() or path.with_suffix(".copy").exists()
            if not is_entry and owner and owner[0].isdigit() and not is_running(int(owner[0])):
                path.unlink(missing_ok=True)

    def open_entries(self) -> list[Entry]:
        """Every entry not closed, oldest first. One damaged line does no harm: the first is there twice.

        Raises:
            TargetError: an entry is damaged beyond that, or of a newer version; it stays where it is.
        """
        if not self._directory.is_dir():
            return []
        self._sweep()
        stems = {path.stem for path in self._directory.iterdir() if path.suffix in (".open", ".copy")}
        entries = []
        for stem in sorted(stems, key=lambda name: name.rpartition("-")[2].zfill(20)):
            entry = self._read(self._directory / f"{stem}.open")
            closed = [detail for step, detail in entry.steps() if step == "close"]
            if closed:
                entry._finish(str(closed[-1].get("outcome", "")), "trimtab")
            else:
                entries.append(entry)
        return entries

    def _read(self, path: Path) -> Entry:
        heads = []
        for file in (path, path.with_suffix(".copy")):
            lines = read_lines(file.read_bytes()) if file.exists() else []
            heads += [line for line in lines[:1] if line is not None and "step" not in line]
        if not heads:
            raise TargetError(
                f"cannot read journal entry={path.name}: it is damaged, and so is its copy",
                hint="restore the target's configuration from your own backup and remove that file",
            )
        version = heads[0].get("schema_version", 1)
        if not isinstance(version, int) or version > SCHEMA_VERSION:
            raise TargetError(
                f"journal entry={path.name} is of schema_version={version}; this Trimtab reads up to {SCHEMA_VERSION}",
                hint="run `trimtab recover` of the version that wrote it",
            )
        return _entry(path, heads[0])


def _head(entry: Entry) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "study": entry.study,
        "purpose": entry.purpose,
        "pid": entry.pid,
        "owner": entry.owner,
        "host": platform.node(),
        "opened_at": entry.opened_at,
        "snapshots": [snapshot_to_json(snapshot) for snapshot in entry.snapshots],
        "sha256": _hashes(entry.snapshots),
    }


def _entry(path: Path, head: Mapping[str, Any]) -> Entry:
    try:
        texts = head["snapshots"] if "snapshots" in head else [head["snapshot"]]
        return Entry(
            path=path,
            study=head["study"],
            purpose=head["purpose"],
            pid=int(head["pid"]),
            owner=str(head.get("owner", "")),
            opened_at=head["opened_at"],
            snapshots=tuple(snapshot_from_json(text) for text in texts),
            owner_started_at=float(head.get("owner_started_at", 0.0)),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise TargetError(
            f"cannot read journal entry={path.name}: {error}",
            hint="restore the target's configuration from your own backup and remove that file",
        ) from error
