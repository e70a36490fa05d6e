"""`Name value` files: httpd.conf and redis.conf line by line, and nginx.conf with its semicolons and braces.

An address is a name; inside a block it is the block's words, a dot and the name: "events.worker_connections",
"IfModule mpm_event_module.MaxRequestWorkers". A value is everything up to the line's end (or the semicolon). In
`Name value` files an address of two words is a name with its first argument, "AcceptFilter http", and the value is the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from trimtab.systems.codec.base import Codec, CodecError, Entry, line_end, unquoted
from trimtab.systems.codec.lines import LineCodec, lines_of, quoted_like

__all__ = ["Directives", "Nginx", "RedisConf"]

_DIRECTIVE = re.compile(r"[ \t]*(?P<name>[^\s#<>;{}\"']+)[ \t]+(?P<raw>\S(?:.*\S)?)[ \t]*")
_OPENS = re.compile(r"[ \t]*<(?P<words>[^/!>\s].*)>[^>]*")
_CLOSES = re.compile(r"[ \t]*</[^>]*>.*")
_NAME = re.compile(r"[^\s#<>;{}\"'.]+")


class Directives(LineCodec):
    """One directive a line; `<Block words>` to `</Block>`; a backslash at its end carries a line on. No trailing comments."""

    name = "directives"
    KNOWS_CASE: ClassVar[bool] = False

    def entries(self, text: str) -> Sequence[Entry]:
        found, blocks = [], [""]
        for words, start, next_start in self._lines(text):
            if words.lstrip().startswith("#"):
                continue
            opened = _OPENS.fullmatch(words)
            if opened is not None:
                blocks.append(f"{blocks[-1]}{' '.join(opened['words'].split())}.")
            elif _CLOSES.fullmatch(words) is not None:
                blocks = blocks[:-1] or [""]
            elif (match := _DIRECTIVE.fullmatch(words)) is not None:
                first, last = (start + place for place in match.span("raw"))
                found.append(Entry(blocks[-1] + match["name"], unquoted(match["raw"]), first, last, start, next_start))
        return tuple(found)

    def _lines(self, text: str) -> Iterator[tuple[str, int, int]]:
        """Each directive or comment: its words, where it starts, and where the next one does."""
        return _carried(text)

    def _matches(self, text: str, address: str) -> list[Entry]:
        block, dot, words = address.rpartition(".")
        name, space, first = words.partition(" ")
        if not space:
            return super()._matches(text, address)
        found = []
        for entry in super()._matches(text, f"{block}{dot}{name}"):
            head = re.match(rf"{re.escape(first)}[ \t]+(?=\S)", text[entry.start : entry.end], re.IGNORECASE)
            if head is not None:
                start = entry.start + head.end()
                found.append(replace(entry, address=address, value=unquoted(text[start : entry.end]), start=start))
        return found

    def _others(self, text: str, values: Mapping[str, str | None]) -> list[tuple[str, str]]:
        ours = {entry.outer_start for address in values for entry in self._matches(text, address)}
        return [(entry.address, entry.value) for entry in self._all(text) if entry.outer_start not in ours]

    def _line(self, address: str, value: str, text: str) -> str:
        return f"{address} {_written(value)}"

    def _raw(self, value: str, old: str) -> str:
        return quoted_like(value, old) if value else '""'

    def _added(self, text: str, address: str, value: str) -> str:
        if not all(_NAME.fullmatch(word) for word in address.split(" ", 1)):
            raise CodecError(
                f"address={address!r} is not in the file, and cannot be added",
                hint="a directive inside a block can be changed where it is, not added",
            )
        return super()._added(text, address, value)


class RedisConf(Directives):
    """The same where a backslash at the end of a line, as in a comment that ends in a path of Windows, carries nothing on."""

    name = "redis"

    def _lines(self, text: str) -> Iterator[tuple[str, int, int]]:
        return ((line.words, line.start, line.next_start) for line in lines_of(text))


def _written(value: str) -> str:
    return value or '""'


def _carried(text: str) -> Iterator[tuple[str, int, int]]:
    """Lines with those that a backslash carries on to: words (the line ends inside as two spaces), start, start of the next."""
    words, start = "", None
    for line in lines_of(text):
        start = line.start if start is None else start
        if line.words.endswith("\\"):
            words += line.words[:-1] + " " * (line.next_start - line.start - len(line.words) + 1)
            continue
        yield words + line.words, start, line.next_start
        words, start = "", None
    if start is not None:
        yield words, start, len(text)


_TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<comment>#[^\n]*)|(?P<mark>[;{}])"
    r"|(?P<word>\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|(?:\$\{|\\.|[^\s;{}#\"'])(?:\\.|\$\{|[^\s;{])*)",
    re.DOTALL,
)
"""As nginx reads it: within a word neither } nor # is a mark, and ${name} may begin one."""


class Nginx(Codec):
    """Directives that end with a semicolon, in blocks of braces, wherever lines break."""

    name = "nginx"

    def entries(self, text: str) -> Sequence[Entry]:
        found: list[Entry] = []
        for kind, prefix, words in _statements(text):
            if kind == ";" and len(words) > 1:
                start, end = words[1].start(), words[-1].end()
                outer_start, outer_end = _whole(text, words[0].start(), text.index(";", end) + 1)
                found.append(Entry(prefix + words[0][0], unquoted(text[start:end]), start, end, outer_start, outer_end))
        return tuple(found)

    def _raw(self, value: str, old: str) -> str:
        return quoted_like(value, old) if value else '""'

    def _added(self, text: str, address: str, value: str) -> str:
        block, _, name = address.rpartition(".")
        if not _NAME.fullmatch(name):
            raise CodecError(
                f"address={address!r} is not a directive", hint="write it as in: events.worker_connections"
            )
        end = line_end(text)
        if not block:
            return f"{text}{end if text and not text.endswith(chr(10)) else ''}{name} {_written(value)};{end}"
        opened = [words[-1].end() for kind, prefix, words in _statements(text) if kind == "{" and prefix == f"{block}."]
        if len(opened) != 1:
            raise CodecError(
                f"address={address!r}: the file has {len(opened)} blocks {block!r}", hint="it must have exactly one"
            )
        position = text.index("{", opened[0]) + 1
        line = text.rfind("\n", 0, opened[0]) + 1
        indent = re.match(r"[ \t]*", text[line:])
        return f"{text[:position]}{end}{indent[0] if indent else ''}    {name} {_written(value)};{text[position:]}"


def _statements(text: str) -> Iterator[tuple[str, str, list[re.Match[str]]]]:
    """Each statement: "{" with the prefix of addresses in its block, or ";" with the prefix that it is under; its words."""
    prefixes, words, position = [""], [], 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise CodecError(f"line {text.count(chr(10), 0, position) + 1}: a quote is not closed", hint="close it")
        position = match.end()
        if match.lastgroup == "word":
            words.append(match)
        elif match["mark"] == ";":
            if words:
                yield ";", prefixes[-1], words
            words = []
        elif match["mark"] == "{":
            prefixes.append(f"{prefixes[-1]}{' '.join(word[0] for word in words)}.")
            if words:
                yield "{", prefixes[-1], words
            words = []
        elif match["mark"] == "}":
            prefixes = prefixes[:-1] or [""]
            words = []


def _whole(text: str, start: int, end: int) -> tuple[int, int]:
    """The statement with its line, when it is alone on it."""
    line_start = text.rfind("\n", 0, start) + 1
    stop = re.compile(r"[ \t]*(\r?\n|$)").match(text, end)
    if text[line_start:start].strip(" \t") == "" and stop is not None:
        return line_start, stop.end()
    return start, end
