"""EmbeddedTable: a private system that Trimtab makes in a folder of its own; an [embedded."VERSION"] table of a catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from trimtab.systems.lifecycle_table import LifecycleTable
from trimtab.systems.placeholder import filled

__all__ = ["EmbeddedTable", "EmbeddedTables"]


class EmbeddedTable(BaseModel):
    """Where its programs come from, and what its folder holds. In its texts {folder}, {port}, {root} (of the installation),
    {program}, {machine} ("x86_64") and the names of `needs` are replaced.

    Attributes:
        program: path of the program below the root of an installation. Where this machine has it, that one is run.
        packages: Debian's, unpacked into the cache without root where it has not.
        artifact: of a Maven repository instead, GROUP:ARTIFACT:VERSION:tar.gz, unpacked into the cache.
        sha512: of the artifact.
        jars: a list of catalog/jars instead: archives of a Maven repository with their checksums, kept in lib.
        module: a Python module instead, which the interpreter that runs Trimtab must have; that interpreter is the program, and
            runs as this user.
        extra: of Trimtab's own, which installs the module.
        needs: programs that must be on the PATH besides, each with the Debian package that brings it; {NAME} is its path.
        ports: further free ports that it needs, by name; {port.NAME} is one.
        folders: made in the folder.
        files: name -> text, written before each start.
        first_files: name -> text, written once: configuration, which is changed afterwards.
        paths: channel -> its file in the folder.
        lifecycle: how it is run; `run` and `url` must be there.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    program: str = ""
    packages: tuple[str, ...] = ()
    artifact: str = ""
    sha512: str = ""
    jars: str = ""
    module: str = ""
    extra: str = ""
    needs: dict[str, str] = Field(default_factory=dict)
    ports: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    files: dict[str, str] = Field(default_factory=dict)
    first_files: dict[str, str] = Field(default_factory=dict)
    paths: dict[str, str]
    lifecycle: LifecycleTable

    @model_validator(mode="after")
    def _has_source(self) -> Self:
        if sum(map(bool, (self.packages, self.artifact, self.jars, self.module))) != 1:
            raise ValueError("needs packages, artifact or module, or a list of jars")
        if bool(self.module) == bool(self.program):
            raise ValueError("needs the path of its program, unless it is a module")
        if bool(self.artifact) != bool(self.sha512):
            raise ValueError("artifact and sha512 go together")
        if self.lifecycle.run is None or self.lifecycle.url is None:
            raise ValueError("its lifecycle needs run and url")
        return self

    def under(self, table: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        """A [target.NAME] table with what it does not say itself, for a private one in `folder`."""
        usual = self.lifecycle.model_dump(exclude_none=True)
        names = {**usual.pop("names", {}), **table.get("names", {})}
        log_file = filled(usual.pop("log_file", ""), {"folder": str(folder)})
        logs = {"log_file": log_file} if log_file else {}
        return {**usual, **logs, **table, "folder": str(folder), "names": names}


def _completed(tables: object) -> object:
    """Each table that is `like` another one with what it does not say itself, also in the tables inside it."""
    if not isinstance(tables, Mapping) or not all(isinstance(table, Mapping) for table in tables.values()):
        return tables
    found = dict(tables)
    for version, table in tables.items():
        if "like" not in table:
            continue
        other = tables.get(str(table["like"]), table)
        if "like" in other:
            known = ", ".join(repr(each) for each, one in tables.items() if "like" not in one)
            raise ValueError(
                f"{version}: like={table['like']!r} must name a version without like; use one of: {known or 'none'}"
            )
        found[version] = _over(other, {name: value for name, value in table.items() if name != "like"})
    return found


def _over(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    def joined(name: str) -> Any:
        ours, theirs = own.get(name), base.get(name)
        if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
            return _over(theirs, ours)
        return ours if name in own else theirs

    return {name: joined(name) for name in {**base, **own}}


EmbeddedTables = Annotated[dict[str, EmbeddedTable], BeforeValidator(_completed)]
"""The [embedded] of a catalogue: version -> table; one with `like = "VERSION"` has from that one what it does not say itself."""
