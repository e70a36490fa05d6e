"""The user that a server of our own runs as, and the cache where its data lives."""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

from trimtab.errors import TargetError

__all__ = ["Account", "cache_root", "can_enter", "owner_of", "server_account", "server_user_of", "user_name"]


@dataclass(frozen=True, slots=True)
class Account:
    """The user that a server runs as."""

    name: str
    uid: int
    gid: int

    @property
    def is_me(self) -> bool:
        """Whether it is this process's own user."""
        return self.uid == os.geteuid()


def cache_root() -> Path:
    """$TRIMTAB_CACHE, or /var/cache/trimtab for root, or $XDG_CACHE_HOME/trimtab, or ~/.cache/trimtab."""
    chosen = os.environ.get("TRIMTAB_CACHE")
    if chosen:
        return Path(chosen).absolute()
    if os.geteuid() == 0:
        return Path("/var/cache/trimtab")  # the server's own user cannot look into root's home
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trimtab"


def user_name() -> str:
    """The name of the user whose process this is, or its number where it has none."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def server_account() -> Account:
    """Who runs an embedded server: this user; for root (database servers refuse it) `trimtab`, made when it is missing,
    else `postgres`, else `nobody`.

    Raises:
        TargetError: this is root and no other user exists.
    """
    if os.geteuid() != 0:
        try:
            me = pwd.getpwuid(os.geteuid())
        except KeyError:
            raise TargetError(
                f"this user has no name (uid={os.geteuid()} is not in /etc/passwd), and a database server needs one",
                hint="add an entry for it (useradd, or nss_wrapper in a container), or run as another user",
            ) from None
        return Account(me.pw_name, me.pw_uid, me.pw_gid)
    if not _has_user("trimtab"):
        _make_user("trimtab")
    for name in ("trimtab", "postgres", "nobody"):
        if _has_user(name):
            entry = pwd.getpwnam(name)
            return Account(name, entry.pw_uid, entry.pw_gid)
    raise TargetError(
        "the server does not run as root, and none of these users exists: 'trimtab', 'postgres', 'nobody'",
        hint="run Trimtab as an ordinary user, or create a system user named trimtab",
    )


def _has_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _make_user(name: str) -> None:
    program = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if program is None:
        return
    argv = [program, "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
    # Two tuners may do this at once, and a read-only /etc may refuse: whether the user exists is looked at afterwards.
    subprocess.run(
        [*argv, "--shell", "/usr/sbin/nologin", name],
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=30,
    )


def owner_of(path: Path) -> Account | None:
    """The user whom a file or folder belongs to; None when there is no such path or no such user here."""
    try:
        entry = pwd.getpwuid(path.stat().st_uid)
    except (OSError, KeyError):
        return None
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def server_user_of(data_dir: Path) -> Account | None:
    """As `owner_of` a data directory; None for root: its program and files are the server's, and not obeyed as root."""
    found = owner_of(data_dir)
    return None if found is None or (found.uid == 0 and os.geteuid() == 0) else found


def can_enter(path: Path, account: Account) -> bool:
    """Whether `account` may pass through every folder down to `path`, and read and enter it."""
    groups = {account.gid, *(g.gr_gid for g in grp.getgrall() if account.name in g.gr_mem)}
    return all(_allows(part, account.uid, groups, need_read=part == path) for part in (path, *path.parents))


def _allows(path: Path, uid: int, groups: set[int], *, need_read: bool) -> bool:
    try:
        status = path.stat()
    except OSError:
        return False
    shift = 6 if status.st_uid == uid else 3 if status.st_gid in groups else 0
    bits = (stat.S_IMODE(status.st_mode) >> shift) & 0o7
    wanted = 0o1 | (0o4 if need_read else 0)
    return bits & wanted == wanted
