"""Options of a Cassandra table as lines of a file, `compaction.class = LeveledCompactionStrategy`, and as statements; pure.

Knobs are written to the lines as to those of any other file, so that they are read, compared and taken back like these. The
word none stands for a table without compression, and Cassandra's own classes go without their package.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping

__all__ = [
    "MAPS",
    "OPTIONS",
    "TABLE",
    "NoTableError",
    "altered",
    "left_out",
    "option_lines",
    "option_of",
    "statement_for",
    "table_of",
    "values_of",
    "with_clause",
]

MAPS = ("caching", "compaction", "compression")
"""Options that are maps: whole ones are written, and another `class` leaves out what is not said of it."""
OPTIONS = (*MAPS, "bloom_filter_fp_chance", "crc_check_chance", "min_index_interval")

TABLE = "cql:"
"""What a name of a table begins with where a path may stand too."""
_NAME = re.compile(r"cql:(?P<keyspace>\w{1,48})\.(?P<table>\w{1,48})", re.ASCII)
_SYSTEM = re.compile(r"system(_\w+)?|dse_\w+")
_PACKAGES = re.compile(r"^org\.apache\.cassandra\.(db\.compaction|io\.compress)\.(?=\w+$)")
_NUMBER = re.compile(r"[0-9.eE+-]+")
_CLASS = "class"
_NO_COMPRESSION = "none"


class NoTableError(ValueError):
    """A text that begins as the name of a table, and names none that may be changed."""


def table_of(text: str) -> tuple[str, str] | None:
    """(keyspace, table) of `cql:KEYSPACE.TABLE`; None for the path of a file.

    Raises:
        NoTableError: it names no table, or one of the node's own.
    """
    if not text.startswith(TABLE):
        return None
    match = _NAME.fullmatch(text)
    if match is None:
        raise NoTableError(f"{text!r} names no table")
    if _SYSTEM.fullmatch(match["keyspace"].casefold()):
        raise NoTableError(f"{text!r} names a table of the node's own")
    return match["keyspace"], match["table"]


def option_of(address: str) -> str:
    """The option that an address lies in."""
    return address.partition(".")[0]


def option_lines(told: str) -> str:
    """The lines of a table that the node tells of as JSON: option -> value or map."""
    found: dict[str, str] = {}
    for option, value in json.loads(told, parse_float=str, parse_int=str).items():
        if isinstance(value, Mapping):
            inner = {key: _PACKAGES.sub("", str(text)) for key, text in value.items()}
            if option == "compression" and (inner.get("enabled") == "false" or _CLASS not in inner):
                inner = {_CLASS: _NO_COMPRESSION}
            found |= {f"{option}.{key}": text for key, text in inner.items()}
        elif value is not None:
            found[option] = str(value)
    return "".join(f"{address} = {found[address]}\n" for address in sorted(found))


def values_of(lines: str) -> dict[str, str]:
    """Address -> value of such lines."""
    pairs = (line.partition(" = ") for line in lines.splitlines())
    return {address: value for address, separator, value in pairs if separator}


def altered(now: Mapping[str, str], goal: Mapping[str, str]) -> dict[str, str]:
    """The part of `goal` that lies in options which differ from `now`: each of them whole."""
    options = {option_of(at) for at in {*now, *goal} if now.get(at) != goal.get(at)}
    return {at: text for at, text in goal.items() if option_of(at) in options}


def left_out(now: Mapping[str, str], values: Mapping[str, str]) -> frozenset[str]:
    """What of `now` does not go with `values`: all that was said of a class that another one takes the place of."""
    changed = {
        option for option in MAPS if (at := f"{option}.{_CLASS}") in values and values[at] != now.get(at, values[at])
    }
    return frozenset(at for at in now if option_of(at) in changed and at not in values)


def with_clause(values: Mapping[str, str]) -> str:
    """What follows WITH in CREATE TABLE and ALTER TABLE."""
    parts: dict[str, str] = {}
    for option in sorted({option_of(address) for address in values}):
        inner = {at.partition(".")[2]: text for at, text in values.items() if option_of(at) == option}
        if option == "compression" and inner.get(_CLASS) == _NO_COMPRESSION:
            inner = {"enabled": "false"}
        if option in MAPS:
            parts[option] = f"{{{', '.join(f'{_quoted(key)}: {_quoted(inner[key])}' for key in sorted(inner))}}}"
        else:
            parts[option] = inner[""] if _NUMBER.fullmatch(inner[""]) else _quoted(inner[""])
    return " AND ".join(f"{option} = {text}" for option, text in parts.items())


def statement_for(table: tuple[str, str], values: Mapping[str, str], options: Collection[str] | None = None) -> str:
    """The statement that gives a table these values, or those of `options` alone."""
    chosen = {at: text for at, text in values.items() if options is None or option_of(at) in options}
    keyspace, name = table
    return f'ALTER TABLE "{keyspace}"."{name}" WITH {with_clause(chosen)}'


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
