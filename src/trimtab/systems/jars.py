"""Jars: the archives of a Java program that has no package, fetched by Maven as a list of the catalogue names them."""

from __future__ import annotations

import hashlib
import html
import re
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from trimtab.errors import InternalError, TargetError

__all__ = ["Jar", "jar_list", "pom_of", "verify"]

_LINE = re.compile(r"(?P<where>[\w.-]+(?::[\w.-]+){2,3}) (?P<digest>[0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Jar:
    """One archive: where a Maven repository has it, and the SHA-256 that it must have."""

    group: str
    artifact: str
    version: str
    classifier: str
    sha256: str

    @property
    def file(self) -> str:
        """Its name as Maven writes it."""
        return f"{self.artifact}-{self.version}{'-' if self.classifier else ''}{self.classifier}.jar"


def jar_list(name: str) -> tuple[Jar, ...]:
    """The archives of catalog/jars/`name`, one a line.

    Raises:
        InternalError: there is no such list, or a line is none.
    """
    try:
        text = (files("trimtab.catalog") / "jars" / name).read_text(encoding="utf-8")
    except OSError as error:
        raise InternalError(f"catalog/jars has no {name!r}") from error
    found = []
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is not None:
            group, artifact, version, *more = match["where"].split(":")
            found.append(Jar(group, artifact, version, more[0] if more else "", match["digest"]))
        elif line.strip() and not line.startswith("#"):
            raise InternalError(f"catalog/jars/{name} has a line that does not name an archive: {line!r}")
    return tuple(found)


def pom_of(jars: tuple[Jar, ...]) -> str:
    """A project that needs exactly these, and nothing that they ask for themselves."""
    needs = "".join(
        f"<dependency><groupId>{html.escape(jar.group)}</groupId><artifactId>{html.escape(jar.artifact)}</artifactId>"
        f"<version>{html.escape(jar.version)}</version>"
        + (f"<classifier>{html.escape(jar.classifier)}</classifier>" if jar.classifier else "")
        + "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"
        for jar in jars
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>trimtab</groupId>'
        f"<artifactId>jars</artifactId><version>1</version><dependencies>{needs}</dependencies></project>"
    )


def verify(jars: tuple[Jar, ...], folder: Path) -> None:
    """That a folder holds all of them, as they must be.

    Raises:
        TargetError: one is missing or another one.
    """
    for jar in jars:
        path = folder / jar.file
        if not path.exists():
            raise TargetError(f"archive={jar.file!r} was not fetched", hint="look at Maven's settings")
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest != jar.sha256:
            raise TargetError(
                f"archive={jar.file!r} has sha256={digest[:16]}..., not {jar.sha256[:16]}...",
                hint="it was damaged on its way, or is another one; nothing of it was used",
            )
