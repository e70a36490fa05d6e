"""The extension's library, built from its sources for a server whose programs are on this machine, and installed there.

The sources are part of the package: `extension` and `sections` in this folder. A compiler and the server's header files are
the machine's own.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trimtab.errors import TargetError
from trimtab.host import LocalHost
from trimtab.systems.account import Account, cache_root, can_enter

__all__ = ["Sources", "built", "find_sources", "install"]

_HERE = Path(__file__).parent
_PARTS = ("tuner", "search", "simplex", "points")
"""Of the library of sections: those without threads and files."""
_FLAGS = ("-shared", "-fPIC", "-std=gnu99", "-O2")
_NO_FILE = '-DTRIMTAB_FILE=""'
"""What a library that only a study loads has learnt is not written down: the study keeps it."""
_BUILD_S = 300.0
_HINT = "see docs/how-to/tune-inside-postgresql.md"


@dataclass(frozen=True, slots=True)
class Sources:
    """All that a build takes.

    Attributes:
        compiler: path of the C compiler.
        version: of the server, as pg_config says it.
        include: folder of the server's header files.
        library_dir, share_dir: where the server looks for libraries, and for files of extensions.
    """

    compiler: str
    version: str
    include: Path
    library_dir: Path
    share_dir: Path

    @property
    def files(self) -> list[Path]:
        """The C files."""
        return [
            *sorted((_HERE / "extension" / "src").glob("*.c")),
            *(_HERE / "sections" / f"trimtab_{n}.c" for n in _PARTS),
        ]


def find_sources(bin_dir: Path | None) -> Sources:
    """What is there to build with.

    Raises:
        TargetError: something is missing; the message names it.
    """
    if not (_HERE / "extension" / "src").is_dir() or not (_HERE / "sections").is_dir():
        raise TargetError(
            "this installation of Trimtab has no sources of the extension",
            hint="install Trimtab from its wheel or its source distribution",
        )
    program = bin_dir / "pg_config" if bin_dir is not None else None
    if program is None or not program.exists():
        where = "the server's programs cannot be reached" if program is None else f"no {program}"
        raise TargetError(f"the extension cannot be built: {where}", hint=f"build it on the server's machine; {_HINT}")
    asked = ("--version", "--includedir-server", "--pkglibdir", "--sharedir")
    told = LocalHost().run([str(program), *asked], timeout_s=30)
    if told.exit_code != 0 or len(told.output.splitlines()) != len(asked):
        raise TargetError(f"the extension cannot be built: {program} fails: {told.output.strip()[:200]}", hint=_HINT)
    version, include, library_dir, share_dir = told.output.splitlines()
    if not Path(include, "postgres.h").exists():
        major = next(iter(re.findall(r"\d+", version)), "NN")
        raise TargetError(
            f"the extension cannot be built: the header files of {version} are not installed: no {include}/postgres.h",
            hint=f"Debian: apt install postgresql-server-dev-{major}",
        )
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise TargetError(
            "the extension cannot be built: there is no C compiler (cc) on the PATH",
            hint="Debian: apt install gcc libc6-dev",
        )
    return Sources(compiler, version, Path(include), Path(library_dir), Path(share_dir))


def built(bin_dir: Path | None, account: Account | None) -> Path:
    """The library for a study, in the cache: nothing of the server's own installation is touched. Made once for each version.

    Raises:
        TargetError: something is missing, the compiler fails, or the server's user cannot read the cache.
    """
    sources = find_sources(bin_dir)
    goal = cache_root() / "extension" / _digest(sources) / "trimtab.so"
    if not goal.exists():
        _compile(sources, goal, (_NO_FILE,))
        with suppress(OSError):  # of somebody else's cache; what comes of it is said below
            goal.parent.chmod(0o755)
    if account is not None and not can_enter(goal.parent, account):
        raise TargetError(
            f"user={account.name!r}, as whom the server runs, cannot reach folder={str(goal.parent)!r}",
            hint="set TRIMTAB_CACHE to a folder whose parents every user may enter",
        )
    return goal


def _digest(sources: Sources) -> str:
    found = hashlib.sha256(f"{sources.version} {sources.include} {_FLAGS}".encode())
    for path in (
        *sources.files,
        *sorted((_HERE / "extension" / "src").glob("*.h")),
        *sorted((_HERE / "sections").glob("*.h")),
    ):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def _compile(sources: Sources, goal: Path, flags: tuple[str, ...] = ()) -> None:
    include = (f"-I{_HERE / 'sections'}", f"-I{_HERE / 'extension' / 'src'}", f"-I{sources.include}")
    try:
        goal.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=goal.parent) as scratch:
            made = Path(scratch) / goal.name
            argv = [sources.compiler, *_FLAGS, *flags, *include, *map(str, sources.files), "-lm", "-o", str(made)]
            done = LocalHost().run(argv, timeout_s=_BUILD_S)
            if done.exit_code != 0:
                wrong = next((line for line in done.output.splitlines() if "error" in line), done.output[:200])
                raise TargetError(f"the extension cannot be built: {wrong}", hint=_HINT)
            made.chmod(0o755)
            os.replace(made, goal)
    except OSError as error:
        raise TargetError(f"folder={str(goal.parent)!r} cannot be written: {error.strerror}", hint=_HINT) from error


def install(bin_dir: Path | None) -> tuple[Path, ...]:
    """Builds it, and puts it where the server looks, to stay; the files written.

    Raises:
        TargetError: as `built`, or this user may not write there, and nothing was changed then; or a file cannot be written.
    """
    sources = find_sources(bin_dir)
    goals = [sources.library_dir / "trimtab.so"]
    scripts = sorted((_HERE / "extension").glob("trimtab*"))
    goals += [sources.share_dir / "extension" / path.name for path in scripts]
    for folder in {goal.parent for goal in goals}:
        if not os.access(folder, os.W_OK):
            raise TargetError(f"folder={str(folder)!r} cannot be written by this user", hint="run it as root")
    _compile(sources, goals[0])
    for path, goal in zip(scripts, goals[1:], strict=True):
        try:
            shutil.copyfile(path, goal)
            goal.chmod(0o644)
        except OSError as error:
            raise TargetError(
                f"file={str(goal)!r} cannot be written: {error.strerror}", hint="run the command again when it can"
            ) from error
    return tuple(goals)
