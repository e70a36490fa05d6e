"""Files in a snapshot: a configuration file as it was found, as JSON and back."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trimtab.errors import RestoreError, TargetError
from trimtab.host import FileCopy, LocalHost
from trimtab.systems.base import Own, Snapshot

__all__ = [
    "digest_at",
    "file_digest",
    "file_from_json",
    "file_to_json",
    "files_back",
    "not_to_be_put_back",
    "saved_files",
]


def file_to_json(copy: FileCopy | None) -> dict[str, Any]:
    """A file for a snapshot; latin-1 maps every byte to one character and back."""
    if copy is None:
        return {"content": None}
    return {"content": copy.content.decode("latin-1"), "mode": copy.mode, "uid": copy.uid, "gid": copy.gid}


def file_from_json(table: Mapping[str, Any]) -> FileCopy | None:
    """The inverse of `file_to_json`."""
    if table["content"] is None:
        return None
    content = str(table["content"]).encode("latin-1")
    return FileCopy(content=content, mode=int(table["mode"]), uid=int(table["uid"]), gid=int(table["gid"]))


def file_digest(copy: FileCopy | None) -> str:
    """Of its bytes; "missing" when there is none."""
    return hashlib.sha256(copy.content).hexdigest() if copy is not None else "missing"


def digest_at(host: LocalHost, path: str | Path) -> str:
    """Of the file there; "" when this user may not read it."""
    try:
        return file_digest(host.read_file(Path(path)))
    except TargetError:
        return ""


def not_to_be_put_back(copy: FileCopy, folder: Path) -> str:
    """Why this user cannot put a new file in the place of this one as it was; "" when that is possible."""
    if os.geteuid() not in (0, copy.uid):
        return f"it belongs to another user (uid={copy.uid}) and could not be put back as it was"
    there = folder.stat()
    new_gid = there.st_gid if there.st_mode & stat.S_ISGID else os.getegid()
    if os.geteuid() == 0 or copy.gid in (new_gid, os.getegid(), *os.getgroups()):
        return ""
    return f"it belongs to a group that this user is not in (gid={copy.gid}) and could not be put back as it was"


def saved_files(host: LocalHost, paths: Sequence[Path], *, called: str, hint: str) -> dict[str, Mapping[str, Any]]:
    """The files of ours for a snapshot, by path.

    Args:
        host: where they are.
        paths: of them.
        called: what messages call one: "include_file".
        hint: what to do about one that is a link.

    Raises:
        TargetError: one is a symbolic link, or cannot be read.
    """
    for path in paths:
        if (goal := host.link_target(path)) is not None:
            raise TargetError(f"{called}={str(path)!r} is a symbolic link to {goal!r}; nothing was changed", hint=hint)
    return {str(path): file_to_json(host.read_file(path)) for path in paths}


Without = Callable[[FileCopy | None, FileCopy | None, Own, str], FileCopy | None]
"""What a file is to be, by what it is now, as it was found, what is ours, and its digest as we left it ("" when not known)."""


def files_back(host: LocalHost, snapshot: Snapshot, own: Own, path: Path | None, without: Without) -> bool:
    """Takes what is ours out of the server's one file of ours; whether it had to be written. Idempotent.

    Raises:
        RestoreError: the snapshot's file is another server's.
        TargetError: it cannot be read or written.
    """
    changed = False
    for name, table in snapshot.files.items():
        if path is None or str(path) != name:
            raise RestoreError(f"the snapshot's file={name!r} is not this server's", hint="use the study's own target")
        host.remove_leftover(path)
        now, found = host.read_file(path), file_from_json(table)
        goal = without(now, found, own, own.picture.get("files", {}).get(name, ""))
        if goal == now:
            continue
        changed = True
        if goal is None:
            host.remove_file(path)
        else:
            host.write_file(path, goal)
    return changed
