"""Files in a snapshot: a configuration file as it was found, as JSON and back."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from trimtab.host import FileCopy

__all__ = ["file_digest", "file_from_json", "file_to_json", "told_left"]


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


def told_left(name: str, value: str, ours: str, found: str) -> str:
    """The line about a knob that somebody else has set since."""
    return f"{name}={value}: somebody else has set it to {value} meanwhile (ours was {ours}, found was {found})"
