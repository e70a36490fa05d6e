"""Undo: what is ours taken back out of a program's files, and out of the running program.

While nobody else has written a file since, it has its found bytes again; otherwise only our own values go. The program is
restarted only for a value of ours that it may be using, and never when that would bring in what somebody else has written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trimtab.errors import RestoreError, TargetError
from trimtab.host import FileCopy, machine_mark
from trimtab.systems.base import Own, Restarts, Snapshot, Undone
from trimtab.systems.file_channel import FileChannel
from trimtab.systems.files import file_from_json, told_left
from trimtab.systems.program.reach import Reach

__all__ = ["Place", "take_back"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a knob is: its channel, and its address there."""

    channel: FileChannel
    address: str


def take_back(
    reach: Reach, places: Mapping[str, Place], snapshot: Snapshot, own: Own, restarts: Restarts, reloads: Sequence[str]
) -> Undone:
    """Takes `own` back to `snapshot`. Idempotent.

    Args:
        reach: the way to the program.
        places: of every knob.
        snapshot: as found.
        own: what is ours.
        restarts: asked before a restart.
        reloads: the knobs that a reload changes.

    Raises:
        RestoreError: something of ours still stands, or the program cannot be brought up.
    """
    try:
        _require_same_machine(snapshot)
        channels = {place.channel.name: place.channel for place in places.values()}
        for channel in channels.values():
            _file_back(channel, places, snapshot, own)
        is_as_found = all(
            _content(channel.read()) == _content(_found(snapshot, channel)) for channel in channels.values()
        )
        if not is_as_found and own.is_whole and reach.was_stopped():
            why = "the program is down, and its files were changed by somebody else since: start it when that is ready"
            return Undone(put_back=tuple(sorted(own.texts)), left=(why,))
        waiting = _waiting(reach, places, snapshot, own)
        held = "" if is_as_found else "it would put changes of somebody else's into effect"
        is_restarted = _into_effect(reach, own, restarts, reloads, bool(waiting) and not held)
        return _told(places, snapshot, own, waiting if held and not is_restarted else frozenset(), held, is_restarted)
    except TargetError as error:
        if isinstance(error, RestoreError):
            raise
        raise RestoreError(
            f"the program could not be put back as it was found: {error.message}",
            hint="; ".join(
                filter(
                    None,
                    (error.hint, "`trimtab recover --extract DIR` writes the files as found, and how to put them back"),
                )
            ),
        ) from error


def _require_same_machine(snapshot: Snapshot) -> None:
    left = snapshot.picture.get("machine", "")
    if left and machine_mark() and left != machine_mark():
        raise RestoreError(
            "not touched, because these files are another machine's", hint="run `trimtab recover` where the study ran"
        )


def _found(snapshot: Snapshot, channel: FileChannel) -> FileCopy | None:
    table = snapshot.files.get(str(channel.path))
    if table is None:
        raise RestoreError(
            f"the snapshot has no file={str(channel.path)!r}", hint="use the study's own target: its files were others"
        )
    return file_from_json(table)


def _content(copy: FileCopy | None) -> bytes:
    return copy.content if copy is not None else b""


def _file_back(channel: FileChannel, places: Mapping[str, Place], snapshot: Snapshot, own: Own) -> None:
    ours = {
        places[name].address: texts
        for name, texts in own.texts.items()
        if name in places and places[name].channel is channel
    }
    channel.remove_leftover()
    if not ours:
        return
    now = channel.read()
    goal = channel.without(
        now, _found(snapshot, channel), ours, own.picture.get("files", {}).get(str(channel.path), "")
    )
    if goal != now:
        channel.put(goal)


def _waiting(reach: Reach, places: Mapping[str, Place], snapshot: Snapshot, own: Own) -> frozenset[str]:
    """Our knobs that only a restart changes, when the program may be using ours.

    A process that ran already when we came has never read them; one that began after its files were put back has not either.
    """
    late = frozenset(own.late) & places.keys()
    if not late or not reach.is_up() or reach.instance == snapshot.picture.get("instance", ""):
        return frozenset()
    paths: list[Path] = [places[name].channel.path for name in late]
    return frozenset() if reach.began_after(paths) else late


def _into_effect(reach: Reach, own: Own, restarts: Restarts, reloads: Sequence[str], must_restart: bool) -> bool:
    """Makes the program use its files; whether it was restarted or started."""
    if must_restart or not _serves(reach):
        restarts()
        if reach.is_up():
            reach.restart()
        else:
            reach.ensure_up()
        reach.health()
        return True
    if set(reloads) & set(own.texts):
        reach.reload()
        reach.health()
    return False


def _serves(reach: Reach) -> bool:
    try:
        reach.health()
    except TargetError:
        return bool(reach.no_restart) and reach.is_up()
    return True


def _told(
    places: Mapping[str, Place], snapshot: Snapshot, own: Own, waiting: frozenset[str], held: str, is_restarted: bool
) -> Undone:
    """Knob by knob."""
    back, left = [], []
    for name in sorted(set(own.texts) & places.keys()):
        place = places[name]
        now, before = (_text(place, copy) for copy in (place.channel.read(), _found(snapshot, place.channel)))
        if name in waiting:
            left.append(f"{name}={now}: waits for a restart, which was not made because {held}")
        elif now == before:
            back.append(f"{name}={now}")
        else:
            left.append(told_left(name, now, own.texts[name][-1], before))
    return Undone(put_back=tuple(back), left=tuple(left), restarted=is_restarted)


def _text(place: Place, copy: FileCopy | None) -> str:
    located = place.channel.values(copy, [place.address]).get(place.address)
    return located.value if located is not None else "(not in the file)"
