"""How studies are exchanged: one file per format, each behind `Format`, found by name or by the file's suffix."""

from __future__ import annotations

from pathlib import PurePath

from trimtab import plugins
from trimtab.errors import UsageError
from trimtab.history.formats.base import Format, Imported

__all__ = ["Format", "Imported", "load_format"]


def load_format(name: str | None, place: str) -> Format:
    """The format called `name`, or without a name the one whose suffix `place` has (a postgresql:// URL: taudb), whatever is
    wrong with others.

    Raises:
        UsageError: no such format, or a suffix that none of them has.
    """
    if name is not None:
        found: Format = plugins.load("formats", name)()
        return found
    if "://" in place:
        return load_format("taudb", place)
    suffix = PurePath(place).suffix.lower()
    known, broken = set[str](), list[str]()
    for other in plugins.names("formats"):
        try:
            one: Format = plugins.load("formats", other)()
            suffixes = tuple(one.suffixes)
        except Exception as error:  # noqa: BLE001 - a plug-in: the file need not be one of its own
            broken.append(getattr(error, "message", f"{other!r} of formats cannot be made: {error!r}"))
            continue
        if suffix in suffixes:
            return one
        known.update(suffixes)
    left_out = "".join(f"; left out: {why}" for why in broken)
    raise UsageError(
        f"the format of {place!r} cannot be recognised from its name",
        hint=f"give a name that ends in one of: {', '.join(sorted(known))}; export and import also take --format{left_out}",
    )
