"""What everything that changes a server does first: nothing new begins over something half done; and what reads one says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from trimtab.errors import TrimtabError
from trimtab.host import mount_of
from trimtab.study.recovery import Recovered, recover
from trimtab.systems import is_same_server
from trimtab.trial import Entry, Journal, take_news
from trimtab.trial.command_line import command_at

if TYPE_CHECKING:
    from trimtab.systems import Snapshot, Stack

__all__ = ["changed_by", "lost_with_power", "recover_first", "require_free"]

_IN_MEMORY = ("tmpfs", "ramfs")
"""File systems that a power cut or a reboot empties."""


def recover_first(state_dir: Path, say: Callable[[str], None], folders: Iterable[Path] = ()) -> list[Recovered]:
    """Takes back what a dead Trimtab has left; what was done. `say` is told of it, and of what could not be undone.

    On the private servers in `folders`, that is also what one with another state directory has left.

    What cannot be undone stands in the way of a change of the same server only (see `Journal.begin`).

    Raises:
        UsageError: the journal is not this user's.
        TargetError: an entry cannot be read: it may be about this very server.
    """
    found, stuck = recover(state_dir, folders=folders)
    for text in take_news(state_dir):  # of a dead-man that was waited for
        say(text)
    for done in found:
        say(f"a killed study={done.study!r} had left target={done.target!r} changed: {done.action}")
    unread = [each.error for each in stuck if not each.study]
    for each in stuck[len(unread) :]:
        say(f"study={each.study!r} is still open on target={each.target!r}: {each.error.message}")
        say(f"see `{command_at(state_dir, 'trimtab recover')} --show`")
    if unread:
        raise unread[0]
    return found


def require_free(stack: Stack, state_dir: Path) -> None:
    """That the servers of `stack` hold nothing of a killed Trimtab which could not be taken back: what they show would be taken
    for the user's own, and data be made for trials that are refused then.

    Raises:
        TargetError: one may; the message says of which study. Or one cannot be journalled as it is.
    """
    Journal(state_dir).require_free(stack.snapshots())


def lost_with_power(stack: Stack, state_dir: Path) -> tuple[str, ...]:
    """What whoever changes the servers of `stack` must know: that `state_dir` (or the folder in which it will be made) lies in
    memory, so that a power cut takes the way back with it.

    Nothing where it lies on a disk or that cannot be seen, and where all servers are private ones: the next study of these puts
    them back without it.
    """
    if len(stack.folders) == len(stack.tiers):
        return ()
    mount = next(filter(None, map(mount_of, (state_dir, *state_dir.absolute().parents))), None)
    if mount is None or mount.kind not in _IN_MEMORY:
        return ()
    return (
        f"state={str(state_dir)!r} lies in memory ({mount.kind}): a power cut or a reboot loses it, and with it what `trimtab "
        "recover` and `trimtab rollback` put the server back with; name a directory on a disk with --state",
    )


def changed_by(stack: Stack, state_dir: Path) -> list[str]:
    """What whoever only reads the servers of `stack` must know: which study of `state_dir` runs there, or was killed there.

    Changes nothing; a journal or a server that cannot be read is not spoken of.
    """
    try:
        entries = Journal(state_dir).open_entries()
    except (TrimtabError, OSError):
        return []
    here = list(_snapshots(stack)) if entries else []
    return [
        _changed(entry, state_dir)
        for entry in entries
        if any(is_same_server(*pair) for pair in product(here, entry.snapshots))
    ]


def _snapshots(stack: Stack) -> Iterator[Snapshot]:
    for tier in stack.tiers:
        with suppress(TrimtabError, OSError):
            yield tier.target.snapshot()


def _changed(entry: Entry, state_dir: Path) -> str:
    if entry.is_owner_alive:
        return f"study={entry.study!r} (pid={entry.pid}) is changing this server: it may have values of a trial now"
    recover = command_at(state_dir, "trimtab recover")
    return f"a killed study={entry.study!r} has left this server changed: it may have values of a trial; `{recover}` restores it"
