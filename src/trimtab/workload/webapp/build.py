"""Builds the applications of apps/java with Maven, once for each state of their sources, into the cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import trimtab
from trimtab.errors import LoadError, TargetError
from trimtab.host import LocalHost
from trimtab.workload.cache import cache_directory
from trimtab.workload.webapp.images import IMAGES, write_images

__all__ = ["Application", "built", "digest_of", "sources"]

_BUILD_S = 900.0
_LINES = 15
_NEEDS = {"mvn": "maven", "javac": "openjdk-17-jdk-headless"}
_NO_SOURCES = ("target", "PAGES.md")
_BUILDER = 2
"""Counts changes of this module that make the result another one."""


@dataclass(frozen=True, slots=True)
class Application:
    """An application that is built.

    Attributes:
        name: of it, and of its path in the site.
        applications: folder for Tomcat, with the application unpacked.
        libraries: folder with the drivers of databases, for Tomcat's own class loader.
    """

    name: str
    applications: Path
    libraries: Path


def sources() -> Path:
    """The folder with the applications' sources.

    Raises:
        LoadError: this installation has none.
    """
    folder = Path(trimtab.__file__).parents[2] / "apps" / "java"
    if not (folder / "pom.xml").is_file():
        raise LoadError(
            "the sources of the web applications are not part of this installation",
            hint="use a checkout of Trimtab: pip install --editable FOLDER; or deploy them by hand "
            "(docs/reference/web-applications.md)",
        )
    return folder


def built(name: str, report: Callable[[str], None]) -> Application:
    """The application, built when it is not in the cache.

    Raises:
        LoadError: Maven or a JDK is missing, or the build fails; the message has Maven's words.
    """
    folder = sources()
    home = cache_directory() / "apps" / digest_of(folder)
    if not home.exists():
        _require_programs()
        report("building the web applications with Maven; the first time, it fetches what it needs")
        _build(folder, home)
    return Application(name, home / name, home / "lib")


def _require_programs() -> None:
    java_home = os.environ.get("JAVA_HOME")
    path = os.pathsep.join([*([f"{java_home}/bin"] if java_home else []), os.environ.get("PATH", os.defpath)])
    for program, package in _NEEDS.items():
        if shutil.which(program, path=path) is None:
            raise LoadError(
                f"the web applications cannot be built: program={program} is not installed",
                hint=f"apt-get install {package}",
            )


def digest_of(folder: Path) -> str:
    """Of the sources in a folder, and of how they are built."""
    digest = hashlib.sha256(f"{_BUILDER}".encode())
    for path in _files(folder):
        digest.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name in _NO_SOURCES or path.name.startswith("."):
            continue
        if path.is_dir():
            yield from _files(path)
        else:
            yield path


def _build(folder: Path, home: Path) -> None:
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{home.name}.", dir=home.parent) as scratch:
        work, fresh = Path(scratch) / "java", Path(scratch) / "built"
        shutil.copytree(folder, work, ignore=shutil.ignore_patterns(*_NO_SOURCES))
        names = [name for name in IMAGES if (work / name).is_dir()]
        for name in names:
            write_images(name, work / name / "src" / "main" / "webapp" / "images")
        _maven(work)
        shutil.copytree(work / "socket" / "target" / "lib", fresh / "lib")
        shutil.copy(work / "socket" / "target" / "socket-1.jar", fresh / "lib")
        for name in names:
            with zipfile.ZipFile(work / name / "target" / f"{name}.war") as war:
                war.extractall(fresh / name / name)
            _front(fresh / name / "ROOT")
        _open(fresh)
        if not home.exists():
            fresh.rename(home)


def _front(folder: Path) -> None:
    """Something to answer with at "/", where a server's health is asked; without the pool of the server's context.xml."""
    (folder / "META-INF").mkdir(parents=True)
    (folder / "index.html").write_text("It works.\n")
    (folder / "META-INF" / "context.xml").write_text('<Context override="true"/>\n')


def _maven(work: Path) -> None:
    """Without the network where everything is there already."""
    goal = ["mvn", "-q", "-B", "package"]
    try:
        result = LocalHost().run([*goal, "-o"], timeout_s=_BUILD_S, folder=work)
        if result.exit_code != 0:
            result = LocalHost().run(goal, timeout_s=_BUILD_S, folder=work)
    except TargetError as error:
        raise LoadError(f"the web applications cannot be built: {error.message}", hint=error.hint) from error
    if result.exit_code != 0:
        words = "\n".join(result.output.strip().splitlines()[-_LINES:])
        raise LoadError(
            f"the web applications cannot be built: mvn ended with exit_code={result.exit_code}:\n{words}",
            hint="Maven needs its repository once; after that, it builds without a network",
        )


def _open(folder: Path) -> None:
    """Lets the user of private servers read everything."""
    folder.chmod(0o755)
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
