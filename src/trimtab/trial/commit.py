"""Commit: a config set to stay on all tiers of a stack, or on none; and the same taken back."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.errors import LockedError, RestoreError, TargetError, TrimtabError
from trimtab.systems import Own, Snapshot
from trimtab.trial.change import Goal, change, memory_detail, put_back
from trimtab.trial.deadman import DeadMan, relieved
from trimtab.trial.entry import APPLIED, FAILED, RESTORED, Entry, own_to_json
from trimtab.trial.journal import Journal
from trimtab.trial.signals import signals_interrupt, signals_wait
from trimtab.trial.stop import Interrupted
from trimtab.trial.undo import REMOVE, forget_kept, others_at, undo, ways_out

if TYPE_CHECKING:
    from trimtab.records import Context
    from trimtab.space import Config, Value
    from trimtab.systems import Stack, Step

__all__ = ["Keep", "commit", "take_back"]

Keep = Callable[[Sequence[Snapshot], Sequence[Own]], object]
"""Writes the file that a rollback needs: the targets as they were, and what is ours on them."""

_CLAIM_S = 300.0
_MAX_REPEATS = 3


@contextmanager
def _watched(entry: Entry, *, done: str, hint: str) -> Iterator[DeadMan]:
    """The dead-man over `entry` while its change is made; signals that ask to stop wait for its end.

    Whoever has asked is told what has become of it: the error that it has ended with, or, in an `Interrupted`, that it is `done`.
    """
    is_done = False
    try:
        with signals_interrupt(), signals_wait():
            try:
                deadman = DeadMan.start(entry)
            except BaseException:
                entry.close("nothing was changed")
                raise
            with relieved(deadman, entry):
                yield deadman
            is_done = True
    except KeyboardInterrupt as asked:
        if is_done:
            raise Interrupted(
                f"stopped by the user, when study={entry.study!r} was {done} already", hint=hint
            ) from asked
        if isinstance(asked.__context__, TrimtabError):
            raise asked.__context__ from None
        raise


def commit(
    stack: Stack, config: Config, *, study: str, state_dir: Path, keep: Keep, file: Path, context: Context | None = None
) -> Mapping[str, Value]:
    """Sets `config` on all tiers, to stay: on all of them, or none.

    The dead-man watches over the whole of it, until the entry is closed: had it to take back one tier of several because
    the tuner stood still, all are set again.

    Args:
        stack: open, and locked by the caller.
        config: by the stack's names.
        study: name for the journal.
        state_dir: where the journal lives.
        keep: writes `file`; it is given the tiers in the order in which they were changed.
        file: what a rollback needs; removed when the change is undone.
        context: of the load, which decides what the tiers take of their machine's memory; None: one client.

    Returns:
        What is in effect.

    Raises:
        ApplyError, TargetError: a tier could not be changed; all are as they were. Or the audit log cannot be written, when
            all are changed: the message says so.
        RestoreError: one could not be changed, and one not be put back: the journal entry stays open.
        Interrupted: all are changed, and somebody has asked to stop meanwhile.
    """
    _require_no_other(file, study)
    stack.preflight(config, stays=True)
    models = stack.models(context if context is not None else _one_client())
    entry = _begun(stack.snapshots(), study=study, purpose="apply", against="rollback", state_dir=state_dir)
    found = {snapshot.target: snapshot for snapshot in entry.snapshots}
    tried: dict[str, None] = {}

    def detail(step: Step) -> dict[str, Any]:
        old = {name: found[step.tier.name].values.get(name) for name in step.config}
        return {"changes": dict(step.config), "old": old, **memory_detail(step)}

    def once() -> Mapping[str, Value]:
        goal = Goal(config=config, now={}, models=models, stays=True)
        done = change(stack, goal, entry, detail=detail, announced=lambda step: tried.update({step.tier.name: None}))
        owns = {**done.owns, **{name: Own() for name in stack.follows if name not in done.owns}}
        snapshots = [found[name] for name in owns]
        # Before it is written: a death in between leaves no rollback of nothing.
        entry.note(REMOVE, {"file": str(file)})
        keep(snapshots, list(owns.values()))
        return done.effective

    with _watched(entry, done="applied", hint=f"`trimtab rollback {study}` takes it back") as deadman:
        try:
            for _ in range(_MAX_REPEATS):
                deadman.wait_ready()
                effective = deadman.guard(once)
                if _closed(entry, deadman):
                    return effective
            raise TargetError(
                "Trimtab falls silent again and again while it applies a config",
                hint="is the machine overloaded or suspended? TRIMTAB_DEADMAN sets another time",
            )
        except BaseException as error:
            if not entry.is_open:  # it stands, and only the audit log lacks its line: nothing is to be given up
                raise
            _give_up(stack, entry, tried, deadman, error)
            raise


def _begun(
    snapshots: Sequence[Snapshot],
    *,
    study: str,
    purpose: str,
    against: str,
    state_dir: Path,
    require: Callable[[], None] = lambda: None,
) -> Entry:
    """A new entry, which others see from here on; the order of the rollback points stays that of the changes while it is open.

    Args:
        snapshots, study, purpose, state_dir: as of `Journal.begin`.
        against: purpose of what may not go on at the same time on the same server.
        require: raises when what was known before has changed meanwhile.

    Raises:
        LockedError: another process does `against` there; nothing was changed.
    """
    entry = Journal(state_dir).begin(*snapshots, study=study, purpose=purpose)
    try:
        for other in others_at(entry, snapshots):
            if other.purpose == against:
                raise LockedError(
                    f"another process works on the same server: {against} of study={other.study!r} pid={other.pid};"
                    " nothing was changed",
                    hint="wait until it ends; then run the command again",
                )
        require()
    except BaseException:
        entry.close("nothing was changed")
        raise
    return entry


def _require_no_other(file: Path, study: str) -> None:
    """That no other process has applied the study since the caller looked: what it found would be lost with its `file`."""
    if os.path.lexists(file):
        raise TargetError(
            f"another process has just applied study={study!r}: there is file={str(file)!r}; nothing was changed",
            hint=f"`trimtab rollback {study}` takes it back",
        )


def _one_client() -> Context:
    from trimtab.records import Context

    return Context("", clients=1)


def _closed(entry: Entry, deadman: DeadMan) -> bool:
    """Closes the entry, unless the dead-man has taken the change back meanwhile: it cannot while the claim is ours."""
    with entry.claim(_CLAIM_S) as is_ours:
        if is_ours and not deadman.is_firing():
            entry.close("applied")
            return True
    return False


def _give_up(stack: Stack, entry: Entry, tried: Collection[str], deadman: DeadMan, error: BaseException) -> None:
    """Puts back what was changed before the failure; every tier is tried."""
    reason = error.message if isinstance(error, TrimtabError) else type(error).__name__
    entry.note_if_possible("restore", {"why": reason})
    try:
        done = deadman.guard(lambda: put_back(stack, entry, only=tried, own_of=entry.own), even_alone=True)
    except TargetError as trouble:
        entry.note_if_possible(FAILED, {"error": trouble.message})
        raise RestoreError(
            f"the settings could not be applied ({reason}), and not be taken back either: {trouble.message}",
            hint=ways_out(entry),
        ) from error
    with suppress(OSError):
        forget_kept(entry)
    entry.close(f"not applied: {reason}" + (f"; left as it is: {'; '.join(done.left)}" if done.left else ""))


def _waits(entry: Entry, error: LockedError) -> LockedError:
    """The error of a rollback that another tuner is in the way of, on one target at least; closes the entry."""
    done = ", ".join(str(detail["target"]) for step, detail in entry.steps() if step == RESTORED)
    back = f"; taken back already: {done}" if done else ""
    entry.close(f"not rolled back: another tuner works on the target{back}")
    return LockedError(
        f"{error.message}{back}", hint=f"then run `trimtab rollback {entry.study}` again" if done else error.hint
    )


def take_back(
    snapshots: Sequence[Snapshot],
    owns: Sequence[Own],
    *,
    study: str,
    state_dir: Path,
    file: Path,
    require: Callable[[], None] = lambda: None,
) -> str:
    """Takes back what is ours (`owns`) of the targets in `snapshots`, and removes `file`; what was done, for people.

    A death in the middle is finished by `recover`. Idempotent. `require` raises, before anything is taken back, when another
    process has meanwhile applied something on top, or taken the same back.

    Raises:
        LockedError: another tuner works on a target.
        RestoreError: something of ours still stands; the journal entry and `file` stay.
        Interrupted: all is taken back, and somebody has asked to stop meanwhile.
    """
    entry = _begun(snapshots, study=study, purpose="rollback", against="apply", state_dir=state_dir, require=require)
    with _watched(entry, done="rolled back", hint="nothing of it is left to take back") as deadman:
        for snapshot, own in zip(snapshots, owns, strict=True):
            entry.note(APPLIED, {"target": snapshot.target, "own": own_to_json(own)})
        entry.note(REMOVE, {"file": str(file)})  # last: without it `undo` knows that nothing was taken back yet
        deadman.wait_ready()
        entry.note("restore")
        try:
            done = deadman.guard(lambda: undo(entry, holder=f"trimtab rollback {study}"), even_alone=True)
        except LockedError as error:
            raise _waits(entry, error) from error
        entry.close(f"rolled back: {done}")
        return done
