"""A space in the words of other libraries: whole and real numbers with bounds, and choices; nothing else.

What they lack is put into those words: a special value is a choice beside the number, booleans and ordinals are choices.
Constraints and conditions have no counterpart; a point that breaks a constraint means the nearest feasible config.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from trimtab.space import Config, Knob, KnobKind, Space, Value

__all__ = ["ORDINARY", "Parameter", "ParameterSpace", "Values"]

Values = dict[str, int | float | str]
"""Parameter name -> value."""

ORDINARY = "ordinary"
"""The choice beside a number with special values that says: none of them, the number counts."""

_WIDEST_INT = 2**31
"""Integers beyond it become reals: not every library holds wider ones."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of that space.

    Attributes:
        name: the knob's name; with "?" appended for the choice among its special values.
        kind: "int", "float" or "choice".
        low, high, log: inclusive bounds and scale of numbers.
        choices: of a choice, as text.
        default: inside the bounds.
    """

    name: str
    kind: Literal["int", "float", "choice"]
    low: int | float = 0
    high: int | float = 0
    log: bool = False
    choices: tuple[str, ...] = ()
    default: int | float | str = 0


class ParameterSpace:
    """Parameters of a space, and the way there and back.

    Attributes:
        parameters: by name; knobs with a single legal value have none.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        found = [parameter for knob in space.knobs.values() for parameter in _parameters(knob)]
        self.parameters: Mapping[str, Parameter] = {parameter.name: parameter for parameter in found}

    def values(self, config: Mapping[str, Value]) -> Values:
        """What `config`, valid in the space, is called.

        A number outside the useful range is the nearest one inside; a label that is none of the knob's own, as a server may
        have it, is the default or the first.
        """
        found: Values = {}
        for name, parameter in self.parameters.items():
            knob = self._space.knobs[name.removesuffix("?")]
            value = config[knob.name]
            if parameter.name != knob.name:
                found[name] = str(value) if value in knob.special else ORDINARY
            elif isinstance(value, (str, bool)):
                found[name] = _among(str(value), parameter.choices, str(parameter.default))
            else:
                number = knob.range.nearest(value)
                found[name] = int(number) if parameter.kind == "int" else float(number)
        return found

    def config(self, values: Mapping[str, int | float | str]) -> Config:
        """The feasible config that `values` mean: numbers go to the nearest legal one, the whole to the feasible region."""
        meant = {name: _meant(knob, values) for name, knob in self._space.knobs.items()}
        return self._space.repair(Config(meant))


def _parameters(knob: Knob) -> list[Parameter]:
    if knob.n_values <= 1:
        return []
    default = knob.default
    if not knob.is_numeric or isinstance(default, (str, bool)):
        choices = tuple(str(label) for label in knob.labels)
        return [Parameter(knob.name, "choice", choices=choices, default=_among(str(default), choices, choices[0]))]
    low, high = knob.low or 0, knob.high or 0
    is_int = knob.kind is KnobKind.INTEGER and max(abs(low), abs(high)) < _WIDEST_INT
    found = []
    if low < high:
        kind: Literal["int", "float"] = "int" if is_int else "float"
        cast: type[int] | type[float] = int if is_int else float
        nearest = cast(knob.range.nearest(default))
        found.append(Parameter(knob.name, kind, cast(low), cast(high), knob.log, default=nearest))
    if knob.special:
        names = (ORDINARY, *map(str, knob.special))
        found.append(Parameter(f"{knob.name}?", "choice", choices=names, default=_among(str(default), names, ORDINARY)))
    return found


def _among(text: str, choices: tuple[str, ...], otherwise: str) -> str:
    return text if text in choices else otherwise


def _meant(knob: Knob, values: Mapping[str, int | float | str]) -> Value:
    which = values.get(f"{knob.name}?", ORDINARY)
    if which != ORDINARY:
        return next(special for special in knob.special if str(special) == which)
    value = values.get(knob.name)
    if value is None:
        # A knob with one legal value, or with one ordinary value beside its special ones, has no parameter of its own.
        return knob.labels[0] if not knob.is_numeric else knob.range.nearest(knob.low or 0)
    if knob.kind is KnobKind.BOOLEAN:
        return value == "True"
    return value if isinstance(value, str) else knob.range.nearest(value)
