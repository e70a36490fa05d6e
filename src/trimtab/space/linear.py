"""Linear constraints as rows sum(c * x) + b <= 0 in exact fractions, x being knobs in base units.

max() on the smaller side of a comparison and min() on the larger one split into several rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from trimtab.space.expression import Binary, Call, Name, Node, Number, Unary

__all__ = ["Form", "Row", "rows_of"]

_MOST_PIECES = 64
"""Most rows into which the max() and min() of one comparison are split."""


@dataclass(frozen=True, slots=True)
class Form:
    """sum(coefficients[name] * name) + constant."""

    coefficients: Mapping[str, Fraction]
    constant: Fraction

    def plus(self, other: Form) -> Form:
        """The sum of two forms."""
        names = {**self.coefficients, **other.coefficients}
        zero = Fraction(0)
        summed = {n: self.coefficients.get(n, zero) + other.coefficients.get(n, zero) for n in names}
        return Form({n: c for n, c in summed.items() if c}, self.constant + other.constant)

    def times(self, factor: Fraction) -> Form:
        """The form, scaled."""
        if not factor:
            return Form({}, factor)
        return Form({n: c * factor for n, c in self.coefficients.items()}, self.constant * factor)


@dataclass(frozen=True, slots=True)
class Row:
    """form <= 0, or form < 0 when strict; `is_half`: of an equation, whose other half is its contrary."""

    form: Form
    is_strict: bool
    is_half: bool = False


def rows_of(node: Node, constants: Mapping[str, Fraction], variables: Iterable[str]) -> list[Row] | None:
    """The rows of a comparison, met together exactly when the comparison is; None when it is not linear."""
    if not isinstance(node, Binary) or node.op not in ("<", "<=", ">", ">=", "=="):
        return None
    reader = _Reader(constants, frozenset(variables))
    left, right = (node.right, node.left) if node.op in (">", ">=") else (node.left, node.right)
    pieces = reader.pieces(Binary("-", left, right), 1)
    if pieces is None:
        return None
    if node.op == "==":
        if len(pieces) > 1:
            return None
        return [Row(piece, False, is_half=True) for piece in (pieces[0], pieces[0].times(Fraction(-1)))]
    return [Row(piece, node.op in ("<", ">")) for piece in pieces]


class _Reader:
    """Reads expressions as the largest of several linear forms."""

    def __init__(self, constants: Mapping[str, Fraction], variables: frozenset[str]) -> None:
        self._constants = constants
        self._variables = variables

    def pieces(self, node: Node, sign: int) -> list[Form] | None:
        """Forms whose maximum is `sign * node`; None when there are none."""
        match node:
            case Number():
                return [Form({}, node.value * sign)]
            case Name():
                return self._name(node.name, sign)
            case Unary() if node.op in ("-", "+"):
                return self.pieces(node.operand, -sign if node.op == "-" else sign)
            case Binary() if node.op in ("+", "-"):
                return self._sum(node, sign)
            case Binary() if node.op in ("*", "/"):
                return self._scaled(node, sign)
            case Call():
                return self._call(node, sign)
        return None

    def _name(self, name: str, sign: int) -> list[Form] | None:
        if name in self._variables:
            return [Form({name: Fraction(sign)}, Fraction(0))]
        return [Form({}, self._constants[name] * sign)] if name in self._constants else None

    def _sum(self, node: Binary, sign: int) -> list[Form] | None:
        left = self.pieces(node.left, sign)
        right = self.pieces(node.right, sign if node.op == "+" else -sign)
        if left is None or right is None or len(left) * len(right) > _MOST_PIECES:
            return None
        return [a.plus(b) for a, b in product(left, right)]

    def _constant(self, node: Node) -> Fraction | None:
        pieces = self.pieces(node, 1)
        if pieces is None or any(piece.coefficients for piece in pieces):
            return None
        return max(piece.constant for piece in pieces)

    def _scaled(self, node: Binary, sign: int) -> list[Form] | None:
        factor, other = self._constant(node.right), node.left
        if node.op == "/":
            if not factor:
                return None
            factor = 1 / factor
        elif factor is None:
            factor, other = self._constant(node.left), node.right
        if factor is None:
            return None
        pieces = self.pieces(other, sign if factor > 0 else -sign)
        return None if pieces is None else [piece.times(abs(factor)) for piece in pieces]

    def _call(self, node: Call, sign: int) -> list[Form] | None:
        if node.function == "abs":
            parts = [self.pieces(node.arguments[0], sign), self.pieces(node.arguments[0], -sign)]
        else:
            parts = [self.pieces(argument, sign) for argument in node.arguments]
        found: list[Form] = []
        for part in parts:
            if part is None:
                return None
            found += part
        is_maximum = (node.function != "min") == (sign > 0)
        if not any(form.coefficients for form in found):
            return [Form({}, (max if is_maximum else min)(form.constant for form in found))]
        # The smallest of several forms is no maximum of forms.
        return found if is_maximum and len(found) <= _MOST_PIECES else None
