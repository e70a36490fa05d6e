"""Facets: a catalogue of what a system runs in, such as its Java machine, taken into the system's own."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from trimtab.errors import UsageError

__all__ = ["facet_names", "with_facets"]

_TABLES = ("knob", "memory", "advice", "units", "play")
_WORDS = ("warmup_floor", "compilers")
_LISTS = ("orders", "constraint", "advice_when", "shrinks")


def facet_names() -> tuple[str, ...]:
    """Those that Trimtab ships: the files of catalog/facets."""
    folder = files("trimtab.catalog") / "facets"
    return tuple(sorted(file.name.removesuffix(".toml") for file in folder.iterdir())) if folder.is_dir() else ()


def with_facets(table: Mapping[str, Any]) -> dict[str, Any]:
    """A catalogue with those of its `facets` taken in; what it says itself of a channel, of a word, and in [facet_knob.NAME] of a
    knob of theirs, wins.

    Raises:
        UsageError: there is no such facet, or a name is in both, or [facet_knob] has one that is in none, or what they would be
            joined with is no table or list.
    """
    found, names = dict(table), table.get("facets")
    if not isinstance(names, list) or not names:
        return found  # what else it is will be told
    _require_shapes(table)
    own = found.pop("facet_knob", {})
    for name in names:
        if name not in facet_names():
            raise UsageError(f"facets names {name!r}: there is no such facet", hint=f"use: {', '.join(facet_names())}")
        path = files("trimtab.catalog") / "facets" / f"{name}.toml"
        found = _joined(found, tomllib.loads(path.read_text(encoding="utf-8")), name)
    return {**found, "knob": _with_own(found["knob"], own)} if own else found


def _require_shapes(table: Mapping[str, Any]) -> None:
    """That a catalogue can be joined with another one: all other faults are found afterwards."""
    tables = {key: table[key] for key in (*_TABLES, "channel", "facet_knob", "log") if key in table}
    for key in ("channel", "facet_knob"):
        if isinstance(named := tables.get(key), dict):
            tables |= {f"{key}.{name}": each for name, each in named.items()}
    lists = {key: table[key] for key in _LISTS if key in table}
    if isinstance(log := tables.get("log"), dict) and "line" in log:
        lists["log.line"] = log["line"]
    for found, kind, what in ((tables, dict, "table"), (lists, list, "list")):
        for key, value in found.items():
            if not isinstance(value, kind):
                raise UsageError(f"{key}={value!r} is not a {what}", hint="docs/reference/catalog.md lists the keys")


def _with_own(knobs: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """`knobs` with what the catalogue itself says of those of its facets."""
    for name in own:
        if name not in knobs:
            raise UsageError(f"[facet_knob.{name}]: no facet has that knob", hint="write a further knob as [knob.NAME]")
    return {**knobs, **{name: {**knobs[name], **table} for name, table in own.items()}}


def _joined(own: dict[str, Any], facet: dict[str, Any], name: str) -> dict[str, Any]:
    made = dict(own)
    only = next(iter(facet["channel"]))
    facet = {**facet, "knob": {n: {"channel": only, **knob} for n, knob in facet["knob"].items()}}
    for key in _TABLES:
        mine, more = own.get(key, {}), facet.get(key, {})
        both = sorted(set(mine) & set(more))
        if both and key == "knob":
            raise UsageError(f"[knob.{both[0]}] is a knob of facet={name!r} too", hint="give it another name")
        made[key] = {**more, **mine}
    made = {**{key: facet[key] for key in _WORDS if key in facet}, **made}
    for key in _LISTS:
        made[key] = [*own.get(key, []), *facet.get(key, [])]
    channels = own.get("channel", {})
    made["channel"] = {**channels, **{n: {**table, **channels.get(n, {})} for n, table in facet["channel"].items()}}
    log, more = own.get("log", {}), facet.get("log", {})
    made["log"] = {**more, **log, "line": [*log.get("line", []), *more.get("line", [])]}
    return made
