"""What a rollback needs, on disk: one file for each applied study, in the order in which they were applied.

The files of studies that were applied to one server form a stack: what was applied last is rolled back first.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from trimtab.errors import TargetError, UsageError
from trimtab.host import is_running, is_word, read_state_file, require_own_folder, sync_folder
from trimtab.systems import Own, Snapshot, is_same_server
from trimtab.trial import own_from_json, own_to_json, snapshot_from_json, snapshot_to_json
from trimtab.trial.lines import encode_line, read_lines, write_new_file

__all__ = ["RollbackPoint", "above", "applied_points", "file_of", "keep_point", "point_of", "sweep_points"]

_SCHEMA_VERSION = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackPoint:
    """One applied study.

    Attributes:
        path: its file.
        study: the study's name.
        order: counts up over all that were ever applied from this state directory.
        applied_at: seconds since the epoch.
        snapshots, owns: the targets as they were, and what is ours on each since.
    """

    path: Path
    study: str
    order: int
    applied_at: float
    snapshots: tuple[Snapshot, ...]
    owns: tuple[Own, ...]


def _folder(state_dir: Path) -> Path:
    return state_dir.absolute() / "rollback"


def file_of(state_dir: Path, study: str) -> Path:
    """Where the point of a study lies; `UsageError` when the name is none."""
    if not is_word(study):
        raise UsageError(
            f"study={study!r} is not the name of a study", hint="give the `name` under [study] in its file"
        )
    return _folder(state_dir) / f"{study}.json"


def keep_point(state_dir: Path, study: str, snapshots: Sequence[Snapshot], owns: Sequence[Own]) -> Path:
    """Writes the file of a study that is just being applied; on disk when this returns.

    Raises:
        TargetError: it cannot be written.
    """
    path = file_of(state_dir, study)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        others = [point.order for point in applied_points(state_dir) if point.study != study]
        line = encode_line(
            {
                "schema_version": _SCHEMA_VERSION,
                "study": study,
                "order": max(others, default=0) + 1,
                "applied_at": time.time(),
                "snapshots": [snapshot_to_json(snapshot) for snapshot in snapshots],
                "owns": [own_to_json(own) for own in owns],
            }
        )
        write_new_file(path, line, path.with_suffix(f".{os.getpid()}.partial"))
        sync_folder(path.parent)
    except OSError as error:
        raise TargetError(
            f"cannot write the rollback file={str(path)!r}: {error.strerror}",
            hint="nothing stays changed; free space there, or give another state directory with --state",
        ) from error
    return path


def applied_points(state_dir: Path, unread: list[TargetError] | None = None) -> list[RollbackPoint]:
    """All that is applied, in the order in which it was.

    Args:
        unread: given the errors of those that cannot be read, for whoever goes on with the others.

    Raises:
        UsageError: a file is not this user's.
        TargetError: one cannot be read, and there is no `unread`.
    """
    folder = _folder(state_dir)
    require_own_folder(folder)
    found = []
    for path in folder.glob("*.json"):
        try:
            point = _read(path)
        except TargetError as error:
            if unread is None:
                raise
            unread.append(error)
            continue
        if point is not None:
            found.append(point)
    return sorted(found, key=lambda point: point.order)


def point_of(state_dir: Path, study: str) -> RollbackPoint | None:
    """That of one study; None when it is not applied.

    Raises:
        UsageError: the name is none, or the file is not this user's.
        TargetError: it cannot be read.
    """
    path = file_of(state_dir, study)
    require_own_folder(path.parent)
    return _read(path)


def above(point: RollbackPoint, state_dir: Path) -> list[RollbackPoint]:
    """What was applied after `point` to a server that it has changed, the last first."""
    return [
        other
        for other in reversed(applied_points(state_dir))
        if other.order > point.order
        and any(is_same_server(mine, theirs) for mine, theirs in product(_changed(point), _changed(other)))
    ]


def _changed(point: RollbackPoint) -> list[Snapshot]:
    """Its targets without those that are only restarted after another one."""
    return [snapshot for snapshot, own in zip(point.snapshots, point.owns, strict=True) if own]


def sweep_points(state_dir: Path) -> None:
    """Half a rollback file of a process that died while it wrote it."""
    for path in _folder(state_dir).glob("*.partial"):
        owner = path.name.split(".")[-2]
        if owner.isdigit() and not is_running(int(owner)):
            path.unlink(missing_ok=True)


def _read(path: Path) -> RollbackPoint | None:
    """None when there is no such file: another process may roll it back at any moment."""
    try:
        lines = read_lines(read_state_file(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        raise _damaged(path, "its disk cannot read it") from error
    line = lines[0] if len(lines) == 1 else None
    if line is None:
        raise _damaged(path, "it is damaged")
    version = line.get("schema_version")
    if version != _SCHEMA_VERSION:
        raise TargetError(
            f"the rollback file={str(path)!r} is of schema_version={version}; this Trimtab reads {_SCHEMA_VERSION}",
            hint="run `trimtab rollback` of the version that wrote it",
        )
    try:
        point = RollbackPoint(
            path=path,
            study=str(line["study"]),
            order=int(line["order"]),
            applied_at=float(line["applied_at"]),
            snapshots=tuple(snapshot_from_json(text) for text in line["snapshots"]),
            owns=tuple(own_from_json(table) for table in line["owns"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(path, f"it does not say what to take back ({error})") from error
    if point.study != path.stem or not point.snapshots or len(point.snapshots) != len(point.owns):
        raise _damaged(path, "it does not say what to take back")
    return point


def _damaged(path: Path, why: str) -> TargetError:
    return TargetError(
        f"the rollback file={str(path)!r} cannot be used: {why}",
        hint="nothing was changed; restore the target's configuration from your own backup and remove that file",
    )
