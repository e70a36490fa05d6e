"""Figure: what one run of a command says of itself: its wall time, a number in a line, or a number in JSON."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, Literal

from trimtab.errors import UsageError

__all__ = ["Figure", "FigureError", "FigureKind"]

FigureKind = Literal["wall", "rate", "time"]
_SHOWN = 120

_DECIMAL_COMMA = re.compile(r"[-+]?(?:0+,.*|[^,]*\..*,.*|\d{4,},[^,]*|\d*,(?!\d{3}(?!\d))[^,]*)", re.DOTALL)
"""Numbers in which no comma can divide thousands: "0,123", "1.234,5", "1234,5", "12,5"."""


class FigureError(ValueError):
    """A run of the command printed no figure; the text says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Where the figure is, and what it means.

    Attributes:
        kind: "wall" (how long the run took), "rate" (operations per second: more is better) or "time" (less is better).
        line: regular expression with one group that holds the number, whose thousands commas may divide; "" for none. Of several
            matches the last counts.
        path: keys and indexes into the JSON that the command prints, with dots between; "" for none.
        unit_s: of a time, in seconds.
    """

    kind: FigureKind = "wall"
    line: str = ""
    path: str = ""
    unit_s: float = 1.0

    def __post_init__(self) -> None:
        """Checks that it can be read at all.

        Raises:
            UsageError: neither or both of line and path, or a wrong expression.
        """
        if (self.kind == "wall") == bool(self.line or self.path) or (self.line and self.path):
            raise UsageError(
                f"[workload] figure={self.kind!r} with line={self.line!r} and json={self.path!r} does not fit together",
                hint='"rate" and "time" need line or json, one of them; "wall" needs neither',
            )
        try:
            n_groups = re.compile(self.line).groups
        except re.error as error:
            raise UsageError(f"[workload] line={self.line!r} is not a regular expression: {error}") from error
        if self.line and n_groups != 1:
            raise UsageError(
                f"[workload] line={self.line!r} has {n_groups} groups",
                hint="put the number, and nothing else, into one (...)",
            )

    def read(self, output: str) -> float:
        """The rate in 1/s, or the time in seconds, that `output` holds; above 0.

        Raises:
            FigureError: it holds none.
        """
        text = self._in_line(output) if self.line else self._in_json(output)
        try:
            number = float(text)
        except (TypeError, ValueError, OverflowError):
            raise FigureError(f"the figure is {_shown(text)}, which is not a number") from None
        if not math.isfinite(number) or number <= 0:
            raise FigureError(f"the figure is {number:g}: it must be above 0")
        return number * (self.unit_s if self.kind == "time" else 1.0)

    def _in_line(self, output: str) -> str:
        found = re.findall(self.line, output, re.MULTILINE)
        if not found:
            raise FigureError(f"no line of its output matches line={self.line!r}; the output is {_shown(output)}")
        text = str(found[-1]).strip().rstrip(",")
        if "," in text and _DECIMAL_COMMA.fullmatch(text):
            raise FigureError(
                f'the figure is {_shown(text)}, with a decimal comma; let the command print a point: env = {{ LC_ALL = "C" }}'
            )
        return text.replace(",", "")

    def _in_json(self, output: str) -> Any:
        value = _parsed(output)
        for step in self.path.split("."):
            try:
                value = value[int(step)] if isinstance(value, list) else value[step]
            except (KeyError, IndexError, ValueError, TypeError):
                raise FigureError(f"the JSON that it printed has no json={self.path!r}: nothing at {step!r}") from None
        if isinstance(value, bool):
            raise FigureError(f"the figure is {value}, which is not a number")
        return value


def _parsed(output: str) -> Any:
    """The whole output as JSON, or the last line that is."""
    for text in (output, *reversed(output.splitlines())):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict | list):
            return value
    raise FigureError(f"its output is not JSON: {_shown(output)}")


def _shown(text: object) -> str:
    words = str(text).strip()
    return repr(words if len(words) <= _SHOWN else f"{words[:_SHOWN]}...")
