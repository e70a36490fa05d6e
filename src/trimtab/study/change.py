"""apply, rollback and recover: the only commands that change a target to stay, or undo what stayed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimtab import plugins
from trimtab.errors import TargetError, UsageError
from trimtab.history import History, StudyRecord
from trimtab.space import Config
from trimtab.study.file import StudyFile
from trimtab.study.stage import build_target
from trimtab.target import Snapshot, Target
from trimtab.trial import Entry, Journal, snapshot_from_json, snapshot_to_json

__all__ = ["Recovered", "apply_winner", "find_study", "open_changes", "recover", "rollback", "winner_of"]


@dataclass(frozen=True, slots=True)
class Recovered:
    """One journal entry that was dealt with: whose, and what was done."""

    study: str
    target: str
    action: str


def find_study(history: History, name: str) -> StudyRecord:
    """The newest study of that name.

    Raises:
        UsageError: there is none; the hint lists those there are.
    """
    record = history.find_study(name)
    if record is None:
        known = sorted({study.name for study in history.studies()})
        raise UsageError(
            f"the history holds no study named {name!r}",
            hint=f"it holds: {', '.join(known)}" if known else "it is empty; run `trimtab tune` first",
        )
    return record


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
    return state_dir / "rollback" / f"{name}.json"


def apply_winner(record: StudyRecord, state_dir: Path) -> Mapping[str, Any]:
    """Sets the winner to stay; returns what the target says is in effect. Undone by `rollback`.

    The journal is open while it happens: a death in the middle is undone by `recover`.
    """
    config = winner_of(record)
    file = StudyFile.model_validate(record.settings)
    target = build_target(file, state_dir)
    target.open()
    try:
        with target.lock(f"trimtab apply {record.name}"):
            snapshot = target.snapshot()
            entry = Journal(state_dir).begin(snapshot, study=record.name, purpose="apply")
            entry.note("persist", {"changes": dict(config)})
            target.preflight(config)
            target.persist(config)
            _keep(_rollback_file(state_dir, record.name), snapshot)
            entry.close("applied")
            states = target.states()
            return {name: states[name].running for name in config}
    finally:
        target.close()


def _keep(path: Path, snapshot: Snapshot) -> None:
    """Durable; an earlier rollback point of the same study is kept, for it is the older state."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.exists():
        return
    partial = path.with_suffix(".partial")
    with open(partial, "w", encoding="utf-8", opener=lambda p, flags: os.open(p, flags, 0o600)) as file:
        file.write(snapshot_to_json(snapshot))
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def rollback(name: str, state_dir: Path) -> Snapshot:
    """Takes back what `apply_winner` set.

    Raises:
        UsageError: nothing of that study is applied.
    """
    path = _rollback_file(state_dir, name)
    if not path.exists():
        applied = sorted(p.stem for p in path.parent.glob("*.json"))
        raise UsageError(
            f"nothing of study={name!r} is applied",
            hint=f"applied: {', '.join(applied)}" if applied else "`trimtab apply` has not been used here",
        )
    snapshot = snapshot_from_json(path.read_text(encoding="utf-8"))
    target = _reattach(snapshot, state_dir)
    try:
        # The applied config may be the very reason why the server is down: `restore` needs no open target.
        if _can_open(target):
            with target.lock(f"trimtab rollback {name}"):
                target.restore(snapshot)
        else:
            target.restore(snapshot)
    finally:
        target.close()
    path.unlink()
    return snapshot


def _reattach(snapshot: Snapshot, state_dir: Path) -> Target:
    target: Target = plugins.load("targets", snapshot.kind).from_snapshot(snapshot, state_dir=state_dir)
    return target


def _can_open(target: Target) -> bool:
    try:
        target.open()
    except TargetError:
        return False
    return True


def open_changes(state_dir: Path) -> list[Entry]:
    """Journal entries whose owner is dead: what `recover` would deal with."""
    return [entry for entry in Journal(state_dir).open_entries() if not entry.is_owner_alive]


def recover(state_dir: Path) -> list[Recovered]:
    """Restores every target that a dead Trimtab may have left changed; idempotent.

    Raises:
        TargetError: a target cannot be reached or restored; its entry stays open.
    """
    done = []
    for entry in open_changes(state_dir):
        target = _reattach(entry.snapshot, state_dir)
        try:
            target.restore(entry.snapshot)
        finally:
            target.close()
        entry.close("recovered")
        done.append(Recovered(entry.study, entry.snapshot.target, "restored as it was found"))
    return done
