"""Codec: the syntax of a configuration file, from text to text. It opens no file and knows no system.

A codec sees a file as entries, each an address with a value at a place in the text. Only values move: comments, order, line
ends and quotes stay as they are, byte by byte. After each `write` the text is read again, and a value that would not come
back as itself, or that would change any other entry, is refused: no value can bring in a line of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from trimtab.errors import TargetError

__all__ = ["Codec", "CodecError", "Entry", "Located", "SeveralError", "line_end", "line_of", "unquoted"]


class CodecError(TargetError):
    """A text does not hold what an address asks for, or cannot hold a value; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Located:
    """A value as text, its line (from 1), and why it cannot be changed ("" when it can)."""

    value: str
    line: int
    fixed: str = ""


class SeveralError(CodecError):
    """An address means several places, each of which counts: there is nothing to repair, and none of them is the one to change.

    Attributes:
        common: what all of them say; None where they differ.
    """

    common: Located | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One value in a text.

    Attributes:
        address: of it, as the codec spells it.
        value: what it says, without quotes.
        start, end: of the value in the text, quotes included.
        outer_start, outer_end: of what is removed with it: its whole line, its flag, its attribute.
    """

    address: str
    value: str
    start: int
    end: int
    outer_start: int
    outer_end: int


class Codec(ABC):
    """One syntax. Every method is a pure function of the text.

    Attributes:
        name: in catalogues.
        KNOWS_CASE: whether addresses that differ in case are different.
        CAN_ADD: whether an address that the text does not have yet can be written.
    """

    name: ClassVar[str]
    KNOWS_CASE: ClassVar[bool] = True
    CAN_ADD: ClassVar[bool] = True

    @abstractmethod
    def entries(self, text: str) -> Sequence[Entry]:
        """Every value in the text, in its order.

        Raises:
            CodecError: the text is not of this syntax.
        """

    @abstractmethod
    def _raw(self, value: str, old: str) -> str:
        """The value as it stands in the text, in the style of the `old` one ("" for a new one)."""

    @abstractmethod
    def _added(self, text: str, address: str, value: str) -> str:
        """The text with an entry that it did not have.

        Raises:
            CodecError: there is no place for it.
        """

    def _all(self, text: str) -> Sequence[Entry]:
        """`entries`; those of the last two texts are kept, for a catalogue asks for each of its addresses."""
        kept: dict[str, Sequence[Entry]] = self.__dict__.setdefault("_kept", {})
        if text not in kept:
            found = self.entries(text)
            for old in list(kept)[:-1]:
                del kept[old]
            kept[text] = found
        return kept[text]

    def key(self, address: str) -> str:
        """The address as `read` spells it."""
        return address if self.KNOWS_CASE else address.casefold()

    def read(self, text: str) -> dict[str, Located]:
        """Address -> value; of an address that comes twice, the last."""
        return {self.key(entry.address): Located(entry.value, line_of(text, entry.start)) for entry in self._all(text)}

    def find(self, text: str, address: str) -> Located | None:
        """The value at one address; None when there is none.

        Raises:
            CodecError: the address comes more than once: which of them counts differs between programs (`SeveralError`: all do).
        """
        found = self._only(text, address)
        return None if found is None else Located(found.value, line_of(text, found.start))

    def is_bare(self, text: str, address: str) -> bool:
        """Whether the text names the address, and gives it no value."""
        return False

    def last(self, text: str, address: str) -> str | None:
        """The value of the last entry of an address, for texts in which the last one counts; None when there is none."""
        found = self._matches(text, address)
        return found[-1].value if found else None

    def write(self, text: str, values: Mapping[str, str | None]) -> str:
        """The text with `values` at their addresses; None takes an entry out. What has its value already stays as it stands.

        Raises:
            CodecError: an address comes more than once, has no place, or a value cannot be written so that it is read back.
        """
        result = text
        for address, value in values.items():
            result = self._put(result, address, value)
        self._check(text, result, values)
        return result

    def for_check(self, text: str) -> str:
        """The text as it may be shown to a program that only checks it, beside the one that runs."""
        return text

    def withdraw(self, text: str, found: str, ours: Mapping[str, Sequence[str]]) -> str:
        """The text without what is still ours: each such address has the value that it had in `found`, or is gone as there.

        Beside an entry that somebody else has added since, which stays, the first one with a value of ours is ours.

        Args:
            text: as it is now; `write(found, ...)`, and perhaps changed by others since.
            found: before anything of ours was written.
            ours: address -> every value that we may have written there. Another value now is somebody else's, and stays.

        Raises:
            CodecError: as `write`.
        """
        several = [address for address in ours if len(self._matches(text, address)) > 1]
        for address in several:
            text = self._first_back(text, found, address, ours[address])
        now = {address: self.find(text, address) for address in ours if address not in several}
        mine = {address: one.value for address, one in now.items() if one is not None and one.value in ours[address]}
        if not mine:
            return text
        if self._is_written(found, mine, text):
            return found
        before = {address: self.find(found, address) for address in mine}
        return self.write(text, {address: one.value if one is not None else None for address, one in before.items()})

    def _first_back(self, text: str, found: str, address: str, ours: Sequence[str]) -> str:
        """The text with the first entry of an address that has a value of ours as in `found`."""
        entry = next((each for each in self._matches(text, address) if each.value in ours), None)
        if entry is None:
            return text
        before = self.find(found, address)
        if before is None:
            return text[: entry.outer_start] + text[entry.outer_end :]
        return text[: entry.start] + self._raw(before.value, text[entry.start : entry.end]) + text[entry.end :]

    def _is_written(self, found: str, mine: Mapping[str, str], text: str) -> bool:
        """Whether `text` is what we made of `found`, and nobody has touched it since."""
        try:
            return self.write(found, mine) == text
        except CodecError:
            return False

    def _matches(self, text: str, address: str) -> list[Entry]:
        key = self.key(address)
        return [entry for entry in self._all(text) if self.key(entry.address) == key]

    def _only(self, text: str, address: str) -> Entry | None:
        matches = self._matches(text, address)
        if len(matches) > 1:
            lines = " and ".join(str(line_of(text, entry.start)) for entry in matches[:3])
            raise CodecError(
                f"address={address!r} comes {len(matches)} times (lines {lines}): which one counts is not certain",
                hint="keep one of them",
            )
        return matches[0] if matches else None

    def _put(self, text: str, address: str, value: str | None) -> str:
        matches = self._matches(text, address)
        if matches and matches[-1].value == value:
            return text
        entry = self._only(text, address)
        if entry is None:
            return text if value is None else self._added(text, address, value)
        if value is None:
            return text[: entry.outer_start] + text[entry.outer_end :]
        return text[: entry.start] + self._raw(value, text[entry.start : entry.end]) + text[entry.end :]

    def _check(self, before: str, after: str, values: Mapping[str, str | None]) -> None:
        for address, value in values.items():
            now = self._matches(after, address)
            if (now[-1].value if now else None) != value:
                raise CodecError(
                    f"address={address!r}: value={value!r} cannot be written with codec={self.name!r}",
                    hint="it would be read back as something else",
                )
        if self._others(before, values) != self._others(after, values):
            raise CodecError(
                f"writing {', '.join(values)} with codec={self.name!r} would change other entries",
                hint="look at the syntax of the file around them",
            )

    def _others(self, text: str, values: Mapping[str, str | None]) -> list[tuple[str, str]]:
        """Every entry but those of `values`, in its order."""
        ours = {entry.start for address in values for entry in self._matches(text, address)}
        return [(entry.address, entry.value) for entry in self._all(text) if entry.start not in ours]


def line_of(text: str, position: int) -> int:
    """The line, from 1, of a place in the text."""
    return text.count("\n", 0, position) + 1


def line_end(text: str) -> str:
    """How lines of this text end: as its first one does."""
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def unquoted(raw: str) -> str:
    """A value without the quotes around it."""
    return raw[1:-1] if len(raw) > 1 and raw[0] == raw[-1] and raw[0] in "\"'" else raw
