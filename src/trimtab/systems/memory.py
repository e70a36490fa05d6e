"""MemoryModel: what a target's settings make it take of its host's memory; and sizes that people can read."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from trimtab.space import Constraint, Knob, Value, base_value
from trimtab.space.condition import as_column
from trimtab.space.evaluate import evaluate
from trimtab.space.expression import Binary, Call, Name, Number, Unary, names_in, parse
from trimtab.space.rename import renamed
from trimtab.systems.base import KnobState

__all__ = ["MemoryModel", "memory_model", "round_size"]

_SIGNIFICANT_BITS = 6
_SUMMANDS = frozenset({"+", "-", "*", "/", "//", "%"})
_HINT = (
    'give the target more memory (memory = "SIZE" in [target.NAME] or [stack]), or let the workload have fewer clients'
)
BUDGET, RESERVED = "memory", "reserved"
"""Names of constants in the constraint: what all share, and what is kept for the operating system and the programs."""


def round_size(size: float, step: int = 1) -> int:
    """The largest size up to `size` that a person would write: six binary digits, at most 3 % less, in whole steps.

    `size` is positive and in any unit, `step` the distance between legal sizes. A size below one step becomes 0.
    """
    grain = 1 << max(0, int(size).bit_length() - _SIGNIFICANT_BITS)
    whole = math.lcm(step, grain)
    return math.floor(size / whole) * whole


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryModel:
    """What a target takes at most, as a sum over its settings: one text serves the search, the report and the check.

    An upper bound and no forecast.

    Attributes:
        terms: consumer -> bytes, in the constraint language, over knobs and constants; what is negative counts as nothing.
        constants: name -> value in base units, of the names in `terms` that are no knobs ("clients", "cores").
        knobs: the knobs in `terms`.
        running: their values as found, in their own units.
        reserved_bytes: kept for the operating system and the program itself.
        budget_bytes: what all of it shares: of the target's own table, else of the machine or its cgroup.
        host: the machine whose memory it is; "" for this one.
    """

    terms: Mapping[str, str]
    constants: Mapping[str, Value] = field(default_factory=dict)
    knobs: Mapping[str, Knob] = field(default_factory=dict)
    running: Mapping[str, Value] = field(default_factory=dict)
    reserved_bytes: float = 0.0
    budget_bytes: int
    host: str = ""

    def prefixed(self, tier: str) -> MemoryModel:
        """The same as a part of a stack: every name, those of the consumers and constants too, after `tier` and a dot."""

        def rename(name: str) -> str:
            return f"{tier}.{name}"

        return replace(
            self,
            terms={rename(consumer): renamed(text, rename) for consumer, text in self.terms.items()},
            constants={rename(name): value for name, value in self.constants.items()},
            knobs={rename(name): knob for name, knob in self.knobs.items()},
            running={rename(name): value for name, value in self.running.items()},
        )

    def with_knob_for(self, constant: str, knob: Knob, running: Value) -> MemoryModel:
        """The same with a knob in the place of a constant; nothing changes where no term speaks of it."""
        if constant not in self.constants:
            return self
        terms = {
            consumer: renamed(text, lambda name: knob.name if name == constant else name)
            for consumer, text in self.terms.items()
        }
        constants = {name: value for name, value in self.constants.items() if name != constant}
        knobs, values = {**self.knobs, knob.name: knob}, {**self.running, knob.name: running}
        return replace(self, terms=terms, constants=constants, knobs=knobs, running=values)

    def joined(self, other: MemoryModel) -> MemoryModel:
        """Both, on one host: consumers and reserves add up, and the smaller budget is that of both."""
        return MemoryModel(
            terms={**self.terms, **other.terms},
            constants={**self.constants, **other.constants},
            knobs={**self.knobs, **other.knobs},
            running={**self.running, **other.running},
            reserved_bytes=self.reserved_bytes + other.reserved_bytes,
            budget_bytes=min(self.budget_bytes, other.budget_bytes),
            host=self.host,
        )

    def constraint(self, names: Collection[str], *, label: str = "memory budget") -> Constraint | None:
        """That the sum stays within the budget, over those of `names` that take memory, the others at their values as found.

        None when none of `names` takes any.
        """
        if not set(names) & set(self.knobs):
            return None
        parts = [_summand(text) for text in self.terms.values()]
        reserved, budget = self._free(RESERVED), self._free(BUDGET)
        if self.reserved_bytes > 0:
            parts.append(reserved)
        fixed = {n: base_value(k, self.running[n]) for n, k in self.knobs.items() if n not in names}
        numbers = {**self.constants, **fixed, reserved: self.reserved_bytes, budget: float(self.budget_bytes)}
        return Constraint(f"{' + '.join(parts)} <= {budget}", name=label, constants=numbers, hint=_HINT)

    def _free(self, name: str) -> str:
        """`name`, longer where a knob has it."""
        return name if name not in self.knobs else f"{name}_of_all"

    def use(self, config: Mapping[str, Value]) -> dict[str, float]:
        """Bytes by consumer under `config` over the values as found, "reserved" among them."""
        facts = dict(self.constants)
        facts |= {name: base_value(knob, config.get(name, self.running[name])) for name, knob in self.knobs.items()}
        columns = {name: as_column(value) for name, value in facts.items()}
        found = {consumer: _size(evaluate(parse(text), columns)) for consumer, text in self.terms.items()}
        return found | ({RESERVED: self.reserved_bytes} if self.reserved_bytes > 0 else {})

    def total(self, config: Mapping[str, Value]) -> float:
        """The sum of `use(config)` in bytes."""
        return sum(self.use(config).values())

    def to_json(self, config: Mapping[str, Value]) -> dict[str, float]:
        """`use(config)` beside "budget", as verdicts and `--json` show it."""
        return {**self.use(config), "budget": float(self.budget_bytes)}


def memory_model(
    terms: Mapping[str, str],
    states: Mapping[str, KnobState],
    constants: Mapping[str, Value],
    *,
    reserved_bytes: float = 0.0,
    budget_bytes: int,
    host: str = "",
) -> MemoryModel:
    """The model over `terms`, of whose names those in `states` are knobs, at their running values."""
    named = {
        name.name: states[name.name] for text in terms.values() for name in names_in(parse(text)) if name.name in states
    }
    return MemoryModel(
        terms=dict(terms),
        constants=dict(constants),
        knobs={name: state.knob for name, state in named.items()},
        running={name: state.running for name, state in named.items()},
        reserved_bytes=reserved_bytes,
        budget_bytes=budget_bytes,
        host=host,
    )


def _summand(text: str) -> str:
    """`text` as it may stand between two plus signs."""
    match parse(text):
        case Number() | Name() | Call():
            return text
        case Binary(op=op) if op in _SUMMANDS:
            return text
        case Unary(op="+" | "-"):
            return text
        case _:
            return f"({text})"


def _size(found: object) -> float:
    size = float(np.asarray(found, dtype=np.float64))
    return max(0.0, size)
