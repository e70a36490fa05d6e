"""Placeholders: {NAME} in the texts of a catalogue."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["filled", "places"]

_NAME = re.compile(r"(?<!\$)\{([A-Za-z_][\w.]*)\}")


def filled(text: str, names: Mapping[str, str]) -> str:
    """The text with each {NAME} that is known replaced; others, and ${NAME}, stay."""
    return _NAME.sub(lambda found: names.get(found[1], found[0]), text)


def places(text: str) -> list[str]:
    """The NAMEs in a text, in their order."""
    return _NAME.findall(text)
