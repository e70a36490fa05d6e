"""Whether two snapshots are of one server, or of two that share a file."""

from __future__ import annotations

import os

from trimtab.systems.base import Snapshot

__all__ = ["is_same_server", "shared_file"]


def is_same_server(one: Snapshot, other: Snapshot) -> bool:
    """Whether two snapshots are of one server: by its process, by its own identifier where both know it, else by where it is: its
    folder or address, or the files that are written. Names of targets say nothing where one of these is known."""
    runs = [(each.picture.get("machine"), each.picture.get("instance")) for each in (one, other)]
    if all(runs[0]) and runs[0] == runs[1]:
        return True
    if one.kind != other.kind:
        return False
    identifiers = [str(each.picture.get("identifier", "")) for each in (one, other)]
    if all(identifiers):
        return identifiers[0] == identifiers[1]
    places = [each.reach.get("folder") or each.reach.get("url") for each in (one, other)]
    if all(places):
        return bool(places[0] == places[1])
    if all(any(map(os.path.isabs, each.files)) for each in (one, other)):
        machines = [str(each.picture.get("machine", "")) for each in (one, other)]
        return bool(shared_file(one, other)) and not (all(machines) and machines[0] != machines[1])
    keys = [place or each.target for place, each in zip(places, (one, other), strict=True)]
    return bool(keys[0] == keys[1])


def shared_file(one: Snapshot, other: Snapshot) -> str:
    """A file of both; "" when there is none. Only absolute paths say which file they mean."""
    mine, theirs = (
        {os.path.realpath(path): path for path in each.files if os.path.isabs(path)} for each in (one, other)
    )
    return next((path for real, path in mine.items() if real in theirs), "")
