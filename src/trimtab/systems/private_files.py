"""Files for a private server alone, which may hold a password: there from when a study is read until the server is stopped."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from trimtab.errors import TargetError
from trimtab.host import FileCopy, LocalHost
from trimtab.systems.account import cache_root, server_account

__all__ = ["forget_files", "keep_file"]


def _root() -> Path:
    return cache_root() / "apps" / "sites"


def keep_file(server: str, content: bytes, suffix: str) -> Path:
    """The file of that content for the user of private servers; its name tells another content from it.

    Args:
        server: by which a private server is known, and its files with it.
        content: of the file.
        suffix: of its name.

    Raises:
        TargetError: it cannot be written.
    """
    account, folder = server_account(), _root() / server
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TargetError(
            f"cannot make folder={str(folder)!r} for files of a private server: {error.strerror}",
            hint="set TRIMTAB_CACHE to a folder that can be written",
        ) from error
    path = folder / f"{hashlib.sha256(content).hexdigest()[:16]}{suffix}"
    LocalHost().write_file(path, FileCopy(content=content, mode=0o600, uid=account.uid, gid=account.gid))
    return path


def forget_files(values: Iterable[str]) -> None:
    """Removes the files that `keep_file` made among these values, with all others of the same server: those of studies that
    were killed, too."""
    for folder in {Path(value).parent for value in values if Path(value).is_relative_to(_root())}:
        for path in list(folder.glob("*")):
            path.unlink(missing_ok=True)
