"""Undo: what an open journal entry may have changed is put back, by `recover` or by the dead-man, never by both at once."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from trimtab import plugins
from trimtab.errors import LockedError, RestoreError, TargetError
from trimtab.target import Snapshot, Target
from trimtab.trial.journal import Entry
from trimtab.trial.lines import append_line, read_lines

__all__ = ["REMOVE", "reattach", "take_news", "tell_later", "undo"]

REMOVE = "remove when undone"
"""Step that names a file of the state directory which has lost its meaning once the entry is undone."""

_LOCK_PATIENCE_S = 5.0
"""A server takes a moment to notice that the tuner that held its lock is gone."""


def reattach(snapshot: Snapshot, state_dir: Path) -> Target:
    """The target of a journalled snapshot, without the study file and not open."""
    target: Target = plugins.load("targets", snapshot.kind).from_snapshot(snapshot, state_dir=state_dir)
    return target


def undo(entry: Entry, *, holder: str, is_tuner_gone: bool = True) -> str:
    """Puts every target of `entry` back as it was found; the caller holds the claim and closes the entry. Idempotent.

    Args:
        entry: open.
        holder: who does it, for the targets' locks.
        is_tuner_gone: False when the tuner is only stopped: it still holds the locks then, and they are not asked for.

    Returns:
        What was done, for people.

    Raises:
        LockedError: another tuner works on a target now.
        RestoreError: a target could not be put back; all others were.
    """
    failed: list[TargetError] = []
    for snapshot in reversed(entry.snapshots):
        try:
            _restore(snapshot, entry.state_dir, holder if is_tuner_gone else None)
        except LockedError:
            raise
        except TargetError as error:
            failed.append(error)
    if failed:
        raise RestoreError("; ".join(error.message for error in failed), hint=failed[0].hint) from failed[0]
    for step, detail in entry.steps():
        if step == REMOVE:
            Path(str(detail["file"])).unlink(missing_ok=True)
    damage = f"; {entry.n_damaged} damaged lines of its journal were skipped" if entry.n_damaged else ""
    if not any("changes" in detail for _, detail in entry.steps()):
        return f"restored as it was found; its journal shows no change before the end{damage}"
    return f"restored as it was found{damage}"


def _restore(snapshot: Snapshot, state_dir: Path, holder: str | None) -> None:
    target = reattach(snapshot, state_dir)
    try:
        if holder is not None and _can_open(target):
            with _locked(target, holder):
                target.restore(snapshot)
        else:
            target.restore(snapshot)
    finally:
        target.close()


@contextmanager
def _locked(target: Target, holder: str) -> Iterator[None]:
    """The target's lock, waited for while the death of its holder is being noticed."""
    deadline = time.monotonic() + _LOCK_PATIENCE_S
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(target.lock(holder))
                break
            except LockedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        yield


def _can_open(target: Target) -> bool:
    """A config of ours may be the very reason why the server is down: `restore` needs no open target."""
    try:
        target.open()
    except TargetError:
        return False
    return True


def _news_file(state_dir: Path) -> Path:
    return state_dir.absolute() / "journal" / "news.jsonl"


def tell_later(state_dir: Path, text: str) -> None:
    """Keeps `text` for the next command, whoever starts it."""
    append_line(_news_file(state_dir), {"at": time.time(), "text": text})


def take_news(state_dir: Path) -> Sequence[str]:
    """What was kept for the next command, oldest first; each is told once."""
    path = _news_file(state_dir)
    if not path.exists():
        return ()
    lines = read_lines(path.read_bytes())
    path.unlink(missing_ok=True)
    return tuple(str(line["text"]) for line in lines if line is not None and "text" in line)
