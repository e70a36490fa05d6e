"""apply, rollback and recover: the only commands that change a target to stay, or undo what stayed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimtab.errors import TargetError, UsageError
from trimtab.history import StudyRecord
from trimtab.host import is_running, sync_folder
from trimtab.space import Config, RestartClass
from trimtab.study.file import StudyFile
from trimtab.study.stage import build_target
from trimtab.target import KnobState, Snapshot
from trimtab.trial import Entry, Journal, commit, snapshot_from_json, snapshot_to_json, take_back, undo
from trimtab.trial.lines import encode_line, read_lines, write_new_file

__all__ = ["Change", "Recovered", "apply_winner", "open_changes", "recover", "rollback", "winner_of"]

_SCHEMA_VERSION = 2
"""Of a rollback file; 1 was one bare snapshot without a digest."""
_CLAIM_S = 300.0


@dataclass(frozen=True, slots=True)
class Recovered:
    """One journal entry that was dealt with: whose, for what purpose, on which targets and files, and what was done."""

    study: str
    purpose: str
    target: str
    files: tuple[str, ...]
    action: str


def winner_of(record: StudyRecord) -> Config:
    """The changed knobs of a proven winner.

    Raises:
        UsageError: the study has none.
    """
    if record.status != "proven":
        raise UsageError(
            f"study={record.name!r} has no proven winner: its status is {record.status!r}",
            hint="only a proven config is applied; see `trimtab report`",
        )
    return Config(record.verdict["config"])


def _rollback_file(state_dir: Path, name: str) -> Path:
    return state_dir.absolute() / "rollback" / f"{name}.json"


@dataclass(frozen=True, slots=True)
class Change:
    """One setting that `apply_winner` is about to make: the running value and the new one, as text."""

    knob: str
    current: str
    proposed: str
    needs_restart: bool


def apply_winner(
    record: StudyRecord, state_dir: Path, *, agrees: Callable[[Sequence[Change]], bool] = lambda changes: True
) -> Mapping[str, Any] | None:
    """Sets the winner to stay; returns what the target says is in effect. Undone by `rollback`.

    `agrees` sees what would change on the server as it is now; None, and nothing done, when it says no. The journal is open
    while it happens: a death in the middle is undone by the dead-man, or by `recover`.
    """
    config = winner_of(record)
    file = StudyFile.model_validate(record.settings)
    target = build_target(file, state_dir)
    target.open()
    try:
        with target.lock(f"trimtab apply {record.name}"):
            if not agrees(_changes(target.states(), config)):
                return None
            path = _rollback_file(state_dir, record.name)
            commit([(target, config)], study=record.name, state_dir=state_dir, keep=lambda found: _keep(path, found))
            states = target.states()
            return {name: states[name].running for name in config}
    finally:
        target.close()


def _changes(states: Mapping[str, KnobState], config: Config) -> list[Change]:
    found = []
    for name, value in config.items():
        if name in states:
            knob = states[name].knob
            late = knob.restart is not RestartClass.RELOAD
            found.append(Change(name, knob.format(states[name].running), knob.format(value), late))
    return found


def _keep(path: Path, snapshots: Sequence[Snapshot]) -> Path | None:
    """Durable; an earlier rollback point of the same study is kept, for it is the older state: None then."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.exists():
        return None
    try:
        line = encode_line({"schema_version": _SCHEMA_VERSION, "snapshots": [snapshot_to_json(s) for s in snapshots]})
        write_new_file(path, line, path.with_suffix(f".{os.getpid()}.partial"))
        sync_folder(path.parent)
    except OSError as error:
        raise TargetError(
            f"cannot write the rollback file={str(path)!r}: {error.strerror}",
            hint="nothing stays changed; free space there, or give another state directory with --state",
        ) from error
    return path


def _sweep(state_dir: Path) -> None:
    """Half a rollback file of a process that died while it wrote it."""
    for path in (state_dir.absolute() / "rollback").glob("*.partial"):
        owner = path.name.split(".")[-2]
        if owner.isdigit() and not is_running(int(owner)):
            path.unlink(missing_ok=True)


def _kept(path: Path) -> tuple[Snapshot, ...]:
    lines = read_lines(path.read_bytes())
    line = lines[0] if len(lines) == 1 else None
    version = line.get("schema_version", 1) if line is not None else None
    if line is None or not isinstance(version, int):
        raise _damaged(path)
    if version > _SCHEMA_VERSION:
        raise TargetError(
            f"the rollback file={str(path)!r} is of schema_version={version}; this Trimtab reads up to {_SCHEMA_VERSION}",
            hint="run `trimtab rollback` of the version that wrote it",
        )
    # schema version 1 was one bare snapshot
    texts = line["snapshots"] if "snapshots" in line else [path.read_text(encoding="utf-8")]
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise _damaged(path)
    return tuple(snapshot_from_json(text) for text in texts)


def _damaged(path: Path) -> TargetError:
    return TargetError(
        f"the rollback file={str(path)!r} is damaged",
        hint="restore the target's configuration from your own backup and remove that file",
    )


def rollback(name: str, state_dir: Path) -> Snapshot:
    """Takes back what `apply_winner` set.

    Raises:
        UsageError: nothing of that study is applied.
        TargetError: the rollback point cannot be read, or the target not be put back.
    """
    path = _rollback_file(state_dir, name)
    if not path.exists():
        applied = sorted(p.stem for p in path.parent.glob("*.json"))
        raise UsageError(
            f"nothing of study={name!r} is applied",
            hint=f"applied: {', '.join(applied)}"
            if applied
            else "never applied from this state directory, or taken back already",
        )
    snapshots = _kept(path)
    take_back(snapshots, study=name, state_dir=state_dir, file=path)
    return snapshots[0]


def open_changes(state_dir: Path) -> list[Entry]:
    """Journal entries whose owner is dead: what `recover` would deal with."""
    return [entry for entry in Journal(state_dir).open_entries() if not entry.is_owner_alive]


def recover(state_dir: Path) -> list[Recovered]:
    """Restores every target that a dead Trimtab may have left changed; idempotent.

    One that the dead-man is just restoring is waited for.

    Raises:
        TargetError: a target cannot be reached or restored; its entry stays open, all others are dealt with.
    """
    done: list[Recovered] = []
    failed: list[TargetError] = []
    for entry in open_changes(state_dir):
        with entry.claim(_CLAIM_S) as is_ours:
            if not is_ours:
                continue
            try:
                action = undo(entry, holder=f"trimtab recover {entry.study}")
            except TargetError as error:
                failed.append(error)
                continue
            entry.close(f"recovered: {action}")
        targets = ", ".join(snapshot.target for snapshot in entry.snapshots)
        files = tuple(name for snapshot in entry.snapshots for name in snapshot.files)
        done.append(Recovered(entry.study, entry.purpose, targets, files, action))
    _sweep(state_dir)
    if failed:
        told = f" ({len(done)} other entries were recovered)" if done else ""
        raise type(failed[0])(f"{failed[0].message}{told}", hint=failed[0].hint)
    return done
