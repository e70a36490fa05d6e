"""What everything that changes a server does first: nothing new begins over something half done."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from trimtab.study.recovery import Recovered, recover
from trimtab.trial import take_news
from trimtab.trial.command_line import command_at

__all__ = ["recover_first"]


def recover_first(state_dir: Path, say: Callable[[str], None], folders: Iterable[Path] = ()) -> list[Recovered]:
    """Takes back what a dead Trimtab has left; what was done. `say` is told of it, and of what could not be undone.

    On the private servers in `folders`, that is also what one with another state directory has left.

    What cannot be undone stands in the way of a change of the same server only (see `Journal.begin`).

    Raises:
        UsageError: the journal is not this user's.
    """
    found, stuck = recover(state_dir, folders=folders)
    for text in take_news(state_dir):  # of a dead-man that was waited for
        say(text)
    for done in found:
        say(f"a killed study={done.study!r} had left target={done.target!r} changed: {done.action}")
    for each in stuck:
        say(f"study={each.study!r} is still open on target={each.target!r}: {each.error.message}")
        say(f"see `{command_at(state_dir, 'trimtab recover')} --show`")
    return found
