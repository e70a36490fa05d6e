"""A file that is one value: /proc/sys and /sys, or a file of one's own. The one address is "value".

Of a choice as /sys shows it, "always [madvise] never", the value is the word in brackets.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from trimtab.systems.codec.base import Codec, CodecError, Entry

__all__ = ["SCALAR_ADDRESS", "Scalar", "offered_words"]

SCALAR_ADDRESS = "value"
_UNORDERED = "none"
"""All that kernels such as 5.10 and 6.1 show of the scheduler of a disk that has no choice: a RAID, NVMe with several paths."""
_CHOICE = re.compile(r"(?:[^\s\[\]]+[ \t]+)*\[(?P<chosen>[^\s\[\]]+)\](?:[ \t]+[^\s\[\]]+)*")


def offered_words(text: str) -> tuple[str, ...]:
    """The choices that a file as /sys shows it names; none when it names only its value."""
    words = text.strip()
    if words == _UNORDERED:
        return (words,)
    return tuple(words.replace("[", "").replace("]", "").split()) if _CHOICE.fullmatch(words) else ()


class Scalar(Codec):
    """See the module."""

    name = "scalar"

    def entries(self, text: str) -> Sequence[Entry]:
        words = text.strip()
        if not words:
            return ()
        start = text.index(words)
        choice = _CHOICE.fullmatch(words)
        value = choice["chosen"] if choice is not None else words
        return (Entry(SCALAR_ADDRESS, value, start, start + len(words), 0, len(text)),)

    def _raw(self, value: str, old: str) -> str:
        if "\n" in value or "\r" in value:
            raise CodecError(f"value={value!r} has more than one line", hint="such a file holds one value")
        return value

    def _added(self, text: str, address: str, value: str) -> str:
        if address != SCALAR_ADDRESS:
            raise CodecError(
                f"address={address!r} is not in a file of one value", hint=f"its only address is {SCALAR_ADDRESS!r}"
            )
        return f"{text}{self._raw(value, '')}" if text else f"{self._raw(value, '')}\n"
