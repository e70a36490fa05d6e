"""What a program prints of its configuration, as address -> value: as a file of a codec, or as HotSpot lists its flags."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import PurePath

from trimtab.systems.codec import CODECS
from trimtab.systems.codec.base import unquoted
from trimtab.systems.codec.jvm_options import COLLECTOR, collector_of

__all__ = ["PRINTS", "printed_values"]

_SHORT = {"-Xmx": "-XX:MaxHeapSize", "-Xms": "-XX:InitialHeapSize"}
"""Options that set a flag by another name."""

_FLAG = re.compile(r"^ *\S+ +(?P<name>\w+) +:?= ?(?P<value>.*?) +\{[^}]*\}(?: +\{[^}]*\})? *$", re.MULTILINE)

_FILE = re.compile(r"^# configuration file (.+):\n", re.MULTILINE)
_INCLUDE = re.compile(r"^[ \t]*include\s+(\"[^\"]*\"|'[^']*'|[^\s;]+)\s*;", re.MULTILINE)
_DEEPEST = 20

PRINTS = ("flags", "settings", *sorted(set(CODECS) - {"template", "scalar"}))
"""`prints` of a channel: "flags" for the list of -XX:+PrintFlagsFinal and of jcmd VM.flags, "settings" for lines of a name and
a value with a tab between, as a node that is asked over CQL has them, or a codec."""


def printed_values(prints: str, text: str, addresses: Sequence[str]) -> dict[str, str]:
    """Those of `addresses` that it shows, with their values; of an address that comes twice, the last counts.

    Raises:
        CodecError: it is not of that syntax.
    """
    if prints == "settings":
        pairs = (line.partition("\t") for line in text.splitlines())
        told = {name: value for name, tab, value in pairs if tab}
        return {address: told[address] for address in addresses if address in told}
    if prints != "flags":
        codec, text = CODECS[prints](), _joined(text) if prints == "nginx" else text
        values = {address: codec.last(text, address) for address in addresses}
        return {address: value for address, value in values.items() if value is not None}
    found = {f"-XX:{flag['name']}": flag["value"] for flag in _FLAG.finditer(text)}
    used = [name for address, value in found.items() if value == "true" and (name := collector_of(address))]
    found |= {COLLECTOR: used[0]} if used else {}
    found |= {short: found[flag] for short, flag in _SHORT.items() if flag in found}
    return {address: found[address] for address in addresses if address in found}


def _joined(text: str) -> str:
    """What `nginx -T` prints, one file after the other, with each at the place that includes it; another text as it is."""
    _, *parts = _FILE.split(text)
    files = dict(zip(parts[::2], parts[1::2], strict=True))

    def whole(path: str, depth: int) -> str:
        def included(match: re.Match[str]) -> str:
            pattern = os.path.join(os.path.dirname(parts[0]), unquoted(match[1]))
            return "".join(whole(each, depth + 1) for each in files if PurePath(each).match(pattern))

        return _INCLUDE.sub(included, files[path]) if depth < _DEEPEST else ""

    return whole(parts[0], 0) if files else text
