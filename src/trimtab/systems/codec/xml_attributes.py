"""XML files by their attributes: `<Connector port="8080" maxThreads="200"/>`; elements and texts stay as they are.

An address is the path of an element, `@`, and an attribute: "Server/Service/Connector@maxThreads". Of several elements with one
path, one is named by an attribute of it, "Server/Service/Connector[port=8080]@maxThreads"; "[executor=]" is one without that
attribute. "[protocol=HTTP/1.1|HTTP|]" is the first of these values that such an element of the file has, of those that fit what
stands before it: a program may take several for the same. Leading elements may be left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from trimtab.systems.codec.base import Codec, CodecError, Entry, Located, SeveralError, line_of

__all__ = ["XmlAttributes"]

_NAME = r"[A-Za-z_][\w.:-]*"
_MARKUP = re.compile(
    r"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>|<!DOCTYPE(?:[^\[>]|\[.*?\])*>"
    rf"|<(?P<close>/)?(?P<name>{_NAME})(?P<attributes>(?:\"[^\"]*\"|'[^']*'|[^<>\"'])*?)(?P<empty>/)?>",
    re.DOTALL,
)
_ATTRIBUTE = re.compile(rf"\s+(?P<name>{_NAME})\s*=\s*(?P<raw>\"[^\"]*\"|'[^']*')")
_STEP = re.compile(rf"(?P<name>{_NAME})(?P<tests>(?:\[{_NAME}=[^\]]*\])*)")
_TEST = re.compile(rf"\[(?P<name>{_NAME})=(?P<value>[^\]]*)\]")
_ENTITIES = {"&quot;": '"', "&apos;": "'"}


@dataclass(frozen=True, slots=True)
class _Attribute:
    name: str
    value: str
    start: int
    end: int
    outer_start: int


@dataclass(frozen=True, slots=True)
class _Element:
    """One start tag: the elements down to it with their attributes, its own attributes, and where a new one goes."""

    path: tuple[tuple[str, Mapping[str, str]], ...]
    attributes: tuple[_Attribute, ...]
    insert_at: int


class XmlAttributes(Codec):
    """See the module."""

    name = "xml"

    def entries(self, text: str) -> Sequence[Entry]:
        return tuple(
            _entry("/".join(name for name, _ in element.path), attribute)
            for element in _elements(text)
            for attribute in element.attributes
        )

    def _matches(self, text: str, address: str) -> list[Entry]:
        elements, name = self._elements_of(text, address)
        return [
            _entry(address.rpartition("@")[0], attribute)
            for element in elements
            for attribute in element.attributes
            if attribute.name == name
        ]

    def _only(self, text: str, address: str) -> Entry | None:
        matches = self._matches(text, address)
        try:
            return super()._only(text, address)
        except CodecError as error:
            several = SeveralError(error.message, hint="each of these elements has its own")
            if len({entry.value for entry in matches}) == 1:
                several.common = Located(matches[0].value, line_of(text, matches[0].start), fixed=error.message)
            raise several from None

    def _raw(self, value: str, old: str) -> str:
        quote = old[0] if old else '"'
        text = value.replace("&", "&amp;").replace("<", "&lt;").replace(quote, "&quot;" if quote == '"' else "&apos;")
        return f"{quote}{text}{quote}"

    def _added(self, text: str, address: str, value: str) -> str:
        elements, name = self._elements_of(text, address)
        if len(elements) != 1:
            raise CodecError(
                f"element={_spelled(_wanted(text, address)[0])!r}: the file has {len(elements)} such elements",
                hint="name one by an attribute, as in Connector[port=8080]@maxThreads",
            )
        place = elements[0].insert_at
        return f"{text[:place]} {name}={self._raw(value, '')}{text[place:]}"

    def _elements_of(self, text: str, address: str) -> tuple[list[_Element], str]:
        wanted, name = _wanted(text, address)
        return [element for element in _elements(text) if _fits(element.path, wanted)], name


def _wanted(text: str, address: str) -> tuple[list[tuple[str, Mapping[str, str]]], str]:
    """The elements of an address with the attributes by which each is named in this text, and the attribute that it is of.

    Raises:
        CodecError: it is no address.
    """
    path, at, name = address.rpartition("@")
    steps = [_STEP.fullmatch(step) for step in re.split(r"/(?![^\[]*\])", path)]
    if not at or not re.fullmatch(_NAME, name) or not all(steps):
        raise CodecError(
            f"address={address!r} is not a path", hint="write it as in: Server/Service/Connector@maxThreads"
        )
    names = [(step["name"], _TEST.findall(step["tests"])) for step in steps if step is not None]
    return [(element, _chosen(text, element, tests)) for element, tests in names], name


def _chosen(text: str, name: str, tests: Sequence[tuple[str, str]]) -> Mapping[str, str]:
    """Of each test the first value that an element of that name has which passes those before it; of none, its first one."""
    known = [attributes for element, attributes in (each.path[-1] for each in _elements(text)) if element == name]
    chosen: dict[str, str] = {}
    for attribute, written in tests:
        values = written.split("|")
        had = {each.get(attribute, "") for each in known if _has(each, chosen)}
        chosen[attribute] = next((value for value in values if value in had), values[0])
    return chosen


def _spelled(wanted: Sequence[tuple[str, Mapping[str, str]]]) -> str:
    return "/".join(name + "".join(f"[{test}={value}]" for test, value in tests.items()) for name, tests in wanted)


def _fits(path: Sequence[tuple[str, Mapping[str, str]]], wanted: Sequence[tuple[str, Mapping[str, str]]]) -> bool:
    if len(wanted) > len(path):
        return False
    pairs = zip(path[len(path) - len(wanted) :], wanted, strict=True)
    return all(name == other and _has(known, tests) for (name, known), (other, tests) in pairs)


def _has(known: Mapping[str, str], tests: Mapping[str, str]) -> bool:
    return all(known.get(attribute, "") == value for attribute, value in tests.items())


def _entry(path: str, attribute: _Attribute) -> Entry:
    return Entry(
        f"{path}@{attribute.name}",
        attribute.value,
        attribute.start,
        attribute.end,
        attribute.outer_start,
        attribute.end,
    )


@lru_cache(maxsize=4)  # a catalogue asks for each of its addresses
def _elements(text: str) -> Sequence[_Element]:
    return tuple(_tags(text))


def _tags(text: str) -> Iterator[_Element]:
    from xml.sax.saxutils import unescape  # here: it brings urllib along, and most catalogues have no XML

    path: list[tuple[str, Mapping[str, str]]] = []
    for tag in _MARKUP.finditer(text):
        if tag["name"] is None:
            continue
        if tag["close"]:
            path = path[:-1]
            continue
        offset = tag.start("attributes")
        attributes = tuple(
            _Attribute(
                found["name"],
                unescape(found["raw"][1:-1], _ENTITIES),
                offset + found.start("raw"),
                offset + found.end("raw"),
                offset + found.start(),
            )
            for found in _ATTRIBUTE.finditer(tag["attributes"])
        )
        path = [*path, (tag["name"], {attribute.name: attribute.value for attribute in attributes})]
        yield _Element(tuple(path), attributes, offset + len(tag["attributes"].rstrip()))
        if tag["empty"]:
            path = path[:-1]
