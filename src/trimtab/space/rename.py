"""The same text of the constraint language under other names."""

from __future__ import annotations

import re
from collections.abc import Callable

from trimtab.space.expression import names_in, parse
from trimtab.space.lexer import WORDS

__all__ = ["quoted", "renamed"]

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*")
_WRITTEN = re.compile(r"`[^`]+`|[A-Za-z_][A-Za-z0-9_.]*")


def quoted(name: str) -> str:
    """A name as the language reads it: in backquotes where it would not be read as one name."""
    return name if _PLAIN.fullmatch(name) and name not in WORDS else f"`{name}`"


def renamed(text: str, rename: Callable[[str], str]) -> str:
    """`text` with every name (of a knob or a constant, not of a function) replaced by what `rename` makes of it.

    Raises:
        SpaceError: `text` is not in the language.
    """
    parts, at = [], 0
    for name in sorted(names_in(parse(text)), key=lambda each: each.position):
        match = _WRITTEN.match(text, name.position)
        assert match is not None  # the parser has just read it there
        parts += [text[at : match.start()], quoted(rename(name.name))]
        at = match.end()
    return "".join([*parts, text[at:]])
