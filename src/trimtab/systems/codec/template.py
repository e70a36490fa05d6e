"""A file that is a template filled in: everything but the values is as the template has it.

A place is `{{name}}`, and its address is the name. A file that does not fit its template is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from trimtab.errors import UsageError
from trimtab.systems.codec.base import Codec, CodecError, Entry

__all__ = ["Template"]

_PLACE = re.compile(r"\{\{\s*(?P<name>[A-Za-z_][\w.-]*)\s*\}\}")


class Template(Codec):
    """Files of one template.

    Args:
        template: its text; no two places touch, and no name comes twice.

    Raises:
        UsageError: it has no places, or such ones.
    """

    name = "template"
    CAN_ADD = False

    def __init__(self, template: str) -> None:
        places = list(_PLACE.finditer(template))
        names = [place["name"] for place in places]
        if not places:
            raise UsageError("the template has no places", hint="write {{name}} where a value goes")
        twice = sorted({name for name in names if names.count(name) > 1})
        touching = any(a.end() == b.start() for a, b in pairwise(places))
        if twice or touching:
            what = f"{twice[0]!r} comes twice" if twice else "two places touch"
            raise UsageError(
                f"the template is ambiguous: {what}", hint="put a text between two places, and use each name once"
            )
        self._template = template
        self.names = tuple(names)
        pattern, end = "", 0
        for place in places:
            pattern += f"{re.escape(template[end : place.start()])}([^\r\n]*?)"
            end = place.end()
        self._pattern = re.compile(pattern + re.escape(template[end:]))

    def filled(self, values: Mapping[str, str]) -> str:
        """The template with a value for each place."""
        return _PLACE.sub(lambda place: values[place["name"]], self._template)

    def entries(self, text: str) -> Sequence[Entry]:
        match = self._pattern.fullmatch(text)
        if match is None:
            raise CodecError(
                "the file does not fit its template",
                hint="somebody has written it by hand: remove it, or bring the template up to date",
            )
        return tuple(
            Entry(name, match[index + 1], *match.span(index + 1), *match.span(index + 1))
            for index, name in enumerate(self.names)
        )

    def _raw(self, value: str, old: str) -> str:
        return value

    def _added(self, text: str, address: str, value: str) -> str:
        raise CodecError(f"address={address!r} is not in the template", hint=f"its places are: {', '.join(self.names)}")
