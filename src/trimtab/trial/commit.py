"""Commit: configs set to stay on one or several targets, all of them or none; and the same taken back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from trimtab.errors import LockedError, RestoreError, TargetError, TrimtabError
from trimtab.systems import Own, Snapshot, Target
from trimtab.trial.deadman import DeadMan
from trimtab.trial.entry import APPLIED, APPLY, FAILED, Entry, own_to_json
from trimtab.trial.journal import Journal
from trimtab.trial.signals import signals_wait
from trimtab.trial.undo import REMOVE, restarts_of, undo, ways_out

if TYPE_CHECKING:
    from trimtab.space import Config, Value

__all__ = ["Keep", "commit", "take_back"]

Keep = Callable[[Sequence[Snapshot], Sequence[Own]], object]
"""Makes durable what a rollback needs: the targets as they were, and what is ours on them."""

_CLAIM_S = 300.0
_MAX_REPEATS = 3


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
    changes: Sequence[tuple[Target, Config]], *, study: str, state_dir: Path, keep: Keep, file: Path
) -> list[Mapping[str, Value]]:
    """Sets each config on its target, to stay: all of them, or none.

    The dead-man watches over the whole of it, until the entry is closed: had it to take back one target of several because
    the tuner stood still, all are set again.

    Args:
        changes: open targets, locked by the caller, in the order in which they are changed.
        study: name for the journal.
        state_dir: where the journal lives.
        keep: writes `file`, for a rollback.
        file: noted before it is written, so that no death leaves it behind when the change is undone.

    Returns:
        What is in effect, target by target.

    Raises:
        ApplyError, TargetError: one of them could not be changed; all are as they were.
        RestoreError: one of them could not be changed, and one not be put back: the journal entry stays open.
    """
    from trimtab.systems import check_harmless

    for target, config in changes:
        check_harmless(config)
        target.preflight(config)
    entry = Journal(state_dir).begin(*(target.snapshot() for target, _ in changes), study=study, purpose="apply")
    with _watched(entry) as deadman:
        tried: dict[str, tuple[Target, Snapshot]] = {}

        def change() -> list[Mapping[str, Value]]:
            effective, owns = [], []
            for (target, config), snapshot in zip(changes, entry.snapshots, strict=True):
                old = {name: snapshot.values.get(name) for name in config}
                detail = {"target": target.name, "changes": dict(config), "old": old}
                entry.note(APPLY, {**detail, "own": own_to_json(target.announce(config))})
                tried[target.name] = (target, snapshot)
                applied = target.apply(config, stays=True)
                entry.note(APPLIED, {"target": target.name, "own": own_to_json(applied.own)})
                effective.append(applied.effective)
                owns.append(applied.own)
            entry.note(REMOVE, {"file": str(file)})
            keep(entry.snapshots, owns)
            return effective

        try:
            for _ in range(_MAX_REPEATS):
                deadman.wait_ready()
                effective = deadman.guard(change)
                if _closed(entry, deadman):
                    return effective
            raise TargetError(
                "Trimtab falls silent again and again while it applies a config",
                hint="is the machine overloaded or suspended? TRIMTAB_DEADMAN sets another time",
            )
        except BaseException as error:
            _give_up(entry, list(tried.values()), deadman, error)
            raise


def _closed(entry: Entry, deadman: DeadMan) -> bool:
    """Closes the entry, unless the dead-man has taken the change back meanwhile: it cannot while the claim is ours."""
    with entry.claim(_CLAIM_S) as is_ours:
        if is_ours and not deadman.is_firing():
            entry.close("applied")
            return True
    return False


def _give_up(entry: Entry, tried: Sequence[tuple[Target, Snapshot]], deadman: DeadMan, error: BaseException) -> None:
    """Puts back what was changed before the failure, the last first; every target is tried."""
    reason = error.message if isinstance(error, TrimtabError) else type(error).__name__
    entry.note_if_possible("restore", {"why": reason})
    failed, left = [], []
    for target, snapshot in reversed(tried):
        own, restarts = entry.own(target.name), restarts_of(entry, target.name)
        try:
            done = deadman.guard(
                lambda t=target, s=snapshot, o=own, r=restarts: t.restore(s, o, restarts=r),  # type: ignore[misc]
                even_alone=True,
            )
            left += done.left
        except TargetError as trouble:
            failed.append(f"{target.name}: {trouble.message}")
    if failed:
        entry.note_if_possible(FAILED, {"error": "; ".join(failed)})
        raise RestoreError(
            f"the settings could not be applied ({reason}), and not be taken back either: {'; '.join(failed)}",
            hint=ways_out(entry.study),
        ) from error
    with suppress(OSError):
        for step, detail in entry.steps():
            if step == REMOVE:
                Path(str(detail["file"])).unlink(missing_ok=True)
    entry.close(f"not applied: {reason}" + (f"; left as it is: {'; '.join(left)}" if left else ""))


def take_back(snapshots: Sequence[Snapshot], owns: Sequence[Own], *, study: str, state_dir: Path, file: Path) -> str:
    """Takes back what is ours (`owns`) of the targets in `snapshots`, and removes `file`; what was done, for people.

    A death in the middle is finished by `recover`. Idempotent.

    Raises:
        LockedError: another tuner works on a target.
        RestoreError: something of ours still stands; the journal entry and `file` stay.
    """
    entry = Journal(state_dir).begin(*snapshots, study=study, purpose="rollback")
    with _watched(entry) as deadman:
        for snapshot, own in zip(snapshots, owns, strict=True):
            entry.note(APPLIED, {"target": snapshot.target, "own": own_to_json(own)})
        entry.note(REMOVE, {"file": str(file)})  # last: without it `undo` knows that nothing was taken back yet
        deadman.wait_ready()
        entry.note("restore")
        try:
            done = deadman.guard(lambda: undo(entry, holder=f"trimtab rollback {study}"), even_alone=True)
        except LockedError:
            entry.close("not rolled back: another tuner works on the target")
            raise
        with suppress(FileNotFoundError):
            file.unlink()
        entry.close(f"rolled back: {done}")
        return done
