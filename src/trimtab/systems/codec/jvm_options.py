"""Files of JVM options: `-Xmx512m`, `-XX:MaxGCPauseMillis=200`, `-XX:+UseG1GC`, `-Dname=value`; one or several a line.

From a # on that begins a word, a line is a comment, as it is to Java itself.

An address is an option as it is written, without its value: "-Xmx", "-XX:MaxGCPauseMillis", "-XX:UseG1GC" (true or
false for + and -), "-Dname". "-XX:Use*GC" is the collector that is switched on: "G1" of `-XX:+UseG1GC`. Quotes around a value or
a part of it are none of it: `-Dname="5"` is 5.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from trimtab.systems.codec.base import Codec, CodecError, Entry, line_end, unquoted
from trimtab.systems.codec.lines import lines_of

__all__ = ["COLLECTOR", "JvmOptions", "collector_of"]

_WORD = re.compile(r"""(?:[^\s"']|"[^"]*"|'[^']*')+""")
_OUTWARD = re.compile(
    r"-(Xlog\b|Xloggc:|Xrun|javaagent:|agentlib:|agentpath:|Dcom\.sun\.management\.|XX:StartFlightRecording|"
    r"XX:FlightRecorderOptions|XX:ArchiveClassesAtExit|XX:\+AutoCreateSharedArchive|XX:LogFile|XX:\+Log(VMOutput|Compilation))"
)
"""Options that open files and ports. A second Java with them moves the log of the first one away, or finds its port in use."""

COLLECTOR = "-XX:Use*GC"
_COLLECTOR = re.compile(r"-XX:Use(Serial|Parallel|G1|Z|Shenandoah|Epsilon|ConcMarkSweep)GC")  # the last until Java 13

_BEGIN = re.compile(r"(?<![^\s\"'])-")


def _option_with(value: str) -> re.Pattern[str]:
    return re.compile(
        rf"-XX:(?P<sign>[+-])(?P<switch>\w+)(?![^\s\"'])|(?P<name>-XX:\w+|-D[\w.]+)=(?P<value>{value})(?![^\s\"'])"
        r"|(?P<size>-X(?:mx|ms|mn|ss))(?P<amount>[0-9]+[kKmMgGtT]?)(?![^\s\"'])"
    )


_OPTION = _option_with(r"""(?:[^\s\"']|"[^"]*"|'[^']*')*""")
_IN_QUOTES = _option_with(r"[^\s\"']*")
"""The same in a text that is in quotes as a whole, as `JAVA_OPTS="-Xmx1g -Dx=5"`: a quote ends that text."""
_SIZES = ("-Xmx", "-Xms", "-Xmn", "-Xss")
_SIGNS = {"true": "+", "false": "-"}


def collector_of(address: str) -> str:
    """The collector that a switch is for: "G1" of "-XX:UseG1GC"; "" when it is for none."""
    found = _COLLECTOR.fullmatch(address)
    return found[1] if found is not None else ""


class JvmOptions(Codec):
    """See the module."""

    name = "jvm"

    def entries(self, text: str) -> Sequence[Entry]:
        found = []
        for line in lines_of(text):
            for option in _options(_without_comment(line.words)):
                is_alone = line.words.strip() == option[0]
                outer = (
                    (line.start, line.next_start)
                    if is_alone
                    else _with_gap(line.words, option.start(), option.end(), line.start)
                )
                address, value, span = _parts(option)
                found.append(Entry(address, value, line.start + span[0], line.start + span[1], *outer))
        return tuple(found)

    def for_check(self, text: str) -> str:
        """Without logs, agents, ports and recordings: those are the running program's."""
        parts = []
        for line in lines_of(text):
            words = _without_comment(line.words)
            parts.append(_WORD.sub(lambda word: "" if _OUTWARD.match(word[0].lstrip("\"'")) else word[0], words))
            parts.append(text[line.start + len(words) : line.next_start])
        return "".join(parts)

    def _matches(self, text: str, address: str) -> list[Entry]:
        if address != COLLECTOR:
            return super()._matches(text, address)
        return [
            replace(entry, address=COLLECTOR, value=name, end=entry.start + len(f"+Use{name}GC"))
            for entry in self._all(text)
            if entry.value == "true" and (name := collector_of(entry.address))
        ]

    def _raw(self, value: str, old: str) -> str:
        if _COLLECTOR.fullmatch(f"-XX:{old[1:]}"):
            return f"+Use{value}GC"
        if old in ("+", "-"):
            if value not in _SIGNS:
                raise CodecError(
                    f"value={value!r} of a switch of the JVM is neither true nor false", hint="use true or false"
                )
            return _SIGNS[value]
        quote = old[:1] if unquoted(old) != old else ""
        return f"{quote}{value}{quote}"

    def _added(self, text: str, address: str, value: str) -> str:
        end = line_end(text)
        gap = end if text and text[-1] not in "\r\n" else ""
        return f"{text}{gap}{_option(address, value)}{end}"


def _without_comment(words: str) -> str:
    """A line up to the comment at its end."""
    for place, quote in enumerate(_quotes(words)):
        if words[place] == "#" and not quote and words[:place][-1:] in ("", " ", "\t"):
            return words[:place]
    return words


def _quotes(words: str) -> list[str]:
    """For each letter, the quote that is open before it; "" for none."""
    found, quote = [], ""
    for letter in words:
        found.append(quote)
        if quote or letter in "\"'":
            quote = "" if letter == quote else quote or letter
    return found


def _options(words: str) -> Iterator[re.Match[str]]:
    quotes, end = _quotes(words), 0
    for begin in _BEGIN.finditer(words):
        syntax = _IN_QUOTES if quotes[begin.start()] else _OPTION
        option = syntax.match(words, begin.start()) if begin.start() >= end else None
        if option is not None:
            end = option.end()
            yield option


def _parts(option: re.Match[str]) -> tuple[str, str, tuple[int, int]]:
    if option["sign"]:
        return f"-XX:{option['switch']}", "true" if option["sign"] == "+" else "false", option.span("sign")
    if option["size"]:
        return option["size"], option["amount"], option.span("amount")
    return option["name"], re.sub("[\"']", "", option["value"]), option.span("value")


def _option(address: str, value: str) -> str:
    if address == COLLECTOR:
        return f"-XX:+Use{value}GC"
    if address in _SIZES:
        return f"{address}{value}"
    if not re.fullmatch(r"-XX:\w+|-D[\w.]+", address):
        raise CodecError(
            f"address={address!r} is not an option that can be set",
            hint="use -Xmx, -Xms, -Xmn, -Xss, -XX:NAME or -DNAME",
        )
    if address.startswith("-XX:") and value in _SIGNS:
        return f"-XX:{_SIGNS[value]}{address.removeprefix('-XX:')}"
    return f"{address}={value}"


def _with_gap(words: str, start: int, end: int, offset: int) -> tuple[int, int]:
    """The option with the spaces before it, or after it where it is the first."""
    gap = len(words[:start]) - len(words[:start].rstrip(" \t"))
    if gap:
        return offset + start - gap, offset + end
    after = len(words[end:]) - len(words[end:].lstrip(" \t"))
    return offset + start, offset + end + after
