"""A catalogue from its text, and everything that is wrong with it."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trimtab.errors import UsageError
from trimtab.systems.catalog import Catalog
from trimtab.systems.catalog_faults import faults_between
from trimtab.systems.facets import with_facets

__all__ = ["catalog_faults", "kept_catalog", "parse_catalog", "read_catalog"]

_MAX_BYTES = 1 << 20
_PLACE = "{address}"
_INTEGER_BITS = 63
"""Of TOML's integers, beside the sign."""


def _with_files_apart(table: dict[str, Any]) -> dict[str, Any]:
    """The catalogue with a channel for each knob of a channel whose path has {address} in it; faults are left to find."""
    channels, knobs = table.get("channel"), table.get("knob")
    if not isinstance(channels, dict) or not isinstance(knobs, dict):
        return table
    apart = {name: c for name, c in channels.items() if isinstance(c, dict) and _PLACE in str(c.get("path", ""))}
    only = next(iter(channels)) if len(channels) == 1 else ""
    made, moved = dict(channels), dict(knobs)
    for name, knob in knobs.items():
        channel = knob.get("channel", only) if isinstance(knob, dict) else None
        if channel in apart and isinstance(address := knob.get("address", name), str):
            path = apart[channel]["path"].replace(_PLACE, address)
            made[name] = {**apart[channel], "path": path}
            moved[name] = {key: value for key, value in knob.items() if key != "address"} | {"channel": name}
    for name in apart:
        if not any(isinstance(knob, dict) and knob.get("channel") == name for knob in moved.values()):
            made.pop(name)
    return {**table, "channel": made, "knob": moved}


def _first_words(error: Mapping[str, Any]) -> tuple[str, str]:
    where = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return f"unknown key {where!r}", "docs/reference/catalog.md lists the keys"
    if error["type"] == "missing":
        return f"{where!r} is missing", f"add {error['loc'][-1]} = ..."
    shown = error["input"] if not isinstance(error["input"], dict) else ""
    what = f"{where}={shown!r}" if shown != "" else f"[{where}]"
    return f"{what}: {error['msg'].removeprefix('Value error, ')}", "docs/reference/catalog.md lists the keys"


def _no_numbers(value: Any, where: str) -> Iterator[str]:
    """Every number in a table that nothing can be reckoned with, with the keys that lead to it."""
    if isinstance(value, float) and not math.isfinite(value):
        yield f"{where}={value} is not a finite number"
    elif isinstance(value, int) and value.bit_length() > _INTEGER_BITS:
        yield f"{where} has more than the 64 bits of a number"
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _no_numbers(each, f"{where}.{key}".lstrip("."))
    elif isinstance(value, list):
        for each in value:
            yield from _no_numbers(each, where)


def catalog_faults(text: str) -> tuple[Catalog | None, list[tuple[str, str]]]:
    """The catalogue, and everything that is wrong with it: (message, hint); the catalogue is None when it cannot be read."""
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        return None, [(f"it is not TOML: {error}", "see the line and column")]
    except ValueError:  # Python's own, of an integer of thousands of digits
        return None, [("a number in it has too many digits", "write a number")]
    if endless := list(_no_numbers(table, "")):
        return None, [(each, "write a number") for each in endless]
    try:
        catalog = Catalog.model_validate(_with_files_apart(with_facets(table)))
    except UsageError as error:
        return None, [(error.message, error.hint or "")]
    except ValidationError as error:
        return None, [_first_words(dict(each)) for each in error.errors(include_url=False)]
    return catalog, list(faults_between(catalog))


@lru_cache(maxsize=16)
def _checked(text: str) -> tuple[Catalog | None, list[tuple[str, str]]]:
    """`catalog_faults`, once for a text: it takes a while, nobody changes a catalogue, and a study reads its own often."""
    return catalog_faults(text)


def parse_catalog(text: str, *, name: str) -> Catalog:
    """A catalogue without faults; `name` is what messages call it.

    Raises:
        UsageError: it has one; the message names the first, and how many there are.
    """
    catalog, faults = _checked(text)
    if catalog is None or faults:
        message, hint = faults[0]
        more = f" (and {len(faults) - 1} more: `trimtab catalog check` lists them)" if len(faults) > 1 else ""
        raise UsageError(f"catalog={name!r}: {message}{more}", hint=hint)
    return catalog


def kept_catalog(text: str, *, name: str) -> Catalog:
    """The catalogue of a snapshot. It was obeyed when the snapshot was made, and so it is to undo what was done by it, even if
    this version finds more to be wrong with it. The plays of such a one, which undo nothing, are left out.

    Raises:
        UsageError: it is damaged.
    """
    catalog, faults = _checked(text)  # mostly that of the kind, which is known already
    if catalog is not None and not faults:
        return catalog
    table = tomllib.loads(text)
    table.pop("play", None)
    try:
        return Catalog.model_validate(_with_files_apart(with_facets(table)))
    except ValidationError as error:
        message, hint = _first_words(dict(error.errors(include_url=False)[0]))
        raise UsageError(f"catalog={name!r}: {message}", hint=hint) from error


def read_catalog(path: Path) -> str:
    """The text of a catalogue.

    Raises:
        UsageError: it cannot be read, or is too large to be one.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise UsageError(f"catalog={str(path)!r} is larger than 1 MiB", hint="a catalogue has some hundred lines")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(
            f"catalog={str(path)!r} cannot be read: {why}",
            hint="check its path (in a study file it is relative to that file), and write it as UTF-8",
        ) from error
