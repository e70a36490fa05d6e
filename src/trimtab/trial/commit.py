"""Commit: configs set to stay on one or several targets, all of them or none; and the same taken back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from trimtab.errors import LockedError, RestoreError, TargetError, TrimtabError
from trimtab.space import Config, Value
from trimtab.target import Snapshot, Target, check_harmless
from trimtab.trial.deadman import DeadMan
from trimtab.trial.journal import Entry, Journal
from trimtab.trial.signals import signals_wait
from trimtab.trial.undo import REMOVE, undo

__all__ = ["commit", "take_back"]


@contextmanager
def _watched(entry: Entry) -> Iterator[DeadMan]:
    """The dead-man over `entry` while its change is made; signals that ask to stop wait for its end."""
    with signals_wait():
        try:
            deadman = DeadMan.start(entry)
        except TargetError:
            entry.close("nothing was changed")
            raise
        try:
            yield deadman
        finally:
            deadman.stop()


def commit(
    changes: Sequence[tuple[Target, Config]],
    *,
    study: str,
    state_dir: Path,
    keep: Callable[[Sequence[Snapshot]], Path | None],
) -> list[Mapping[str, Value]]:
    """Sets each config on its target, to stay: all of them, or none.

    Args:
        changes: open targets, locked by the caller, in the order in which they are changed.
        study: name for the journal.
        state_dir: where the journal lives.
        keep: makes the targets as they were durable for a rollback; the file it made, None when there was one already.

    Returns:
        What is in effect, target by target.

    Raises:
        ApplyError, TargetError: one of them could not be changed; all are as they were.
        RestoreError: one of them could not be changed, and one not be put back: the journal entry stays open.
    """
    for target, config in changes:
        check_harmless(config)
        target.preflight(config)
    entry = Journal(state_dir).begin(*(target.snapshot() for target, _ in changes), study=study, purpose="apply")
    with _watched(entry) as deadman:
        tried: list[tuple[Target, Snapshot]] = []
        try:
            effective = []
            for (target, config), snapshot in zip(changes, entry.snapshots, strict=True):
                old = {name: snapshot.values.get(name) for name in config}
                deadman.wait_ready()
                entry.note("persist", {"target": target.name, "changes": dict(config), "old": old})
                tried.append((target, snapshot))
                effective.append(deadman.guard(lambda t=target, c=config: t.apply(c)).effective)  # type: ignore[misc]
            file = keep(entry.snapshots)
            if file is not None:
                entry.note(REMOVE, {"file": str(file)})
        except BaseException as error:
            _give_up(entry, tried, deadman, error)
            raise
        entry.close("applied")
    return effective


def _give_up(entry: Entry, tried: Sequence[tuple[Target, Snapshot]], deadman: DeadMan, error: BaseException) -> None:
    """Puts back what was changed before the failure, the last first; every target is tried."""
    reason = error.message if isinstance(error, TrimtabError) else type(error).__name__
    entry.note_if_possible("restore", {"why": reason})
    failed = []
    for target, snapshot in reversed(tried):
        try:
            deadman.guard(lambda t=target, s=snapshot: t.restore(s), even_alone=True)  # type: ignore[misc]
        except TargetError as trouble:
            failed.append(f"{target.name}: {trouble.message}")
    if failed:
        raise RestoreError(
            f"the settings could not be applied ({reason}), and not be taken back either: {'; '.join(failed)}",
            hint="run `trimtab recover`",
        ) from error
    entry.close(f"not applied: {reason}")


def take_back(snapshots: Sequence[Snapshot], *, study: str, state_dir: Path, file: Path) -> None:
    """Puts targets back as in `snapshots` and removes `file`; a death in the middle is finished by `recover`. Idempotent.

    Raises:
        LockedError: another tuner works on a target.
        RestoreError: a target could not be put back; the journal entry and `file` stay.
    """
    entry = Journal(state_dir).begin(*snapshots, study=study, purpose="rollback")
    with _watched(entry) as deadman:
        entry.note(REMOVE, {"file": str(file)})
        deadman.wait_ready()
        entry.note("restore")
        try:
            deadman.guard(lambda: undo(entry, holder=f"trimtab rollback {study}"), even_alone=True)
        except LockedError:
            entry.close("not rolled back: another tuner works on the target")
            raise
        with suppress(FileNotFoundError):
            file.unlink()
        entry.close("rolled back")
