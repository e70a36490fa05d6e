"""How studies are exchanged: one file per format, each behind `Format`, found by name or by the file's suffix."""

from __future__ import annotations

from pathlib import PurePath

from trimtab import plugins
from trimtab.errors import UsageError
from trimtab.history.formats.base import Format, Imported

__all__ = ["Format", "Imported", "load_format"]


def load_format(name: str | None, place: str) -> Format:
    """The format called `name`, or without a name the one whose suffix `place` has (a postgresql:// URL: taudb).

    Raises:
        UsageError: no such format, or a suffix that none of them has.
    """
    if name is not None:
        found: Format = plugins.load("formats", name)()
        return found
    if "://" in place:
        return load_format("taudb", place)
    suffix = PurePath(place).suffix.lower()
    known: dict[str, str] = {}
    for other in plugins.names("formats"):
        one: Format = plugins.load("formats", other)()
        if suffix in one.suffixes:
            return one
        known.update(dict.fromkeys(one.suffixes, other))
    raise UsageError(
        f"the format of {place!r} cannot be recognised from its name",
        hint=f"give --format, or one of: {', '.join(sorted(known))}",
    )
