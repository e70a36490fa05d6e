"""Copies of data that runs have on a server: written down before they are made, so that those of a Trimtab that died go, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from trimtab.errors import TrimtabError
from trimtab.trial.signals import signals_wait

if TYPE_CHECKING:
    from trimtab.systems import Stack, Target
    from trimtab.trial.entry import Entry

__all__ = ["copies_of", "copies_while_preparing", "drop_copies", "note_copies", "note_dropped", "told_of_copies"]

_COPY, _CLEANED, _DROPPED, _LEFT = "copy", "copies cleaned up", "copies dropped", "copies left"
"""Steps about a target: databases with copies may be there; they are not; they were dropped by whoever undid the entry; they
could not be dropped."""


def note_copies(entry: Entry, target: str, names: Sequence[str]) -> None:
    """Databases of these names, copies of data, may be on the server of `target` from now on.

    Raises:
        TargetError: it cannot be written down; do not make them then.
    """
    entry.note(_COPY, {"target": target, "databases": list(names)})


def note_dropped(entry: Entry, target: str) -> None:
    """The tuner has dropped all of them."""
    entry.note_if_possible(_CLEANED, {"target": target, "databases": list(copies_of(entry, target))})


@contextmanager
def copies_while_preparing(stack: Stack, names: Sequence[str], state_dir: Path, study: str) -> Iterator[None]:
    """Inside, a preparation may try out copies of these names; an entry of its own has them until they are dropped at the end.

    After a preparation that has failed, one that cannot be dropped is named by the next command: no runs follow that drop it.

    Raises:
        TargetError: they cannot be written down; nothing was made then.
    """
    if not names:
        yield
        return
    from trimtab.trial.journal import Journal
    from trimtab.trial.undo import tell_later

    entry = Journal(state_dir).begin(*stack.snapshots(), study=study, purpose="prepare")
    is_done = False
    try:
        note_copies(entry, stack.data.name, names)
        yield
        is_done = True
    finally:
        with signals_wait():
            drop_copies(entry, stack.data.name, stack.data.target)
            told = "; ".join(told_of_copies(entry))
            if not is_done and any(step == _LEFT for step, _ in entry.steps()):
                with suppress(OSError):
                    tell_later(state_dir, f"study {study}: {told}")
            entry.close("; ".join(filter(None, ("nothing was changed", told))))


def copies_of(entry: Entry, target: str) -> tuple[str, ...]:
    """The names of those that may be on the server of `target`."""
    found: dict[str, None] = {}
    for step, detail in entry.steps():
        if step in (_COPY, _CLEANED, _DROPPED) and detail.get("target") == target:
            for name in map(str, detail["databases"]):
                found.pop(name, None)
                if step == _COPY:
                    found[name] = None
    return tuple(found)


def drop_copies(entry: Entry, name: str, target: Target) -> None:
    """Drops those on the server of the target called `name`, and notes what became of it: no copy keeps an entry open."""
    names = copies_of(entry, name)
    if not names:
        return
    # Not at the top: `recover` loads what workloads need only where it has to.
    from trimtab.workload.database import drop_clone

    for each in names:
        detail = {"target": name, "databases": [each]}
        try:
            was_there = drop_clone(target.endpoint(), each)
        except (TrimtabError, OSError) as error:
            why = error.message if isinstance(error, TrimtabError) else str(error)
            entry.note_if_possible(_LEFT, {**detail, "error": why})
        else:
            entry.note_if_possible(_DROPPED if was_there else _CLEANED, detail)


def told_of_copies(entry: Entry) -> Iterator[str]:
    """What became of those that the tuner has left, for people."""
    told: dict[str, str] = {}
    for step, detail in entry.steps():
        for name in map(str, detail["databases"] if step in (_DROPPED, _LEFT) else ()):
            told[name] = f"dropped database={name}, a copy that runs used"
            if step == _LEFT:
                told[name] = (
                    f"database={name}, a copy that runs used, is still there and yours to drop: {detail['error']}"
                )
    yield from told.values()
