"""Kinds of system that a catalogue describes alone: each file of catalog/kinds is one, and needs no code.

    kind = kind_of_catalog(text, where="redis.toml")
    target = kind.from_settings("cache", {"knobs": "all"}, state_dir=state_dir)

`trimtab.plugins` finds them by the names of their files, beside the kinds that are registered as entry points.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from trimtab.errors import InternalError, UsageError
from trimtab.systems.catalog import Catalog
from trimtab.systems.catalog_file import parse_catalog
from trimtab.systems.catalog_system import CatalogSystem
from trimtab.systems.command_settings import CommandSettings
from trimtab.units import counted

__all__ = ["kind_of_catalog"]


def kind_of_catalog(text: str, *, where: str) -> type[CatalogSystem]:
    """The class of target that a catalogue describes.

    Args:
        text: of the catalogue.
        where: its file; relative paths in it start from its folder.

    Raises:
        UsageError: the catalogue has a fault.
    """
    catalog = parse_catalog(text, name=where)

    class Kind(CatalogSystem):
        SETTINGS = CommandSettings
        KIND = catalog.kind

        @classmethod
        def catalogue(cls) -> Catalog:
            """What it says, checked."""
            return catalog

        @classmethod
        def catalogue_file(cls, name: str, settings: Mapping[str, Any], directory: Path | None) -> str:
            """The kind's own."""
            return where

        @classmethod
        def catalogue_text(cls, _where: str) -> str:
            """The kind's own."""
            return text

    Kind.__name__ = Kind.__qualname__ = f"{catalog.kind.capitalize()}System"
    Kind.__doc__ = f"{_about(catalog)} See `CatalogSystem`. A `Target`."
    return Kind


def _about(catalog: Catalog) -> str:
    """One sentence for people who choose a kind."""
    versions = ", ".join(map(str, catalog.versions))
    of = f" of {'versions' if len(catalog.versions) > 1 else 'version'} {versions}" if versions else ""
    return f"{counted(len(catalog.knob), 'setting')}{of}, by its catalogue."


@cache
def _shipped(name: str) -> type[CatalogSystem]:
    path = files("trimtab.catalog") / "kinds" / f"{name}.toml"
    try:
        return kind_of_catalog(path.read_text(encoding="utf-8"), where=f"{name}.toml")
    except UsageError as error:
        raise InternalError(error.message) from error


def __getattr__(name: str) -> type[CatalogSystem]:
    """The kind that Trimtab ships under that name.

    Raises:
        AttributeError: there is none.
    """
    try:
        return _shipped(name)
    except OSError as error:
        raise AttributeError(f"no catalogue of kind={name!r} is shipped") from error
