"""The [target.NAME] table of a program: its catalogue, and how it is run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, Field

from trimtab.errors import UsageError
from trimtab.systems.command_settings import CommandSettings
from trimtab.systems.settings import read_table

__all__ = ["Settings", "read_settings"]


class _Catalogued(BaseModel):
    """A base of its own, so that this key comes first in pages and messages."""

    kind: Literal["program"] = "program"
    catalog: str = Field(description="the catalogue of its settings, a TOML file; relative to the study file")


class Settings(CommandSettings, _Catalogued):
    """What the study file may say about a program. Commands run without a shell, in the folder of the study file."""

    PATHS: ClassVar[tuple[str, ...]] = ("catalog", *CommandSettings.PATHS)

    kind: Literal["program"] = "program"


def read_settings(name: str, table: Mapping[str, Any], directory: Path | None = None) -> Settings:
    """Checks a [target.NAME] table of a program; its paths are relative to `directory`.

    Raises:
        UsageError: an unknown key, a wrong value or combination.
    """
    if "catalog" not in table:
        raise UsageError(
            f"[target.{name}] lacks catalog", hint='add catalog = "FILE.toml"; docs/how-to/add-a-system.md shows one'
        )
    return read_table(Settings, name, table, directory)
