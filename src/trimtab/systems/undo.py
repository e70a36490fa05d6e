"""Undo: what is ours taken back out of a system, and nothing else; the same course for every kind.

While nobody else has written a file since, it has its found bytes again; otherwise only what is ours goes. A restart is made only
for a knob of ours that is in effect and must go back, and that brings no change of somebody else's into force. Only our own
knobs are looked at afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from trimtab.errors import RestoreError, TargetError
from trimtab.systems.base import Own, Restarts, Snapshot, Undone

__all__ = ["InForceError", "LeftDownError", "Standing", "Undoing", "Way", "take_back"]

BY_FILES = "`trimtab recover --extract DIR` writes the files as found, and how to put them back"


class LeftDownError(TargetError):
    """The system was stopped by somebody, who has changed its files since: it is not ours to start."""


class InForceError(RestoreError):
    """The files hold nothing of ours any more, and the system runs; but it could not be made to read them, and may use ours."""


class Way(Enum):
    """Where one of our knobs stands once the files are right."""

    FOUND = "as found"
    WAITING = "ours, until a restart"
    OURS = "ours"
    THEIRS = "somebody else's"


@dataclass(frozen=True, slots=True)
class Standing:
    """One of our knobs: where it stands, its value now, and as found, for people.

    `is_written`: of one that waits for a restart, whether a file still gives it ours.
    """

    way: Way
    now: str
    found: str = ""
    is_written: bool = False


class Undoing(Protocol):
    """What a kind of system says for its undo.

    * `noun`: what messages call it.
    * `trouble`: what has failed on the last way back although nothing of ours is in force any more; "" for nothing.
    * `who(snapshot)`: which system answers, or whose files lie there, by the keys of the picture; what cannot be seen is
      missing, None, or "".
    * `bring_back(snapshot, own, restarts)`: our entries out of the files, and a system that has read them and runs; whether it
      was restarted or started, which `restarts` is asked for. Raises `LeftDownError`, or `TargetError`.
    * `standing(snapshot, own)`: our knobs that the system has, by name; None where nobody lets us in to look.
    * `why_not_restart(snapshot, own, names)`: why no restart is made for `names`; "" when one is.
    * `restart_for(snapshot, own)`: a restart that loses nothing of what others have set.
    * `by_hand(snapshot, own)`: what a person would do.
    """

    noun: str

    @property
    def trouble(self) -> str: ...
    def who(self, snapshot: Snapshot) -> Mapping[str, Any]: ...
    def bring_back(self, snapshot: Snapshot, own: Own, restarts: Restarts) -> bool: ...
    def standing(self, snapshot: Snapshot, own: Own) -> Mapping[str, Standing] | None: ...
    def why_not_restart(self, snapshot: Snapshot, own: Own, names: list[str]) -> str: ...
    def restart_for(self, snapshot: Snapshot, own: Own) -> None: ...
    def by_hand(self, snapshot: Snapshot, own: Own) -> str: ...


def take_back(system: Undoing, snapshot: Snapshot, own: Own, restarts: Restarts) -> Undone:
    """Takes `own` back to `snapshot`. Idempotent.

    Raises:
        RestoreError: something of ours still stands, or it cannot be seen whether it does.
    """
    try:
        _require_same(system, snapshot, own)
        restarted = system.bring_back(snapshot, own, restarts)
        standing = system.standing(snapshot, own)
        if standing is None:
            unseen = tuple(f"{name} (not seen: no login)" for name in sorted(own.texts))
            return Undone(put_back=unseen, restarted=restarted)
        waiting, held = sorted(name for name, each in standing.items() if each.way is Way.WAITING), ""
        if waiting:
            held = system.why_not_restart(snapshot, own, waiting)
            if not held:
                restarts()
                system.restart_for(snapshot, own)
                restarted, standing = True, system.standing(snapshot, own)
        if standing is None:
            return Undone(put_back=tuple(sorted(own.texts)), restarted=True)
        return _told(system, standing, snapshot, own, held, restarted=restarted)
    except LeftDownError as error:
        return Undone(put_back=tuple(sorted(own.texts)), left=(f"{error.message}: {error.hint}",))
    except TargetError as error:
        if isinstance(error, RestoreError):
            raise
        raise RestoreError(
            f"the {system.noun} could not be put back as it was found: {error.message}",
            hint="; ".join(filter(None, (error.hint, system.by_hand(snapshot, own)))),
        ) from error


def _require_same(system: Undoing, snapshot: Snapshot, own: Own) -> None:
    """That it is the system that we changed, in the same role, as far as that can be seen.

    Raises:
        RestoreError: it is another one; nothing was touched.
    """
    left, now = own.picture or snapshot.picture, system.who(snapshot)
    for key, known in now.items():
        if key in left and known != left[key] and not (_is_unknown(key, known) or _is_unknown(key, left[key])):
            knobs = ", ".join(f"{name}={texts[-1]}" for name, texts in sorted(own.texts.items()))
            raise RestoreError(
                f"{knobs}: not touched, because it is not known to be the {system.noun} that was tuned:"
                f" {key}={_shown(key, known)}, it was {_shown(key, left[key])}",
                hint="check where the url leads; `trimtab recover --show` lists what is open and what you can do",
            )


def _shown(key: str, value: Any) -> str:
    return str(value or "takes writes") if key == "role" else str(value)


def _is_unknown(key: str, value: Any) -> bool:
    return value is None or (key != "role" and value is not False and value in ("", 0))


def _told(
    system: Undoing, standing: Mapping[str, Standing], snapshot: Snapshot, own: Own, held: str, *, restarted: bool
) -> Undone:
    """Knob by knob.

    Raises:
        RestoreError: a value of ours is still in use.
    """
    back, left, wrong = [], [], []
    for name, each in sorted(standing.items()):
        if each.way is Way.FOUND:
            back.append(f"{name}={each.now}")
        elif each.way is Way.WAITING and held:
            left.append(f"{name}={each.now}: waits for a restart, which was not made because {held}")
        elif each.way is Way.OURS or each.is_written:
            wrong.append(f"{name}={each.now}")
        else:
            left.append(_told_left(name, each, own.texts[name][-1]))
    if wrong:
        raise RestoreError(
            f"after the restore the {system.noun} still uses values that Trimtab set: {', '.join(wrong)}",
            hint=system.by_hand(snapshot, own),
        )
    return Undone(put_back=tuple(back), left=tuple(left), restarted=restarted)


def _told_left(name: str, each: Standing, ours: str) -> str:
    """The line about a knob that somebody else has set since."""
    who = f"somebody else has set it to {each.now} meanwhile (ours was {ours}, found was {each.found})"
    return f"{name}={each.now}: {who}"
