"""How a system that a catalogue describes is usually run: what a study file need not say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trimtab.errors import UsageError
from trimtab.systems.account import cache_root
from trimtab.systems.catalog import Catalog
from trimtab.systems.settings import full_path

__all__ = ["with_usual"]


def with_usual(name: str, catalog: Catalog, table: Mapping[str, Any], directory: Path | None) -> Mapping[str, Any]:
    """The table of a target called `name` with what it does not say itself; paths are relative to `directory`.

    Raises:
        UsageError: it is to be a private one of a version that the catalogue does not have.
    """
    version = table.get("embedded")
    if version is None:
        return catalog.lifecycle.under(_with_names_of_files(catalog, table, (directory or Path()).absolute()))
    if version not in catalog.embedded:
        known = ", ".join(repr(each) for each in catalog.embedded)
        raise UsageError(
            f"[target.{name}] embedded={version!r}: kind={catalog.kind!r} has no such one",
            hint=f"use one of: {known}" if known else "give run, or start, stop and pid_file",
        )
    usual = cache_root() / catalog.kind / re.sub(r"[^A-Za-z0-9_.-]", "_", f"{version}-{name}")
    home = Path(full_path(str(table.get("folder", usual)), (directory or Path()).absolute()))
    return catalog.embedded[version].under(table, home)


def _with_names_of_files(catalog: Catalog, table: Mapping[str, Any], directory: Path) -> Mapping[str, Any]:
    """With the files that the table gives for those whose names the catalogue's commands have, as {conf} of a mongod: or a reload
    would read another server's."""
    files, names = table.get("files", {}), table.get("names", {})
    if not isinstance(files, Mapping) or not isinstance(names, Mapping):
        return table  # its keys are looked at later
    usual = catalog.lifecycle.names or {}
    given = {
        name: full_path(path, directory) for name, path in files.items() if name in usual and isinstance(path, str)
    }
    return {**table, "names": {**given, **names}} if given else table
