"""ProgramTarget: any program with configuration files, by a catalogue of the user's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trimtab.systems.catalog_file import read_catalog
from trimtab.systems.catalog_system import CatalogSystem
from trimtab.systems.program.settings import Settings, read_settings

__all__ = ["ProgramTarget"]


class ProgramTarget(CatalogSystem):
    """Any program with configuration files, described by a catalogue of your own. A `Target`.

    See `CatalogSystem`.

    Attributes:
        SETTINGS: model of the table, for the reference page.
    """

    SETTINGS = Settings
    KIND = "program"

    @classmethod
    def catalogue_file(cls, name: str, settings: Mapping[str, Any], directory: Path | None) -> str:
        """That of the table, which must name one."""
        return read_settings(name, settings, directory).catalog

    @classmethod
    def catalogue_text(cls, where: str) -> str:
        """Of the user's file."""
        return read_catalog(Path(where))
