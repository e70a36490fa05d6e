"""Private folders of a server of our own: made for its user, refused when a stranger was first."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from trimtab.errors import TargetError
from trimtab.host import Folder
from trimtab.systems.account import Account, can_enter

__all__ = ["make_server_folders", "socket_folder"]

_MAX_SOCKET_BYTES = 107
"""sun_path of a unix socket, without its closing zero byte."""


def socket_folder(folder: Path, longest_name: str) -> Path:
    """Where the unix socket goes: beside the data, or under /tmp where that path would be too long for a socket.

    Args:
        folder: of the server.
        longest_name: of the files that the server makes for its socket.
    """
    beside = folder / "run"
    if len(os.fsencode(beside / longest_name)) <= _MAX_SOCKET_BYTES:
        return beside
    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
    return Path("/tmp") / f"trimtab-{digest}"


def make_server_folders(folder: Path, inner: Sequence[Path], account: Account) -> None:
    """Makes a server's folder and the others that it needs, all private to its user; those that exist stay.

    Raises:
        TargetError: they cannot be made, the user cannot get there, or one belongs to somebody else.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        if not can_enter(folder.parent, account):
            raise TargetError(
                f"user={account.name!r} (the server's) cannot reach folder={str(folder.parent)!r}",
                hint="set TRIMTAB_CACHE to a folder whose parents every user may enter",
            )
        for each in (folder, *inner):
            _own(each, account)
    except OSError as error:
        raise TargetError(
            f"cannot make the server's folder={str(folder)!r}: {error.strerror}",
            hint="set TRIMTAB_CACHE to a folder that can be written",
        ) from error


def _own(folder: Path, account: Account) -> None:
    """Makes a private folder of the server's user; refuses one that a stranger made first (/tmp is everybody's)."""
    with Folder.open(folder.parent) as parent:
        parent.make_folder(folder.name, account.uid, account.gid)
        status = parent.status(folder.name)
    if status is None or not stat.S_ISDIR(status.st_mode) or status.st_uid != account.uid:
        raise TargetError(
            f"folder={str(folder)!r} does not belong to the server's user={account.name!r}",
            hint="remove it, or set TRIMTAB_CACHE to another folder",
        )
