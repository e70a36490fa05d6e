"""Rules of a catalogue over the live values: what must hold between knobs, memory, and a config without measuring.

The texts are data, in the constraint language; `trimtab.space` evaluates them. Facts are names with values in base units: those
of `Bounds`, `clients`, and what a kind of system adds.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from trimtab.errors import ApplyError
from trimtab.space import Config, Constraint, Knob, KnobKind, Value, amount, base_value, is_true
from trimtab.space.expression import names_in, parse
from trimtab.systems.base import KnobState
from trimtab.systems.memory import MemoryModel, memory_model, round_size
from trimtab.systems.overlay import Overlay, Rule, Written
from trimtab.units import Dimension, format_size, unit_factor

__all__ = ["advised", "check_memory", "check_rules", "constraints", "memory_of"]

_SHRINK = 0.9

States = Mapping[str, KnobState]
Facts = Mapping[str, float]
Catalogue = Overlay[Any]


@lru_cache(maxsize=1024)
def _spoken_of(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.name for name in names_in(parse(text))))


def _constraint(text: str, name: str, names: Sequence[str], states: States, facts: Facts) -> Constraint | None:
    """The constraint over `names`, other knobs at their values; None when none of them comes in it, or a name is unknown."""
    spoken_of = _spoken_of(text)
    if not set(spoken_of) & set(names) or any(each not in states and each not in facts for each in spoken_of):
        return None
    fixed = {n: base_value(states[n].knob, states[n].running) for n in spoken_of if n in states and n not in names}
    numbers: dict[str, Value] = {**facts, **fixed}
    return Constraint(text, name=name, constants=numbers)


def memory_of(
    catalogue: Catalogue, states: States, facts: Facts, *, budget_bytes: int, absent: Collection[str] = ()
) -> MemoryModel:
    """What the settings take of the memory, with the knobs at their running values.

    A consumer all of whose knobs are `absent` in the system here takes nothing.
    """
    terms = {
        consumer: text
        for consumer, text in catalogue.memory.items()
        if all(name in states or name in facts for name in _spoken_of(text))
        and not (absent and (knobs := set(_spoken_of(text)) & states.keys()) and knobs <= set(absent))
    }
    constants = {n: facts[n] for text in terms.values() for n in _spoken_of(text) if n not in states}
    return memory_model(
        terms,
        states,
        constants,
        reserved_bytes=amount(catalogue.reserve, {"memory": float(budget_bytes)}),
        budget_bytes=budget_bytes,
    )


def constraints(
    catalogue: Catalogue, names: Sequence[str], states: States, facts: Facts, *, product: str = ""
) -> Iterator[Constraint]:
    """Orders and rules that bound the search, those in which one of `names` comes; others stand as they run."""
    for low, high in catalogue.orders:
        is_off = _binds_nothing(low, high, names, states)
        text = _order_text(low, high, states)
        found = None if is_off else _constraint(text, f"{low} <= {high}", names, states, facts)
        yield from (found,) if found is not None else ()
    for rule in _rules(catalogue, product, names):
        found = None if rule.says else _constraint(rule.text, rule.name or rule.text, names, states, facts)
        if found is not None and (rule.use == "both" or _is_met(found, {}, states)):
            yield found


def _order_text(low: str, high: str, states: States) -> str:
    """That one is not above the other, of which a special value is no limit."""
    special = states[high].knob.special if high in states else ()
    return " or ".join([*(f"{high} == {value}" for value in special), f"{low} <= {high}"])


def _binds_nothing(low: str, high: str, names: Collection[str], states: States) -> bool:
    """Whether an order says nothing of `names`: the other of the two stands as it runs, and the order is broken already, as where
    `vm.dirty_bytes` counts and `vm.dirty_ratio` is 0."""
    if low not in states or high not in states or (low in names and high in names):
        return False
    left, right = states[low].running, states[high].running
    return not isinstance(left, str) and not isinstance(right, str) and left > right


def _rules(catalogue: Catalogue, product: str, names: Collection[str]) -> Iterator[Rule]:
    """Those of that product that bind one of `names`."""
    own = (rule for rule in catalogue.constraint if rule.only in ("", product))
    return (rule for rule in own if not rule.binds or rule.binds in names)


def _is_met(constraint: Constraint, config: Mapping[str, Value], states: States) -> bool:
    values = {name: state.running for name, state in states.items() if name in constraint.names}
    return constraint.is_met({**values, **config}, {name: states[name].knob for name in values})


def check_rules(catalogue: Catalogue, config: Config, states: States, facts: Facts, *, product: str = "") -> None:
    """That a config breaks no order, and no rule of the product that the running one does not break.

    Raises:
        ApplyError: it does; the message names the knobs with their values.
    """
    _check_orders(catalogue, config, states)
    for rule in _rules(catalogue, product, config):
        label = rule.name or rule.text
        found = _constraint(rule.text, label, tuple(config), states, facts) if rule.use == "both" else None
        if found is not None:
            _require(found, rule.says, config, states)


def _check_orders(catalogue: Catalogue, config: Config, states: States) -> None:
    """That no lower knob is set above its upper one; texts and special values of the upper one have no order."""
    for low, high in catalogue.orders:
        if not (low in config or high in config) or low not in states or high not in states:
            continue
        if _binds_nothing(low, high, config, states):
            continue
        left, right = (config.get(name, states[name].running) for name in (low, high))
        if right in states[high].knob.special:
            continue
        if not isinstance(left, str) and not isinstance(right, str) and left > right:
            raise ApplyError(f"{low}={left} is above {high}={right}", hint=f"keep {low} <= {high}")


def _require(constraint: Constraint, says: str, config: Config, states: States) -> None:
    if _is_met(constraint, config, states) or (not says and not _is_met(constraint, {}, states)):
        return
    known = [name for name in constraint.names if name in states and (says or name in config)]
    shown = ", ".join(f"{n}={states[n].knob.format(config.get(n, states[n].running))}" for n in known)
    if says:
        raise ApplyError(f"{says}: {shown}", hint="change them together, or see `trimtab knobs`")
    raise ApplyError(f"{constraint.label} does not hold with {shown}", hint=f"the constraint is: {constraint.text}")


def check_memory(config: Config, memory: MemoryModel) -> None:
    """That one client at work fits into the budget; how many must fit the constraint of the search says.

    A config that needs no more than the running one is let through: it cannot make things worse.

    Raises:
        ApplyError: it does not fit.
    """
    need, now, budget = memory.total(config), memory.total({}), memory.budget_bytes
    if need > max(budget, now):
        raise ApplyError(
            f"a single client at work would take memory={format_size(need)} of memory={format_size(budget)}",
            hint="lower the largest of the memory knobs, or raise memory in the target's table",
        )


def advised(catalogue: Catalogue, states: States, facts: Facts, memory: MemoryModel) -> Config:
    """The catalogue's advice over the knobs that may be changed, within useful ranges and the memory budget.

    Args:
        catalogue: with the advice.
        states: the live knobs.
        facts: see the module; advice under conditions needs `ssd` and `hdd`.
        memory: of the same knobs.
    """
    wanted, ways = dict(catalogue.advice), dict[str, str]()
    for more in catalogue.advice_when:
        if is_true(more.when, facts, dict.fromkeys(facts, Dimension.NUMBER)):
            wanted |= more.settings
            ways |= dict.fromkeys(more.settings, more.way)
    values = {
        name: onward(states[name], _fitted(states[name], _number(states[name].knob, value, facts)), ways.get(name, ""))
        for name, value in wanted.items()
        if name in states and not states[name].lock_reason
    }
    return Config(_in_order(_within_budget(values, catalogue.shrinks, states, memory), catalogue.orders, states))


def onward(state: KnobState, value: Value, way: str) -> Value:
    """The value, or the one that runs where that is as much already (`way` "more"), or as little ("less"), or a special one: a
    limit that is off is no number to go on from."""
    running = state.running
    if not way or isinstance(value, bool | str) or isinstance(running, bool | str):
        return value
    if running in state.knob.special:
        return running
    return max(value, running) if way == "more" else min(value, running)


def _number(knob: Knob, written: Written, facts: Facts) -> Written:
    """Arithmetic as a number in the knob's own unit."""
    if not knob.is_numeric or not isinstance(written, str):
        return written
    return amount(written, facts) / unit_factor(knob.unit)[0]


def _fitted(state: KnobState, value: Written) -> Value:
    """A legal value of the knob inside its useful range; sizes are such as people write."""
    knob = state.knob
    if not knob.is_numeric:
        return value if not isinstance(value, str) or value in knob.choices else state.running
    number = float(value)
    if number in knob.special:
        return int(number) if knob.kind is KnobKind.INTEGER else number
    if knob.low is not None and knob.high is not None:
        number = min(max(number, knob.low), knob.high)
    if knob.kind is KnobKind.REAL:
        return round(number, 4)
    step, is_size = int(knob.step or 1), unit_factor(knob.unit)[1] is Dimension.SIZE
    return max(int(knob.low or 0), round_size(number, step) if is_size else math.floor(number / step) * step)


def _within_budget(
    values: dict[str, Value], shrinks: Sequence[str], states: States, memory: MemoryModel
) -> dict[str, Value]:
    """Makes `shrinks` smaller in their order, until the budget holds or nothing can shrink."""
    for name in shrinks:
        while name in values and memory.total(values) > memory.budget_bytes:
            smaller = _fitted(states[name], float(values[name]) * _SHRINK)
            if isinstance(smaller, str | bool) or smaller >= float(values[name]):
                break
            values[name] = smaller
    return values


def _in_order(values: dict[str, Value], orders: Sequence[tuple[str, str]], states: States) -> dict[str, Value]:
    """Lowers what was above a knob that has become smaller; a special value has no place in an order."""
    for low, high in orders:
        below, above = values.get(low, ""), values.get(high, "")
        if isinstance(below, str) or isinstance(above, str) or above in states[high].knob.special:
            continue
        if below > above:
            values[low] = _fitted(states[low], float(above))
    return values
