"""Journal: what was found before the first change, on disk before that change, so that a death of Trimtab can be undone.

One entry is two files with the same lines, NAME.open and NAME.copy; each line begins with a digest (see `lines`). The first
holds the snapshot of every target that will change; each later one announces a step before it is made, or says what was
made: the config and a picture of the target just after. An entry that still exists is *open*: its targets may hold a
config of ours, and `trimtab recover` takes it back. Closing an entry moves one line about it to `audit.jsonl` and removes the
files.

About a private server there is a third copy, beside the server (see `beside`).

The files are made in the order open, copy and removed in the order copy, open. So an entry without its .open was
tampered with, never half made: its copy counts.
"""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from trimtab.errors import TargetError, UsageError
from trimtab.host import is_running, is_word, process_mark, read_state_file, require_own_folder, sync_folder
from trimtab.systems import Snapshot, is_same_server
from trimtab.trial.beside import begin_beside, read_beside
from trimtab.trial.command_line import command_at
from trimtab.trial.entry import BY_HAND, Entry, lines_of, snapshot_from_json, snapshot_to_json
from trimtab.trial.lines import encode_line, write_new_file

__all__ = ["SCHEMA_VERSION", "Journal"]

SCHEMA_VERSION = 3
"""Of the files; every other is refused."""

_RESERVE_BYTES = 64 * 1024
"""Kept on disk beside the entry, and given up when a full disk would else keep a restore from being written down. Random bytes:
a file system that compresses keeps no room for zeros."""


def _hashes(snapshots: Sequence[Snapshot]) -> dict[str, str | None]:
    """File -> sha256 as found; None for one that did not exist."""
    found: dict[str, str | None] = {}
    for snapshot in snapshots:
        for path, table in snapshot.files.items():
            content = table.get("content")
            data = content if isinstance(content, bytes) else str(content).encode("latin-1", errors="replace")
            found[path] = hashlib.sha256(data).hexdigest() if content is not None else None
    return found


class Journal:
    """The entries of one state directory."""

    def __init__(self, state_dir: Path) -> None:
        self._directory = state_dir.absolute() / "journal"

    def begin(self, *snapshots: Snapshot, study: str, purpose: str) -> Entry:
        """Writes `snapshots` durably; nothing of their targets may be changed before this returns.

        Raises:
            TargetError: the journal cannot be written.
        """
        for snapshot in snapshots:
            if not is_word(snapshot.target):
                raise TargetError(
                    f"target={snapshot.target!r} cannot be journalled: its name must be one word; nothing was changed",
                    hint="name it with letters, digits, '.', '_' and '-'",
                )
        require_own_folder(self._directory)
        self.require_free(snapshots)
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
            for suffix, content in ((".reserve", os.urandom(_RESERVE_BYTES)), (".open", line), (".copy", line)):
                made.append(entry.path.with_suffix(suffix))
                write_new_file(made[-1], content, made[-1].with_suffix(f"{suffix}.partial"))
            sync_folder(self._directory)
            _require_usable(entry)
            begin_beside(snapshots, line)
        except OSError as error:
            for path in reversed(made):
                path.unlink(missing_ok=True)
            # What is rolled back is known in this state directory alone.
            other = "give a writable state directory with --state or TRIMTAB_STATE"
            way = "make that directory writable, or free space there" if purpose == "rollback" else other
            raise TargetError(
                f"cannot write the journal in directory={self._directory}: {error.strerror}",
                hint=f"nothing was changed; {way}",
            ) from error
        return entry

    def require_free(self, snapshots: Sequence[Snapshot]) -> None:
        """That nothing of a dead Trimtab's is open on the servers of `snapshots`: no change is made over half of another.

        Raises:
            TargetError: there is.
        """
        strays = self.strays(Path(str(each.reach["folder"])) for each in snapshots if "folder" in each.reach)
        for entry in [*self.open_entries(), *strays]:
            if entry.is_owner_alive:
                continue
            for mine, other in product(snapshots, entry.snapshots):
                if is_same_server(mine, other):
                    why = f": {entry.failure}" if entry.failure else ""
                    recover = command_at(entry.state_dir, "trimtab recover")
                    raise TargetError(
                        f"the server of target={mine.target!r} may still hold what study={entry.study!r} has set; its"
                        f" {entry.purpose} could not be undone{why}",
                        hint=f"see `{recover} --show`; then `{recover} --retry {entry.study}`, or"
                        f" `{recover} --leave {entry.study}` to keep what the server has now",
                    )

    def strays(self, folders: Iterable[Path]) -> list[Entry]:
        """Entries of other state directories, by processes that are dead, about the private servers in `folders`.

        One whose state directory was removed is taken over into this one, and is one of `open_entries` from then on.

        Raises:
            TargetError: one is damaged.
        """
        found: dict[Path, Entry] = {}
        for folder in folders:
            beside = read_beside(folder)
            if beside is None or beside.is_owner_alive:
                continue
            if not beside.is_kept:
                self._take_over(beside.entry.name, beside.content)
            elif beside.entry.parent != self._directory:
                entries = Journal(beside.entry.parent.parent).open_entries()
                found |= {entry.path: entry for entry in entries if entry.path == beside.entry}
        return list(found.values())

    def _take_over(self, name: str, content: bytes) -> None:
        """Makes an entry of its lines; the one that it is of was lost."""
        require_own_folder(self._directory)
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        for suffix in (".open", ".copy"):
            path = (self._directory / name).with_suffix(suffix)
            if not path.exists():
                write_new_file(path, content, path.with_suffix(f"{suffix}.partial"))
        sync_folder(self._directory)

    def _sweep(self) -> None:
        """What a `begin` that died has left: nothing was changed under such a name."""
        for path in (*self._directory.glob("*.partial"), *self._directory.glob("*.reserve")):
            owner = path.name.rsplit("-", 2)[-2:-1]
            is_entry = path.with_suffix(".open").exists() or path.with_suffix(".copy").exists()
            if not is_entry and owner and owner[0].isdigit() and not is_running(int(owner[0])):
                path.unlink(missing_ok=True)

    def open_entries(self, unread: list[TargetError] | None = None) -> list[Entry]:
        """Every entry not closed, oldest first. One damaged line does no harm: the first is there twice.

        Args:
            unread: given the errors of those that cannot be read, for whoever goes on with the others.

        Raises:
            TargetError: an entry is damaged beyond that, or of a newer version, and there is no `unread`; it stays where it is.
        """
        if not self._directory.is_dir():
            return []
        require_own_folder(self._directory)
        self._sweep()
        stems = {path.stem for path in self._directory.iterdir() if path.suffix in (".open", ".copy")}
        entries = []
        for stem in sorted(stems, key=lambda name: name.rpartition("-")[2].zfill(20)):
            try:
                entry = self.open_entry(self._directory / f"{stem}.open")
            except TargetError as error:
                if unread is None:
                    raise
                unread.append(error)
                continue
            if entry is not None:
                entries.append(entry)
        return entries

    def open_entry(self, path: Path) -> Entry | None:
        """The entry whose .open file is `path`, whatever has become of the others; None when it is closed.

        Raises:
            TargetError: as of `open_entries`.
        """
        entry = self._read(path)
        if entry is None:
            return None
        closed = [detail for step, detail in entry.steps() if step == "close"]
        is_anothers = entry.pid != os.getpid() and entry.is_owner_alive  # who is just about to finish it
        if closed and not is_anothers:
            entry._finish(str(closed[-1].get("outcome", "")), "trimtab")
        return entry if entry.is_open and not closed else None

    def _read(self, path: Path) -> Entry | None:
        """None when both its files are gone: it was closed."""
        heads = []
        for file in (path, path.with_suffix(".copy")):
            lines = lines_of(file)
            heads += [line for line in lines[:1] if line is not None and "step" not in line]
        if not heads and not (path.exists() or path.with_suffix(".copy").exists()):
            return None
        if not heads:
            raise TargetError(
                f"cannot read journal entry={path.name}: it is damaged, and so is its copy",
                hint=BY_HAND,
            )
        version = heads[0].get("schema_version")
        if version != SCHEMA_VERSION:
            raise TargetError(
                f"journal entry={path.name} is of schema_version={version}; this Trimtab reads {SCHEMA_VERSION}",
                hint="run `trimtab recover` of the version that wrote it",
            )
        return _entry(path, heads[0])


def _require_usable(entry: Entry) -> None:
    """That whoever takes the change back can claim the entry and read it then.

    Raises:
        OSError: its file system keeps no modes or owners, as those of Windows and of shared folders, locks no files, as some of
            clusters, or keeps from a locked file even who has locked it, as SMB's does (flock(2)).
    """
    try:
        require_own_folder(entry.path.parent)
        with entry.claim():
            read_state_file(entry.path)
    except UsageError as error:
        raise OSError(errno.EPERM, f"{error.message}; does its file system keep modes and owners?") from error
    except OSError as error:
        raise OSError(error.errno, f"files there cannot be locked ({error.strerror})") from error


def _head(entry: Entry) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "study": entry.study,
        "purpose": entry.purpose,
        "pid": entry.pid,
        "owner": entry.owner,
        "host": platform.node(),
        "journal": str(entry.path),
        "opened_at": entry.opened_at,
        "snapshots": [snapshot_to_json(snapshot) for snapshot in entry.snapshots],
        "sha256": _hashes(entry.snapshots),
    }


def _entry(path: Path, head: Mapping[str, Any]) -> Entry:
    try:
        return Entry(
            path=path,
            study=head["study"],
            purpose=head["purpose"],
            pid=int(head["pid"]),
            owner=str(head.get("owner", "")),
            opened_at=head["opened_at"],
            snapshots=tuple(snapshot_from_json(text) for text in head["snapshots"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise TargetError(
            f"cannot read journal entry={path.name}: {error}",
            hint=BY_HAND,
        ) from error
