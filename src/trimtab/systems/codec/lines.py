"""What codecs of line-by-line files share, and two of them: `key = value`, and the same in [sections] (ini)."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trimtab.systems.codec.base import Codec, CodecError, Entry, line_end, unquoted

__all__ = ["Ini", "KeyValue", "Line", "LineCodec", "lines_of", "quoted_like"]

_LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|$)")
_ASSIGNMENT = re.compile(
    r"[ \t]*(?P<key>[^\s=#;!\[\]][^=#;]*?)[ \t]*=[ \t]*"
    r"(?P<raw>\"[^\"]*\"(?=[ \t]*(?:[#;]|$))|'[^']*'(?=[ \t]*(?:[#;]|$))|.*?)(?P<tail>[ \t]+[#;].*|[ \t]*)"
)
_SECTION = re.compile(r"[ \t]*\[(?P<name>[^\]\r\n]+)\][ \t]*(?:[#;].*)?")


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its words without the line end, where it begins, and where the next one does."""

    words: str
    start: int
    next_start: int


def lines_of(text: str) -> Iterator[Line]:
    """Every line of the text; the last one may have no line end."""
    position = 0
    while position < len(text):
        match = _LINE.match(text, position)
        if match is None:
            return
        yield Line(match[1], position, match.end())
        position = match.end()


def quoted_like(value: str, old: str) -> str:
    """A value in the quotes of the old one, or bare as it."""
    quote = old[0] if len(old) > 1 and old[0] == old[-1] and old[0] in "\"'" else ""
    return f"{quote}{value}{quote}"


class LineCodec(Codec):
    """A file in which each entry is a line; new ones go to the end of their part of it."""

    @abstractmethod
    def _line(self, address: str, value: str, text: str) -> str:
        """A new line, without its end, in the style of `text`."""

    def _raw(self, value: str, old: str) -> str:
        return quoted_like(value, old)

    def _added(self, text: str, address: str, value: str) -> str:
        return self._inserted(text, len(text), self._line(address, value, text))

    def _inserted(self, text: str, position: int, line: str) -> str:
        """With a line more at a place where a line begins."""
        end = line_end(text)
        gap = end if position > 0 and text[position - 1] not in "\r\n" else ""
        return f"{text[:position]}{gap}{line}{end}{text[position:]}"


class KeyValue(LineCodec):
    """`key = value` lines: sysctl.conf, .properties, postgresql.conf. Addresses are keys."""

    name = "keyvalue"

    def entries(self, text: str) -> Sequence[Entry]:
        return tuple(_assignments(text))

    def _line(self, address: str, value: str, text: str) -> str:
        if not re.fullmatch(r"[^\s=#;!\[\]][^=#;\r\n]*", address):
            raise CodecError(f"address={address!r} is not a key", hint="a key has no =, # and ;")
        spaced = next((entry for entry in self.entries(text)), None)
        is_tight = spaced is not None and text[spaced.start - 1 : spaced.start] == "="
        return f"{address}={value}" if is_tight else f"{address} = {value}"


class Ini(KeyValue):
    """`key = value` lines in [sections]. Addresses are section.key; keys before the first section are bare."""

    name = "ini"

    def entries(self, text: str) -> Sequence[Entry]:
        found, section = [], ""
        for line in lines_of(text):
            head = _SECTION.fullmatch(line.words)
            if head is not None:
                section = f"{head['name'].strip()}."
            elif (entry := _assignment(line, section)) is not None:
                found.append(entry)
        return tuple(found)

    def _added(self, text: str, address: str, value: str) -> str:
        heads = [(line, head["name"].strip()) for line in lines_of(text) if (head := _SECTION.fullmatch(line.words))]
        inside = max((name for _, name in heads if address.startswith(f"{name}.")), key=len, default=None)
        if inside is not None:
            index = max(index for index, (_, name) in enumerate(heads) if name == inside)
            start = heads[index][0].start
            end = heads[index + 1][0].start if index + 1 < len(heads) else len(text)
            part = [line for line in lines_of(text[:end]) if line.start >= start]
            last = max(line.next_start for line in part if line.words.strip())
            return self._inserted(text, last, self._line(address.removeprefix(f"{inside}."), value, text))
        section, _, key = address.rpartition(".")
        if not section:
            first = heads[0][0].start if heads else len(text)
            return self._inserted(text, first, self._line(key, value, text))
        if not re.fullmatch(r"[^\]\r\n]+", section):
            raise CodecError(f"address={address!r} names no section", hint="write it as section.key")
        with_head = self._inserted(text, len(text), f"[{section}]")
        return self._inserted(with_head, len(with_head), self._line(key, value, text))


def _assignments(text: str) -> Iterator[Entry]:
    for line in lines_of(text):
        entry = _assignment(line, "")
        if entry is not None:
            yield entry


def _assignment(line: Line, prefix: str) -> Entry | None:
    match = _ASSIGNMENT.fullmatch(line.words)
    if match is None:
        return None
    start, end = (line.start + place for place in match.span("raw"))
    return Entry(prefix + match["key"], unquoted(match["raw"]), start, end, line.start, line.next_start)
