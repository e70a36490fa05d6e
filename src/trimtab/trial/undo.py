"""Undo: what is ours on the targets of an open entry is taken back, by whoever does it.

Never by two at once (see `Entry.claim`). A restart that such an undo makes is written down before; an entry whose undo failed
after a restart restarts nothing any more: it waits for the user. An undo that failed because its process could open no more
files does not count: the next one may restart.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from itertools import product
from pathlib import Path

from trimtab import plugins
from trimtab.errors import LockedError, RestoreError, TargetError, TrimtabError
from trimtab.host import read_state_file, sync_folder
from trimtab.systems import Own, Restarts, Snapshot, Target, Undone, is_same_server
from trimtab.trial.command_line import command_at
from trimtab.trial.copies import drop_copies, told_of_copies
from trimtab.trial.entry import APPLY, FAILED, MAX_RESTARTS, RESTORED, RETRY, TRIED, Entry
from trimtab.trial.follow import left_behind, restart_as_it_is
from trimtab.trial.journal import Journal
from trimtab.trial.lines import append_line, read_lines
from trimtab.trial.signals import signals_wait
from trimtab.units import counted

__all__ = [
    "REMOVE",
    "as_target_error",
    "followed",
    "forget_kept",
    "others_at",
    "reattach",
    "restarts_of",
    "take_news",
    "tell_later",
    "undo",
    "ways_back",
    "ways_on",
    "ways_out",
]

_NO_MORE = (errno.EMFILE, errno.ENFILE)
_DESCRIPTORS = 16
"""Files that a restart has open at once, at most: logs, pipes, journals, a connection."""

REMOVE = "remove when undone"
"""Step that names a file of the state directory which has lost its meaning once the entry is undone."""

_LOCK_PATIENCE_S = 5.0
"""A server takes a moment to notice that the tuner that held its lock is gone."""


def reattach(snapshot: Snapshot, state_dir: Path) -> Target:
    """The target of a journalled snapshot, without the study file and not open."""
    target: Target = plugins.load("targets", snapshot.kind).from_snapshot(snapshot, state_dir=state_dir)
    return target


def as_target_error(error: Exception, what: str) -> TargetError:
    """`error` as one that a way back meets target by target: whatever stops one of them must not stop the others.

    Args:
        error: raised by one target; `TargetError`s are handed back as they are.
        what: could not be done, for people.
    """
    if isinstance(error, TargetError):
        return error
    why, hint = f"{type(error).__name__}: {error}", "put that right, then run `trimtab recover`"
    if isinstance(error, TrimtabError):
        why, hint = error.message, error.hint or hint
    found = RestoreError(f"{what}: {why}", hint=hint)
    found.__cause__ = error
    return found


def ways_out(entry: Entry) -> str:
    """What a user can do about an entry that could not be undone."""
    recover = command_at(entry.state_dir, "trimtab recover")
    return (
        f"`{recover} --show` lists what is open; `{recover} --retry {entry.study}` allows one more restart;"
        f" `{recover} --leave {entry.study}` keeps what the server has now"
    )


def ways_on(entry: Entry, error: TargetError) -> str:
    """What `error`, with which its undo ended, says should be done, and what a user can do besides."""
    hint = error.hint or ""
    return hint if "--show" in hint else "; ".join(filter(None, (hint, ways_out(entry))))


def ways_back(entry: Entry) -> tuple[Snapshot, ...]:
    """The targets of `entry` in the order in which they are put back: those that then take less memory first, the lower first.

    Where the journal does not say what a target takes, the last that was changed is the first.
    """
    grows: dict[str, bool | None] = {snapshot.target: False for snapshot in entry.snapshots}
    n_told = 0
    for step, detail in entry.steps():
        name = str(detail.get("target"))
        if step == APPLY:
            memory = detail.get("memory")
            grows[name] = None if memory is None else float(memory["found"]) > float(memory["now"])
            n_told += memory is not None
        elif step == RESTORED:
            grows[name] = False
    if not n_told or None in grows.values():
        return tuple(reversed(entry.snapshots))
    return tuple(sorted(entry.snapshots, key=lambda snapshot: bool(grows[snapshot.target])))


def restarts_of(entry: Entry, target: str) -> Restarts:
    """Asked by an undo before a restart: writes it down, once for each undo, and refuses one too many."""
    has_asked = False

    def ask() -> None:
        nonlocal has_asked
        if has_asked:
            return
        if entry.n_restarts(target) >= MAX_RESTARTS:
            raise RestoreError(
                f"target={target!r} needs a restart, which was tried already and did not help: {entry.failure}",
                hint=ways_out(entry),
            )
        entry.note_if_possible(TRIED, {"target": target})
        has_asked = True

    return ask


@signals_wait()  # a restart that is cut off leaves a server down, and nobody watches over `recover`
def undo(entry: Entry, *, holder: str, is_tuner_gone: bool = True) -> str:
    """Takes back what is ours on every target of `entry`; the caller holds the claim and closes the entry. Idempotent.

    Signals that ask to stop wait for its end.

    Args:
        entry: open.
        holder: who does it, for the targets' locks.
        is_tuner_gone: False when the tuner is only stopped: it still holds the locks then, and they are not asked for.

    Returns:
        What was done, for people.

    Raises:
        LockedError: another tuner works on a target now; all others were dealt with.
        RestoreError: something of ours still stands on a target; all others were dealt with.
    """
    if _has_not_begun(entry):
        return "nothing was taken back yet; the config stays applied"
    done: dict[str, Undone] = {}
    failed: list[TargetError] = []
    locks = holder if is_tuner_gone else None
    for snapshot in ways_back(entry):
        try:
            done[snapshot.target] = _restore(entry, snapshot, locks)
        except Exception as error:  # noqa: BLE001 - of a plug-in, say: the other targets must not stay changed for it
            failed.append(as_target_error(error, f"target={snapshot.target!r} could not be put back"))
            continue
        if is_tuner_gone:
            entry.note_if_possible(RESTORED, {"target": snapshot.target, "restarted": done[snapshot.target].restarted})
    failed += followed(entry, done, lambda snapshot: _attached(entry, snapshot, locks))
    if entry.is_lossy:
        failed.append(
            RestoreError(
                f"lines of journal entry={entry.path.name} are lost: what is ours is not known for certain",
                hint=ways_out(entry),
            )
        )
    if failed:
        told = _told(entry, failed)
        if any(map(_lacked_descriptors, failed)) or _is_short_of_descriptors():
            entry.note_if_possible(RETRY, {})  # what failed for want of them says nothing of a restart by somebody else
        raise told from failed[0]
    forget_kept(entry)
    return _text(entry, tuple(done.values()))


def forget_kept(entry: Entry) -> None:
    """Removes the files that have lost their meaning with the change of `entry`; durable, for the entry is closed next.

    Raises:
        OSError: one cannot be removed.
    """
    for file in {Path(str(detail["file"])) for step, detail in entry.steps() if step == REMOVE}:
        if os.path.lexists(file):
            file.unlink(missing_ok=True)
            sync_folder(file.parent)


def _lacked_descriptors(error: BaseException | None) -> bool:
    """Whether it goes back to a file that could not be opened for want of them, be some free again by now."""
    while error is not None and not (isinstance(error, OSError) and error.errno in _NO_MORE):
        error = error.__cause__ or error.__context__
    return error is not None


def _is_short_of_descriptors() -> bool:
    """Whether this process, or the machine, cannot now open as many files as a restart needs."""
    opened = list[int]()
    try:
        for _ in range(_DESCRIPTORS):
            opened.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return error.errno in _NO_MORE
    finally:
        for each in opened:
            os.close(each)
    return False


def _has_not_begun(entry: Entry) -> bool:
    """Whether this is a rollback that died before all of it was written down, and hence before it took anything back."""
    is_noted = any(step == REMOVE for step, _ in entry.steps())
    return entry.purpose == "rollback" and not is_noted and not entry.is_lossy


def _told(entry: Entry, failed: Sequence[TargetError]) -> TargetError:
    message = "; ".join(error.message for error in failed)
    if all(isinstance(error, LockedError) for error in failed):
        return LockedError(message, hint=failed[0].hint)
    entry.note_if_possible(FAILED, {"error": message})
    return RestoreError(message, hint=ways_on(entry, failed[0]))


def _text(entry: Entry, done: Sequence[Undone]) -> str:
    text = "; ".join((*dict.fromkeys(each.text for each in done), *told_of_copies(entry)))
    damage = f"; skipped: {counted(entry.n_damaged, 'damaged line')} of its journal" if entry.n_damaged else ""
    if not any(detail.keys() & {"changes", "own"} for _, detail in entry.steps()):
        return f"{text}; its journal shows no change before the end{damage}"
    return f"{text}{damage}"


def _restore(entry: Entry, snapshot: Snapshot, holder: str | None) -> Undone:
    own = entry.own(snapshot.target)
    with _attached(entry, snapshot, holder) as target:
        done = _take_back(target, entry, snapshot, own)
        if holder is not None:  # a tuner that is only stopped still uses them
            drop_copies(entry, snapshot.target, target)
        return done


@contextmanager
def _attached(entry: Entry, snapshot: Snapshot, holder: str | None) -> Iterator[Target]:
    """The target, open where it can be opened, and locked then; not locked for a tuner that is only stopped."""
    target = reattach(snapshot, entry.state_dir)
    try:
        if holder is not None and _can_open(target):
            with _locked(target, holder):
                yield target
        else:
            if holder is not None:
                _require_no_other(entry, snapshot)
            yield target
    finally:
        target.close()


def _require_no_other(entry: Entry, snapshot: Snapshot) -> None:
    """Of a target that cannot be opened, and so not be locked: that it is not down for a restart that another tuner makes.

    Raises:
        LockedError: another one that lives has an open entry about it.
    """
    if (other := next(others_at(entry, [snapshot]), None)) is not None:
        raise LockedError(
            f"another tuner works on target={snapshot.target!r}, which does not answer now: study={other.study!r}"
            f" pid={other.pid}",
            hint="wait until it ends, or stop it; then run the command again",
        )


def others_at(entry: Entry, snapshots: Sequence[Snapshot]) -> Iterator[Entry]:
    """Open entries of the same journal by other processes, which live, about servers of `snapshots`."""
    # A damaged one says of no server that somebody works on it.
    for other in Journal(entry.state_dir).open_entries(unread=[]):
        is_theirs = other.path != entry.path and other.pid != os.getpid() and other.is_owner_alive
        if is_theirs and any(is_same_server(mine, each) for mine, each in product(snapshots, other.snapshots)):
            yield other


def followed(
    entry: Entry, done: Mapping[str, Undone], reach: Callable[[Snapshot], AbstractContextManager[Target]]
) -> list[TargetError]:
    """Restarts the targets that follow one which was restarted on the way back; what failed.

    Args:
        entry: open.
        done: what was just taken back, by target.
        reach: gives a target to whoever restarts it.
    """
    found = {snapshot.target: snapshot for snapshot in entry.snapshots}
    failed: list[TargetError] = []
    for name in left_behind(entry, done):
        try:
            with reach(found[name]) as target:
                restarts_of(entry, name)()
                restart_as_it_is(target, found[name], entry)
        except Exception as error:  # noqa: BLE001 - of a plug-in, say: the others must not stay behind for it
            failed.append(as_target_error(error, f"target={name!r} could not be restarted"))
    return failed


def _take_back(target: Target, entry: Entry, snapshot: Snapshot, own: Own) -> Undone:
    if not own:
        return Undone()
    return target.restore(snapshot, own, restarts=restarts_of(entry, snapshot.target))


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
    except (TrimtabError, OSError):
        return False
    return True


def _news_file(state_dir: Path) -> Path:
    return state_dir.absolute() / "journal" / "news.jsonl"


def tell_later(state_dir: Path, text: str) -> None:
    """Keeps `text` for the next command, whoever starts it."""
    append_line(_news_file(state_dir), {"at": time.time(), "text": text})


def take_news(state_dir: Path) -> Sequence[str]:
    """What was kept for the next command, oldest first; each is told once, or where its file cannot be removed, each time.

    Raises:
        UsageError: the file is not this user's.
    """
    path = _news_file(state_dir)
    try:
        lines = read_lines(read_state_file(path))
    except OSError:  # not asked before: another command may take them at any moment. What is only told stops no restore
        return ()
    with suppress(OSError):  # a disk that has become read-only
        path.unlink(missing_ok=True)
    return tuple(str(line["text"]) for line in lines if line is not None and "text" in line)
