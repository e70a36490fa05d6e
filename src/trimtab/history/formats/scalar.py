"""Values of knobs as text, exactly both ways: 4096, 0.5, true, lz4, "off; fast".

A text stands bare when it cannot be taken for anything else; otherwise in quotes, with JSON's escapes, ASCII only. So no
cell begins with a sign that a spreadsheet would run as a formula.
"""

from __future__ import annotations

import json
import math
import re

from trimtab.space import Value

__all__ = ["cell_of", "text_of", "value_of"]

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/@%+-]*")
_PHRASE = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/@%+-]*( [A-Za-z0-9_.:/@%+-]+)*")
_INT = re.compile(r"[+-]?[0-9]{1,30}")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,5})?")
_WORDS: dict[str, Value] = {"true": True, "false": False, "nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_LONGEST = 400
"""Digits that a number may have: a float that is written out in full has fewer."""


def text_of(value: Value) -> str:
    """`value` as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return repr(float(value))
    return value if _BARE.fullmatch(value) and value.lower() not in _WORDS else json.dumps(value)


def cell_of(value: Value) -> str:
    """`value` where blanks do not part it from others: texts of several words may stand bare as well."""
    if isinstance(value, str) and _PHRASE.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return text_of(value)


def value_of(text: str) -> Value:
    """What `text_of` was given. Other programs' texts are taken too: what is not a number is a text, but for words that they
    write otherwise: TRUE, True, NaN, Inf.

    Raises:
        ValueError: a number too large, or quotes that are not closed.
    """
    text = text.strip()
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if text.startswith('"'):
        found = json.loads(text)
        if not isinstance(found, str):
            raise ValueError(f"{text[:40]!r} is not a quoted text")
        return found
    if _INT.fullmatch(text):
        return int(text)
    if len(text) <= _LONGEST and _FLOAT.fullmatch(text):
        number = float(text)
        if not math.isfinite(number):
            raise ValueError(f"the number {text[:40]} is too large")
        return number
    return text
