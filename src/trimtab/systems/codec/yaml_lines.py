"""YAML files, line by line: plain values of nested mappings, and nothing of what else YAML can say.

An address is the keys down to a value with dots between them: "storage.wiredTiger.cacheSizeGB". Lists, texts of several
lines, and mappings in braces stay as they are and have no addresses. A key without a value (`key_cache_size:`, or `null` behind
it, as programs write that which read the file and write it anew) may be given one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from trimtab.systems.codec.base import CodecError, Entry, unquoted
from trimtab.systems.codec.lines import Line, LineCodec, lines_of

__all__ = ["YamlLines"]

_PAIR = re.compile(
    r"(?P<indent> *)(?P<key>\"[^\"]*\"|'[^']*'|[^\s#:\"'\-\[\]{}&*!|>%@`,?][^:#]*?) *(?P<colon>:)(?:[ \t]+(?P<rest>.*))?"
)
_VALUE = re.compile(
    r"(?P<raw>\"[^\"\\]*\"|'[^']*'|(?![^#]*:(?:\s|$))[^#\"'|>\[{&*!%@`\s][^#]*?(?:(?<=[^\s])#[^#]*?)*)(?P<tail>[ \t]+#.*|[ \t]*)"
)
_NULL = re.compile(r"(?:~|null|Null|NULL)(?=[ \t]*(?:[ \t]#.*)?$)")
_STEP = 2
_DOCUMENT_END = re.compile(r"\.\.\.(?:[ \t].*)?")
_MARK = re.compile("\ufeff|\xef\xbb\xbf")
"""What some editors put before the first character of a file, as one character, or as bytes that nobody has decoded: no part of
the text (YAML 1.2.2, 5.2)."""


@dataclass(frozen=True, slots=True)
class _Key:
    """One key: its path, its line, where its colon ends, and its value when that is a plain one on this line; where a `null` in
    its place ends, or the colon."""

    path: str
    indent: int
    line: Line
    colon: int
    raw: tuple[int, int] | None
    is_empty: bool
    null_end: int


class YamlLines(LineCodec):
    """See the module."""

    name = "yaml"

    def entries(self, text: str) -> Sequence[Entry]:
        found = []
        for key in _keys(text):
            if key.raw is not None:
                start, end = key.raw
                found.append(
                    Entry(key.path, unquoted(text[start:end]), start, end, key.line.start, key.line.next_start)
                )
        return tuple(found)

    def withdraw(self, text: str, found: str, ours: Mapping[str, Sequence[str]]) -> str:
        """As any; mappings that were made for what is ours, and are empty now, go too: a program may refuse them."""
        parts = [address.split(".") for address in ours]
        made = {".".join(each[:depth]) for each in parts for depth in range(1, len(each))}
        made -= {key.path for key in _keys(found)}
        result = self._bared(text, found, ours) or super().withdraw(text, found, ours)
        while (
            bare := next((key for key in _keys(result) if key.path in made and _is_bare(key, result)), None)
        ) is not None:
            result = result[: bare.line.start] + result[bare.line.next_start :]
        return result

    def _bared(self, text: str, found: str, ours: Mapping[str, Sequence[str]]) -> str:
        """What `withdraw` makes of a text in which keys have values of ours that had none; "" where there is no such key."""
        bare = [address for address in ours if self.is_bare(found, address) and len(self._matches(text, address)) < 2]
        now = {address: self._only(text, address) for address in bare}
        mine = {address: each for address, each in now.items() if each is not None and each.value in ours[address]}
        if not mine:
            return ""
        rest = super().withdraw(text, found, {address: texts for address, texts in ours.items() if address not in mine})
        for address in mine:
            key, before = (next(key for key in _keys(each) if key.path == address) for each in (rest, found))
            end = key.raw[1] if key.raw is not None else key.null_end
            rest = rest[: key.colon] + found[before.colon : before.null_end] + rest[end:]
        return rest

    def is_bare(self, text: str, address: str) -> bool:
        """See `Codec`."""
        found = [key for key in _keys(text) if key.path == address]
        return len(found) == 1 and _is_bare(found[0], text)

    def _line(self, address: str, value: str, text: str) -> str:
        return f"{address}: {value}"

    def _added(self, text: str, address: str, value: str) -> str:
        keys = list(_keys(text))
        parts = address.split(".")
        if not all(re.fullmatch(r"[A-Za-z0-9_][\w -]*", part) for part in parts):
            raise CodecError(f"address={address!r} is not a path of keys", hint="write it as in: storage.cacheSizeGB")
        if self.is_bare(text, address):
            key = next(key for key in keys if key.path == address)
            return f"{text[: key.colon]} {value}{text[key.null_end :]}"
        if any(key.path == address for key in keys):
            raise CodecError(
                f"address={address!r} has no plain value on one line", hint="lists, mappings and long texts are not set"
            )
        parent: _Key | None = None
        while len(parts) > 1 or parent is None:
            above = ".".join(address.split(".")[: len(address.split(".")) - len(parts) + 1])
            found = [key for key in keys if key.path == above]
            if not found or len(parts) == 1:
                break
            if (
                len(found) > 1
                or not found[0].is_empty
                or found[0].null_end > found[0].colon
                or _is_list(found[0], text)
            ):
                raise CodecError(
                    f"address={address!r}: {above!r} is not one mapping",
                    hint="write it as one mapping, with each key on a separate line",
                )
            parent, parts = found[0], parts[1:]
        return self._below(text, keys, parent, parts, value)

    def _below(self, text: str, keys: Sequence[_Key], parent: _Key | None, parts: list[str], value: str) -> str:
        inside = [key for key in keys if parent is None or key.path.startswith(f"{parent.path}.")]
        indent = min((key.indent for key in inside), default=parent.indent + _STEP if parent is not None else 0)
        position = _end(text) if parent is None else parent.line.next_start
        for depth, part in enumerate(parts):
            is_last = depth == len(parts) - 1
            line = f"{' ' * (indent + depth * _STEP)}{part}:" + (f" {value}" if is_last else "")
            before = len(text)
            text = self._inserted(text, position, line)
            position += len(text) - before
        return text


def _lines(text: str) -> Iterator[Line]:
    """Every line, the first one without the mark of the byte order."""
    mark = _MARK.match(text)
    for line in lines_of(text):
        start = mark.end() if mark is not None and line.start == 0 else line.start
        yield Line(line.words[start - line.start :], start, line.next_start)


def _end(text: str) -> int:
    """Where the document ends: at the line that says so, which is hardly ever there, or with the text."""
    return next((line.start for line in _lines(text) if _DOCUMENT_END.fullmatch(line.words)), len(text))


def _is_bare(key: _Key, text: str) -> bool:
    """Whether it has no value, and nothing below it but comments."""
    following = _following(key, text)
    return key.is_empty and not len(following) - len(following.lstrip(" ")) > key.indent and not _is_list(key, text)


def _is_list(key: _Key, text: str) -> bool:
    """Whether its value is a list: items may begin below its own first letter."""
    following = _following(key, text)
    is_inside = len(following) - len(following.lstrip(" ")) >= key.indent
    return key.is_empty and is_inside and re.match(r" *-(\s|$)", following) is not None


def _following(key: _Key, text: str) -> str:
    """The next line that is no comment; "" for none."""
    below = (line.words for line in _lines(text) if line.start > key.line.start)
    return next((words for words in below if words.strip() and not words.lstrip().startswith("#")), "")


def _keys(text: str) -> Iterator[_Key]:
    """Every key of a mapping that is no list's, with its path."""
    above: list[tuple[int, str]] = []
    closed: int | None = None  # lines deeper than this belong to something that has no addresses
    lines = [line for line in _lines(text) if line.words.strip() and not line.words.lstrip().startswith("#")]
    for index, line in enumerate(lines):
        indent = len(line.words) - len(line.words.lstrip(" "))
        if closed is not None and indent > closed:
            continue
        closed = None
        if re.match(r" *-(\s|$)", line.words) and not line.words.startswith("---"):
            closed = indent
            continue
        match = _PAIR.fullmatch(line.words)
        if match is None:
            closed = indent if not line.words.startswith(("---", "...", "%")) else None
            continue
        above = [each for each in above if each[0] < indent]
        above.append((indent, unquoted(match["key"])))
        rest = match["rest"] or ""
        null = _NULL.match(rest)
        is_empty = not rest.strip() or rest.lstrip().startswith("#") or null is not None
        following = lines[index + 1] if index + 1 < len(lines) else None
        is_longer = following is not None and len(following.words) - len(following.words.lstrip(" ")) > indent
        value = None if is_empty or is_longer else _VALUE.fullmatch(rest.rstrip(" \t"))
        if not is_empty and value is None:
            closed = indent
        start = line.start + match.start("rest") if rest else 0
        raw = (start + value.start("raw"), start + value.end("raw")) if value is not None else None
        colon = line.start + match.end("colon")
        null_end = colon if null is None else start + null.end()
        yield _Key(".".join(name for _, name in above), indent, line, colon, raw, is_empty, null_end)
