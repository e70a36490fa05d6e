"""Where the programs of a private system come from: this machine, Debian's packages, or a Maven repository, kept in the cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import tempfile
from pathlib import Path

from trimtab.errors import TargetError
from trimtab.host import LocalHost
from trimtab.systems.account import cache_root
from trimtab.systems.embedded_table import EmbeddedTable
from trimtab.systems.jars import jar_list, pom_of, verify

__all__ = ["find_program", "installation"]

_FETCH_S = 600.0
_MAVEN = "install Maven, and look at its settings"
_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


def find_program(name: str, package: str) -> str:
    """The path of a program of this machine.

    Raises:
        TargetError: it is not installed; the hint names what brings it.
    """
    home = os.environ.get("JAVA_HOME")
    first = [str(Path(home) / "bin")] if home else []
    found = shutil.which(name, path=":".join((*first, os.environ.get("PATH", ""), *_PATH)))
    if found is None:
        raise TargetError(f"program={name!r} is not installed here", hint=f"apt-get install {package}")
    return os.path.realpath(found)


def installation(label: str, table: EmbeddedTable) -> Path:
    """The root below which its program is: this machine's, or a copy in the cache, fetched at its first use.

    Args:
        label: of the system and its version ("httpd-2.4").
        table: where it comes from.

    Raises:
        TargetError: it cannot be fetched.
    """
    if table.packages and Path(table.program).exists():
        return Path("/")
    root = cache_root() / "programs" / label
    if (root / table.program.lstrip("/")).exists():
        return root
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"{label}.", dir=root.parent) as scratch:
            _install(label, table, Path(scratch), root)
    except (OSError, tarfile.TarError, EOFError) as error:
        if (root / table.program.lstrip("/")).exists():
            return root  # another Trimtab has made it meanwhile
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise TargetError(
            f"{label} cannot be put into folder={str(root.parent)!r}: {why}",
            hint="make room there, or set TRIMTAB_CACHE to a folder that you may write to",
        ) from error
    return root


def _install(label: str, table: EmbeddedTable, scratch: Path, root: Path) -> None:
    """Fetches it into `scratch`, and moves it to `root` once it is whole."""
    fresh = scratch / "root"
    fresh.mkdir()
    _fetch(label, table, scratch, fresh)
    if not (fresh / table.program.lstrip("/")).exists():
        raise TargetError(f"what was fetched for {label} lacks program={table.program!r}", hint="install it by hand")
    fresh.chmod(0o755)
    if not root.exists():
        fresh.rename(root)


def _fetch(label: str, table: EmbeddedTable, scratch: Path, root: Path) -> None:
    if table.packages:
        _run(
            label,
            ["apt-get", "download", "-q", *table.packages],
            scratch,
            f"apt-get install {' '.join(table.packages)}",
        )
        for package in sorted(scratch.glob("*.deb")):
            _run(label, ["dpkg-deb", "-x", str(package), str(root)], scratch, "dpkg-deb unpacks it: install dpkg")
        return
    if table.jars:
        _fetch_jars(label, table.jars, scratch, root)
        return
    goal = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={table.artifact}", f"-DoutputDirectory={scratch}"]
    _run(label, goal, scratch, _MAVEN)
    archives = sorted(scratch.glob("*.tar.gz"))
    if len(archives) != 1:
        raise TargetError(f"artifact={table.artifact!r} is not one archive", hint="look at the catalogue")
    _unpack(table, archives[0], root)


def _fetch_jars(label: str, name: str, scratch: Path, root: Path) -> None:
    jars = jar_list(name)
    (scratch / "pom.xml").write_text(pom_of(jars))
    goal = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={root / 'lib'}"]
    _run(label, goal, scratch, _MAVEN)
    verify(jars, root / "lib")
    for jar in (root / "lib").iterdir():
        jar.chmod(0o644)


def _unpack(table: EmbeddedTable, archive: Path, root: Path) -> None:
    """Its contents without their outermost folder."""
    digest = hashlib.sha512(archive.read_bytes()).hexdigest()
    if digest != table.sha512:
        raise TargetError(
            f"artifact={table.artifact!r} has sha512={digest[:16]}..., not {table.sha512[:16]}...",
            hint="it was damaged on its way, or is another one; nothing of it was used",
        )
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            _, _, member.name = member.name.partition("/")
            member.mode |= 0o555 if member.isdir() else 0o444  # the user of private servers is another one
            if member.name:
                tar.extract(member, root, filter="data")


def _run(label: str, argv: list[str], folder: Path, hint: str) -> None:
    try:
        result = LocalHost().run(argv, timeout_s=_FETCH_S, folder=folder)
    except TargetError as error:
        raise TargetError(f"{label} is not installed, and cannot be fetched: {error.message}", hint=hint) from error
    if result.exit_code != 0:
        text = f"{label} is not installed, and cannot be fetched: {argv[0]} ended with exit_code={result.exit_code}"
        raise TargetError(f"{text}: {result.output[-500:]}", hint=hint)
