"""ProgramTarget: any program with configuration files, by a catalogue of the user's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trimtab.systems.base import Snapshot
from trimtab.systems.catalog import parse_catalog, read_catalog
from trimtab.systems.catalog_system import CatalogSystem
from trimtab.systems.program.settings import Settings, read_settings

__all__ = ["ProgramTarget"]


class ProgramTarget(CatalogSystem):
    """See `CatalogSystem`. A `Target`.

    Attributes:
        SETTINGS: model of the table, for the reference page.
    """

    SETTINGS = Settings

    @classmethod
    def from_settings(
        cls, name: str, settings: Mapping[str, Any], *, state_dir: Path, directory: Path | None = None
    ) -> ProgramTarget:
        """A target from its [target.NAME] table, whose paths are relative to `directory`; touches nothing.

        Raises:
            UsageError: an unknown key, a wrong value, or a catalogue with a fault.
        """
        where = read_settings(name, settings, directory).catalog
        text = read_catalog(Path(where))
        usual = parse_catalog(text, name=where).lifecycle
        return cls(name, read_settings(name, usual.under(settings), directory), text, where)

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot, *, state_dir: Path) -> ProgramTarget:
        """The target that a journalled snapshot came from; it holds the catalogue of then."""
        table = read_settings(snapshot.target, snapshot.reach["settings"])
        return cls(snapshot.target, table, snapshot.reach["catalog"], table.catalog)
