"""Tokens of the constraint language."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from trimtab.errors import SpaceError

__all__ = ["Token", "TokenKind", "syntax_error", "tokenize"]

MAX_LENGTH = 10_000
"""Longest text in characters; a constraint is written by people or built from some dozens of knobs."""


class TokenKind(Enum):
    """What a token is; `text` of a NAME in backquotes and of a TEXT comes without its quotes."""

    NUMBER = "number"
    TEXT = "text"
    NAME = "name"
    WORD = "word"
    OPERATOR = "operator"
    END = "end of text"


@dataclass(frozen=True, slots=True)
class Token:
    """One token and where it starts (0-based)."""

    kind: TokenKind
    text: str
    position: int

    def __str__(self) -> str:
        return "the end" if self.kind is TokenKind.END else repr(self.text)


WORDS = frozenset({"and", "or", "not", "if", "else", "true", "false", "True", "False"})

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,3})?[A-Za-z]*)
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*)
      | `(?P<quoted>[^`\s]+(?:[ ][^`\s]+)*)`
      | '(?P<single>[^'\n]*)' | "(?P<double>[^"\n]*)"
      | (?P<operator>//|<=|>=|==|!=|[-+*/%<>(),])
    )""",
    re.VERBOSE,
)


def syntax_error(text: str, position: int, what: str) -> SpaceError:
    """The error that names the place in `text` (counted from 1) and what is wrong or was expected there."""
    shown = text if len(text) <= 200 else f"{text[:200]}..."
    return SpaceError(f"constraint={shown!r}: {what} at character {position + 1}", hint=_hint(text, position))


def _hint(text: str, position: int) -> str:
    excerpt = text[max(0, position - 20) : position + 20].strip()
    return f"look near {excerpt!r}; the language has + - * / // %, comparisons, and or not, min max abs, a if b else c"


def tokenize(text: str) -> list[Token]:
    """The tokens of `text`, the last one being END.

    Raises:
        SpaceError: something in the text is no token, or the text is too long.
    """
    if len(text) > MAX_LENGTH:
        raise SpaceError(
            f"constraint of length={len(text)} is longer than {MAX_LENGTH}", hint="split it into several constraints"
        )
    tokens, position, end = [], 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            start = position + len(text[position:]) - len(text[position:].lstrip())
            raise syntax_error(text, start, f"unexpected {text[start]!r}")
        tokens.append(_token(match))
        position = match.end()
    return [*tokens, Token(TokenKind.END, "", len(text))]


def _token(match: re.Match[str]) -> Token:
    group = match.lastgroup or ""
    text, start = match[group], match.start(group)
    if group == "number":
        return Token(TokenKind.NUMBER, text, start)
    if group in ("single", "double"):
        return Token(TokenKind.TEXT, text, start - 1)
    if group == "quoted":
        return Token(TokenKind.NAME, text, start - 1)
    if group == "operator":
        return Token(TokenKind.OPERATOR, text, start)
    return Token(TokenKind.WORD if text in WORDS else TokenKind.NAME, text, start)
