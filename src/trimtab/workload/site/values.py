"""Values that requests are made of: drawn from ranges and lists, made of others, or found in pages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from trimtab.errors import UsageError
from trimtab.workload.table import Table

__all__ = ["VALUE_KEYS", "Bound", "Value", "parse_value", "pieces", "plain_values"]

VALUE_KEYS = (
    "number",
    "one_of",
    "letters",
    "text",
    "spell",
    "digits",
    "width",
    "skew",
    "plus",
    "chance",
    "each",
    "find",
    "none",
)
_KINDS = ("number", "one_of", "letters", "text", "spell")
_NEEDED = {
    "width": ("number", "spell"),
    "skew": ("number",),
    "plus": ("number",),
    "digits": ("spell",),
    "none": ("find",),
}
"""Key -> keys of which one must stand beside it: without them it would have no effect."""
_MOST_LETTERS = 100_000
_MOST_NUMBER = 10**18
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_PART = re.compile(r"\{([^{}]*)\}")
_BOUND = re.compile(r"([a-z][a-z0-9_]*)(?: *([*/+-]) *(\d+))?")

Bound = int | str
"""A number, or a text: the name of a number or of a value, perhaps with `* 2`, `/ 10`, `+ 1` or `- 1` behind a number's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """How a value is made; at most one of the first five, none: only pages give it.

    Attributes:
        number: lowest and highest of a whole number.
        one_of: texts with weights.
        letters: least and most letters of a random text.
        text: with `{value}` in it.
        spell: a value whose digits are written as `digits`.
        width: filled up with zeros to so many digits.
        skew: the A of TPC-W's NURand; 0: all numbers alike.
        plus: the number is added to this value.
        chance: how often it is there at all.
        is_of_session: kept for a session; else new for each interaction.
        finds: texts behind which pages have it, and the character at which it ends ("" for the end of the word).
        none: found so, it is not there.
    """

    name: str
    number: tuple[Bound, Bound] | None = None
    one_of: tuple[tuple[str, float], ...] = ()
    letters: tuple[Bound, Bound] | None = None
    text: str | None = None
    spell: str = ""
    digits: tuple[str, ...] = ()
    width: int = 0
    skew: Bound = 0
    plus: str = ""
    chance: float = 1.0
    is_of_session: bool = False
    finds: tuple[tuple[str, str], ...] = ()
    none: str | None = None


def parse_value(name: str, entry: object) -> Value:
    """An entry of [values].

    Raises:
        UsageError: a wrong key or value.
    """
    where = f"[values.{name}]"
    if not _NAME.fullmatch(name):
        raise UsageError(f"{where} is not a name", hint="use lower-case letters, digits and _")
    if not isinstance(entry, Mapping):
        raise UsageError(f"{where} {entry!r} is not a table", hint=f"for example: {name} = {{ number = [1, 1000] }}")
    table = Table(entry, where, VALUE_KEYS)
    kinds = [kind for kind in _KINDS if kind in table]
    if len(kinds) > 1:
        raise UsageError(f"{where} has {' and '.join(kinds)}", hint="use one of them")
    if not kinds and "find" not in table:
        raise UsageError(
            f"{where} says nothing about where it comes from", hint=f"add find or one of: {', '.join(_KINDS)}"
        )
    _refuse_idle_keys(table)
    return Value(
        name=name,
        number=_range(table, "number") if "number" in table else None,
        one_of=_one_of(table) if "one_of" in table else (),
        letters=_range(table, "letters") if "letters" in table else None,
        text=table.text("text") if "text" in table else None,
        spell=table.text("spell") if "spell" in table else "",
        digits=_digits(table) if "spell" in table else (),
        width=table.integer("width", 0, 0, 18),
        skew=_bound(table, "skew", entry.get("skew", 0)),
        plus=table.text("plus") if "plus" in table else "",
        chance=table.number("chance", 1.0, 0.0, 1.0),
        is_of_session=table.choice("each", ("interaction", "session"), "interaction") == "session",
        finds=_finds(table),
        none=table.text("none") if "none" in table else None,
    )


def _refuse_idle_keys(table: Table) -> None:
    for key, others in _NEEDED.items():
        if key in table and not any(other in table for other in others):
            needed = " or ".join(others)
            raise UsageError(
                f"{table.name} {key}={table.values[key]!r} has no meaning without {needed}",
                hint=f"remove it, or add {needed}",
            )
    if "plus" in table and "width" in table:
        raise UsageError(f"{table.name} has plus and width", hint="use one of them: a sum is not filled up with zeros")


def _bound(table: Table, key: str, value: object) -> Bound:
    if isinstance(value, str) and _BOUND.fullmatch(value):
        return value
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _MOST_NUMBER:
        raise UsageError(
            f"{table.name} {key}={value!r} is not a bound", hint='use a whole number, a name, or "name / 10"'
        )
    return value


def _range(table: Table, key: str) -> tuple[Bound, Bound]:
    given = table.values[key]
    if not isinstance(given, list) or len(given) != 2:
        raise UsageError(
            f"{table.name} {key}={given!r} is not a range", hint=f'for example: {key} = [1, 1000], or [1, "items"]'
        )
    return _bound(table, key, given[0]), _bound(table, key, given[1])


def _one_of(table: Table) -> tuple[tuple[str, float], ...]:
    given = table.values["one_of"]
    weights = (
        dict.fromkeys(given, 1.0) if isinstance(given, list) and all(isinstance(text, str) for text in given) else given
    )
    if not isinstance(weights, Mapping) or not weights:
        raise UsageError(
            f"{table.name} one_of={given!r} is not a list of texts", hint='one_of = ["a", "b"], or { a = 3, b = 1 }'
        )
    row = Table(weights, f"{table.name} one_of", tuple(weights))
    pairs = tuple((text, row.number(text, 1.0, 0.0, 1e9)) for text in weights)
    if not any(weight for _, weight in pairs):
        raise table.refuse("one_of", "give one of them a weight above 0")
    return pairs


def _digits(table: Table) -> tuple[str, ...]:
    given = table.values.get("digits")
    if not isinstance(given, list) or len(given) != 10 or not all(isinstance(digit, str) for digit in given):
        raise UsageError(
            f"{table.name} digits={given!r} is not a list of ten texts", hint="write what stands for 0 to 9"
        )
    return tuple(given)


def _finds(table: Table) -> tuple[tuple[str, str], ...]:
    given = table.values.get("find", [])
    many = given if isinstance(given, list) else [given]
    finds = []
    for find in many:
        entry = Table(
            {"after": find} if isinstance(find, str) else find if isinstance(find, Mapping) else {},
            f"{table.name} find",
            ("after", "until"),
        )
        until = entry.text("until") if "until" in entry else ""
        if len(until.encode()) > 1:
            raise UsageError(f"{entry.name} until={until!r} is not a character", hint="use one ASCII character")
        finds.append((entry.text("after"), until))
    return tuple(finds)


def pieces(
    text: str, numbers: Mapping[str, int], where: str, *, is_link: bool = False, is_plain: bool = False
) -> list[int | str]:
    """A text as the engine takes it: values as their numbers, the rest as it is sent.

    Args:
        text: with `{value}` in it.
        numbers: name -> number.
        where: for the message.
        is_link: the rest is a path or a query, which stays as it is.
        is_plain: the rest is part of another value.

    Raises:
        UsageError: a value that is not there.
    """
    parts: list[int | str] = []
    for place, part in enumerate(_PART.split(text)):
        if place % 2 == 0:
            if part:
                parts.append(part if is_plain or is_link else quote(part, safe="-._~"))
        elif part in numbers:
            parts.append(numbers[part])
        else:
            raise UsageError(
                f"{where} names value={part!r}, which [values] does not have before it",
                hint=f"the values are: {', '.join(numbers)}" if numbers else "add it to [values]",
            )
    return parts


def plain_values(values: Sequence[Value], known: Mapping[str, int]) -> list[dict[str, Any]]:
    """As a `LoadPlan` holds them; a value is made of those before it.

    Raises:
        UsageError: a name that is neither a number nor a value before it, or a range without a number.
    """
    made: list[dict[str, Any]] = []
    before: dict[str, int] = {}
    for value in values:
        made.append(_plain(value, before, known))
        before[value.name] = len(before)
    return made


def _plain(value: Value, before: Mapping[str, int], known: Mapping[str, int]) -> dict[str, Any]:
    where = f"[values.{value.name}]"
    plain: dict[str, Any] = {
        "number": None,
        "one_of": [list(pair) for pair in value.one_of] or None,
        "letters": _letters(value.letters, known, where) if value.letters else None,
        "text": None if value.text is None else pieces(value.text, before, where, is_plain=True),
        "spelled": None,
        "chance": value.chance,
        "is_of_session": value.is_of_session,
        "finds": [[after, ord(until) if until else None] for after, until in value.finds],
        "none": value.none,
    }
    if value.number is not None:
        low, high = (_resolve(bound, before, known, where) for bound in value.number)
        if isinstance(low, int) and isinstance(high, int) and low > high:
            raise UsageError(
                f"{where} number={list(value.number)!r} is {low} to {high}", hint="the smaller comes first"
            )
        skew = _resolve(value.skew, {}, known, where)
        plus = _of(value.plus, before, where) if value.plus else None
        plain["number"] = {"low": low, "high": high, "skew": skew, "plus": plus, "width": value.width}
    if value.spell:
        plain["spelled"] = {"of": _of(value.spell, before, where), "digits": list(value.digits), "width": value.width}
    return plain


def _letters(bounds: tuple[Bound, Bound], known: Mapping[str, int], where: str) -> list[int]:
    low, high = (_resolve(bound, {}, known, where) for bound in bounds)
    if not 0 <= low <= high <= _MOST_LETTERS:
        raise UsageError(
            f"{where} letters={list(bounds)!r} is {low} to {high}",
            hint=f"use two whole numbers up to {_MOST_LETTERS}, or names of numbers, the smaller first",
        )
    return [low, high]


def _of(name: str, before: Mapping[str, int], where: str) -> int:
    if name not in before:
        raise UsageError(
            f"{where} names value={name!r}, which [values] does not have before it",
            hint=f"the values before it are: {', '.join(before)}",
        )
    return before[name]


def _resolve(bound: Bound, before: Mapping[str, int], known: Mapping[str, int], where: str) -> Any:
    if isinstance(bound, int):
        return bound
    match = _BOUND.fullmatch(bound)
    name, sign, other = match.groups() if match else (bound, None, None)
    if name in known:
        number = _apply(known[name], sign, int(other or 0))
        if abs(number) > _MOST_NUMBER:
            raise UsageError(f"{where} {bound!r} is {number}, beyond the range", hint="use numbers up to 10^18")
        return number
    if sign is None and name in before:
        return ["value", before[name]]
    raise UsageError(
        f"{where} names {name!r}, which is neither a number nor a value before it",
        hint=f"the numbers are: {', '.join(known)}" if known else "add it to [numbers]",
    )


def _apply(number: int, sign: str | None, other: int) -> int:
    if sign == "*":
        return number * other
    if sign == "/":
        return number // max(other, 1)
    return number + (other if sign == "+" else -other)
