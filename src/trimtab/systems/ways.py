"""Ways: how a kind of database server is got at: run by Trimtab, running with its files at hand, or by a login alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimtab.systems.settings import DatabaseSettings

__all__ = ["Ways"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """The classes of reach of one kind.

    Attributes:
        embedded: an `EmbeddedServer`.
        local: a `CommandedServer`.
        connection: a `RunningServer`.
        files: the key of the table without which the files are not at hand.
    """

    embedded: Callable[..., Any]
    local: Callable[[Any], Any]
    connection: Callable[[Any], Any]
    files: str

    def reach(self, name: str, settings: DatabaseSettings, found: Mapping[str, Any]) -> Any:
        """The way that a table describes; `found` is what `describe` has kept of it, {} when nothing was kept."""
        if settings.embedded is not None:
            return self.embedded(
                name,
                settings.embedded,
                memory_limit_bytes=settings.memory_limit_bytes,
                folder=Path(found["folder"]) if "folder" in found else None,
                immediate_stop=settings.immediate_stop is not False,
            )
        has_files = getattr(settings, self.files) is not None
        reach = self.local(settings) if has_files else self.connection(settings)
        reach.recall(found)
        return reach
