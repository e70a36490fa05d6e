"""Journal: what was found before the first change, on disk before that change, so that a death of Trimtab can be undone.

One file per open entry, JSON lines, each line written and fsynced before the step it announces. The first line holds the
target's snapshot. An entry that still exists is *open*: its target may hold a config of ours, and `trimtab recover` puts
it back. Closing an entry moves one line about it to `audit.jsonl` and removes the file.
"""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from trimtab.errors import TargetError
from trimtab.host import sync_folder
from trimtab.target import Snapshot

__all__ = ["Entry", "Journal", "snapshot_from_json", "snapshot_to_json"]


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
        raise TargetError(
            f"the journal holds no readable snapshot: {error}",
            hint="restore the target's configuration from your own backup and remove the journal file",
        ) from error


def _started_at(pid: int) -> float:
    """When the process started, seconds since the epoch; 0 when there is none."""
    try:
        return psutil.Process(pid).create_time()
    except psutil.Error:
        return 0.0


@dataclass(frozen=True, slots=True)
class Entry:
    """One open entry.

    Attributes:
        path: its file.
        study: name of the study that made it.
        purpose: "tune", "bench" or "apply".
        pid, owner_started_at: the process that made it, and when that process started.
        opened_at: seconds since the epoch.
        snapshot: the target as found.
    """

    path: Path
    study: str
    purpose: str
    pid: int
    owner_started_at: float
    opened_at: float
    snapshot: Snapshot

    def note(self, step: str, detail: Mapping[str, Any] | None = None) -> None:
        """Appends one step; on disk when this returns."""
        line = json.dumps({"step": step, "at": time.time(), "detail": dict(detail or {})}, default=_encode)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())

    @property
    def is_owner_alive(self) -> bool:
        """Whether the process that opened it still runs (a pid used again by another process does not count)."""
        return _started_at(self.pid) == self.owner_started_at

    def close(self, outcome: str) -> None:
        """Marks the entry as done: the target is as it was found, or as the user wants it. Idempotent."""
        if not self.path.exists():
            return
        audit = self.path.parent / "audit.jsonl"
        line = json.dumps(
            {
                "study": self.study,
                "purpose": self.purpose,
                "target": self.snapshot.target,
                "opened_at": self.opened_at,
                "closed_at": time.time(),
                "outcome": outcome,
            }
        )
        with audit.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.path.unlink()
        sync_folder(self.path.parent)


class Journal:
    """The entries of one state directory."""

    def __init__(self, state_dir: Path) -> None:
        self._directory = state_dir / "journal"

    def begin(self, snapshot: Snapshot, *, study: str, purpose: str) -> Entry:
        """Writes `snapshot` durably; nothing of the target may be changed before this returns.

        Raises:
            TargetError: the journal cannot be written.
        """
        opened_at = time.time()
        pid = os.getpid()
        started_at = _started_at(pid)
        head = {"study": study, "purpose": purpose, "pid": pid, "owner_started_at": started_at, "opened_at": opened_at}
        path = self._directory / f"{snapshot.target}-{pid}-{time.time_ns()}.open"
        try:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(json.dumps({**head, "snapshot": snapshot_to_json(snapshot)}) + "\n")
                file.flush()
                os.fsync(file.fileno())
            sync_folder(self._directory)
        except OSError as error:
            raise TargetError(
                f"cannot write the journal in directory={self._directory}: {error.strerror}",
                hint="nothing was changed; give a writable state directory with --state or TRIMTAB_STATE",
            ) from error
        return Entry(path, study, purpose, pid, started_at, opened_at, snapshot)

    def open_entries(self) -> list[Entry]:
        """Every entry not closed, oldest first; a torn later line does no harm, the first line is what counts.

        Raises:
            TargetError: an entry's first line cannot be read.
        """
        entries = []
        for path in sorted(self._directory.glob("*.open"), key=lambda p: p.stat().st_mtime_ns):
            text = path.read_text(encoding="utf-8").partition("\n")[0]
            if not text:
                # Died between creating the file and its first line: nothing of the target can have been changed.
                path.unlink()
                continue
            try:
                head = json.loads(text)
                snapshot = snapshot_from_json(head["snapshot"])
                owner = (int(head["pid"]), float(head["owner_started_at"]))
                entries.append(Entry(path, head["study"], head["purpose"], *owner, head["opened_at"], snapshot))
            except (ValueError, KeyError, TypeError) as error:
                raise TargetError(
                    f"cannot read journal entry={path.name}: {error}",
                    hint="restore the target's configuration from your own backup and remove that file",
                ) from error
        return entries
