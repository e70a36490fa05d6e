"""The constraint language: its tree, its parser and its types. Nothing is ever given to Python's own `eval`.

Precedence is Python's: `a if c else b`, or, and, not, comparisons (not chained), + -, * / // %, unary + -.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from trimtab.errors import SpaceError, UsageError
from trimtab.space.lexer import Token, TokenKind, syntax_error, tokenize
from trimtab.units import Dimension, unit_ratio

__all__ = [
    "COMPARISONS",
    "Binary",
    "Call",
    "Choose",
    "Name",
    "Node",
    "Number",
    "Text",
    "Type",
    "Unary",
    "check",
    "conjuncts",
    "names_in",
    "parse",
    "unknown_name",
]

MAX_DEPTH = 100
"""How deep a tree may be: its walkers recurse."""

COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!="})
_FUNCTIONS = {"min": 0, "max": 0, "abs": 1}
"""Function -> number of arguments (0: two or more)."""

_BINDING = {
    "if": 1, "or": 2, "and": 3,
    **dict.fromkeys(COMPARISONS, 5),
    "+": 6, "-": 6, "*": 7, "/": 7, "//": 7, "%": 7,
}  # fmt: skip
_NOT_BINDING = 4
_UNARY_BINDING = 8

_NUMBER = re.compile(r"([0-9.]+(?:[eE][+-]?[0-9]+)?)([A-Za-z]*)")


@dataclass(frozen=True, slots=True)
class Number:
    """A literal in base units (bytes, seconds, bare), exactly."""

    value: Fraction
    dimension: Dimension = Dimension.NUMBER
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Text:
    """A literal text."""

    value: str
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Name:
    """A knob or a constant."""

    name: str
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Unary:
    """`-`, `+` or `not`."""

    op: str
    operand: Node
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Binary:
    """Arithmetic, a comparison, `and` or `or`."""

    op: str
    left: Node
    right: Node
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Choose:
    """`yes if condition else no`."""

    condition: Node
    yes: Node
    no: Node
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """`min`, `max` or `abs`."""

    function: str
    arguments: tuple[Node, ...]
    position: int = field(default=0, compare=False)


Node = Number | Text | Name | Unary | Binary | Choose | Call


def children(node: Node) -> tuple[Node, ...]:
    """The direct parts of a node, from left to right."""
    match node:
        case Unary():
            return (node.operand,)
        case Binary():
            return (node.left, node.right)
        case Choose():
            return (node.yes, node.condition, node.no)
        case Call():
            return node.arguments
        case _:
            return ()


def names_in(node: Node) -> Iterator[Name]:
    """Every name in the tree, from left to right, as often as it occurs."""
    if isinstance(node, Name):
        yield node
    for child in children(node):
        yield from names_in(child)


def conjuncts(node: Node) -> list[Node]:
    """The parts of a conjunction at the top of the tree; the node itself when it is none."""
    if isinstance(node, Binary) and node.op == "and":
        return [*conjuncts(node.left), *conjuncts(node.right)]
    return [node]


def parse(text: str) -> Node:
    """The tree of `text`.

    Raises:
        SpaceError: `text` is not in the language; the message names the position and what was expected there.
    """
    return _Parser(text).parse()


_LARGEST = Fraction(sys.float_info.max)


class _Parser:
    """Operator precedence by binding power (Pratt 1973)."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokenize(text)
        self._next = 0
        self._depth = 0
        self._heights: dict[int, int] = {}

    def parse(self) -> Node:
        node = self._expression(0)
        if self._peek().kind is not TokenKind.END:
            raise self._expected("an operator or the end")
        return node

    def _peek(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._tokens[self._next]
        self._next += 1
        return token

    def _is_at(self, text: str) -> bool:
        token = self._peek()
        return token.kind in (TokenKind.OPERATOR, TokenKind.WORD) and token.text == text

    def _expect(self, text: str) -> None:
        if not self._is_at(text):
            raise self._expected(repr(text))
        self._take()

    def _expected(self, what: str) -> SpaceError:
        token = self._peek()
        return syntax_error(self._text, token.position, f"expected {what}, found {token}")

    def _grown(self, node: Node) -> Node:
        """`node`, its height noted; heights are kept by identity, as equal trees may be large to compare."""
        height = 1 + max((self._heights.get(id(child), 0) for child in children(node)), default=0)
        if height > MAX_DEPTH:
            raise self._too_deep(node.position)
        self._heights[id(node)] = height
        return node

    def _too_deep(self, position: int) -> SpaceError:
        return syntax_error(self._text, position, f"nested or chained more than {MAX_DEPTH} deep")

    def _expression(self, least: int) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._too_deep(self._peek().position)
        left = self._prefix(least)
        while True:
            token = self._peek()
            power = _BINDING.get(token.text) if token.kind in (TokenKind.OPERATOR, TokenKind.WORD) else None
            if power is None or power <= least:
                break
            self._take()
            left = self._grown(self._infix(left, token, power))
        self._depth -= 1
        return left

    def _infix(self, left: Node, token: Token, power: int) -> Node:
        if token.text == "if":
            condition = self._expression(power)
            self._expect("else")
            return Choose(condition, left, self._expression(0), token.position)
        right = self._expression(power)
        if token.text in COMPARISONS and self._peek().text in COMPARISONS:
            raise syntax_error(
                self._text, self._peek().position, "comparisons cannot be chained (write a < b and b < c): second one"
            )
        return Binary(token.text, left, right, token.position)

    def _prefix(self, least: int) -> Node:
        token = self._peek()
        match token.kind, token.text:
            case (TokenKind.NUMBER, _):
                return self._number(self._take())
            case (TokenKind.TEXT, _):
                return Text(self._take().text, token.position)
            case (TokenKind.NAME, _):
                return self._name(self._take())
            case (TokenKind.WORD, "true" | "True" | "false" | "False"):
                return Number(Fraction(self._take().text in ("true", "True")), position=token.position)
            case (TokenKind.WORD, "not") if least < _NOT_BINDING:
                self._take()
                return self._grown(Unary("not", self._expression(_NOT_BINDING - 1), token.position))
            case (TokenKind.OPERATOR, "-" | "+"):
                self._take()
                return self._grown(Unary(token.text, self._expression(_UNARY_BINDING - 1), token.position))
            case (TokenKind.OPERATOR, "("):
                self._take()
                inner = self._expression(0)
                self._expect(")")
                return inner
        raise self._expected("a value")

    def _number(self, token: Token) -> Number:
        match = _NUMBER.fullmatch(token.text)
        if match is None:
            raise syntax_error(self._text, token.position, f"malformed number {token.text!r}")
        try:
            ratio, dimension = unit_ratio(match[2])
        except UsageError as error:
            raise syntax_error(self._text, token.position, f"unknown unit {match[2]!r} in {token.text!r}") from error
        number = Fraction(match[1]) * ratio
        if number > _LARGEST:
            raise syntax_error(self._text, token.position, f"the number {token.text} is too large")
        return Number(number, dimension, token.position)

    def _name(self, token: Token) -> Node:
        if token.text not in _FUNCTIONS or not self._is_at("("):
            return Name(token.text, token.position)
        self._take()
        arguments = [self._expression(0)]
        while self._is_at(","):
            self._take()
            arguments.append(self._expression(0))
        self._expect(")")
        wanted = _FUNCTIONS[token.text]
        if (wanted and len(arguments) != wanted) or (not wanted and len(arguments) < 2):
            raise syntax_error(
                self._text,
                token.position,
                f"{token.text}() takes {wanted or 'two or more'} arguments, not {len(arguments)}:",
            )
        return self._grown(Call(token.text, tuple(arguments), token.position))


@dataclass(frozen=True, slots=True)
class Type:
    """What an expression gives: a text, or a number (truth is 1 or 0) of a dimension."""

    is_text: bool = False
    dimension: Dimension = Dimension.NUMBER


def unknown_name(text: str, name: Name, known: Mapping[str, object]) -> SpaceError:
    """The error for a name that is neither knob nor constant, with the closest one that is."""
    close = difflib.get_close_matches(name.name, list(known), n=1)
    error = syntax_error(text, name.position, f"unknown knob={name.name!r}")
    hint = f"did you mean {close[0]}?" if close else f"known are: {', '.join(sorted(known)[:20]) or 'none'}"
    return SpaceError(error.message, hint=hint)


def check(node: Node, types: Mapping[str, Type], text: str) -> Type:
    """The type of `node` (parsed from `text`), given those of its names.

    Numbers without a unit go with everything, for they are counts, special values or constants in base units.

    Raises:
        SpaceError: an unknown name, arithmetic on texts, or sizes beside durations.
    """
    match node:
        case Number():
            return Type(dimension=node.dimension)
        case Text():
            return Type(is_text=True)
        case Name():
            if node.name not in types:
                raise unknown_name(text, node, types)
            return types[node.name]
        case Unary():
            inner = _numeric(check(node.operand, types, text), node, text)
            return Type() if node.op == "not" else inner
        case Binary():
            return _check_binary(node, types, text)
        case Choose():
            _numeric(check(node.condition, types, text), node, text)
            return _joined(check(node.yes, types, text), check(node.no, types, text), node, text)
        case Call():
            joined = Type()
            for argument in node.arguments:
                joined = _joined(joined, _numeric(check(argument, types, text), node, text), node, text)
            return joined


def _check_binary(node: Binary, types: Mapping[str, Type], text: str) -> Type:
    left, right = check(node.left, types, text), check(node.right, types, text)
    if node.op in ("==", "!=") and left.is_text and right.is_text:
        return Type()
    for side in (left, right):
        _numeric(side, node, text)
    if node.op in ("and", "or"):
        return Type()
    if node.op in COMPARISONS or node.op in ("+", "-", "%"):
        joined = _joined(left, right, node, text)
        return Type() if node.op in COMPARISONS else joined
    if node.op == "*" or right.dimension is Dimension.NUMBER:
        return left if right.dimension is Dimension.NUMBER else Type(dimension=right.dimension)
    # A size by a size is a count; a count by a size has no name here and is left bare.
    return Type()


def _label(node: Node) -> str:
    match node:
        case Call():
            return f"{node.function}()"
        case Choose():
            return "if"
        case Unary() | Binary():
            return node.op
        case _:
            return "value"


def _numeric(found: Type, node: Node, text: str) -> Type:
    if found.is_text:
        raise syntax_error(text, node.position, f"{_label(node)!r} needs numbers, found a text")
    return found


def _joined(left: Type, right: Type, node: Node, text: str) -> Type:
    if left.is_text != right.is_text:
        raise syntax_error(text, node.position, f"{_label(node)!r} mixes a text and a number")
    if left.dimension is Dimension.NUMBER:
        return right
    if right.dimension not in (Dimension.NUMBER, left.dimension):
        raise syntax_error(
            text, node.position, f"{_label(node)!r} mixes a {left.dimension.value} and a {right.dimension.value}"
        )
    return left
