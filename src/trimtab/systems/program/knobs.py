"""Knobs of a program: the catalogue under the machine's limits; its constraints, memory and advice, evaluated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from trimtab.errors import ApplyError, SpaceError
from trimtab.records import Context
from trimtab.space import Config, Constraint, Knob, KnobKind, RestartClass, SafetyClass, Value, base_value
from trimtab.space.expression import names_in, parse
from trimtab.systems.base import KnobState
from trimtab.systems.catalog import Catalog, CatalogKnob
from trimtab.systems.expression import evaluate
from trimtab.systems.memory import MemoryModel, memory_model
from trimtab.systems.overlay import Bounds
from trimtab.units import unit_factor

__all__ = ["advised", "constraints", "knob_of", "lock_reason", "model", "require_met", "vendor_range"]


def knob_of(name: str, entry: CatalogKnob, bounds: Bounds, *, must_restart: bool) -> Knob:
    """The knob with its useful range on this machine.

    Raises:
        SpaceError: the range contradicts itself here.
    """
    low, high = _range(entry, bounds)
    default = entry.default
    return Knob(
        name=name,
        kind=KnobKind(entry.type),
        low=low,
        high=high,
        step=entry.step if low is not None else None,
        log=entry.log and low is not None and low > 0,
        unit=entry.unit,
        choices=entry.choices,
        special=entry.special,
        default=_number(entry, default) if low is not None else default,
        restart=RestartClass.RESTART if must_restart else RestartClass(entry.restart),
        safety=entry.safety,
        condition=entry.condition,
        doc=entry.doc,
    )


def _range(entry: CatalogKnob, bounds: Bounds) -> tuple[int | float | None, int | float | None]:
    """Useful low and high, rounded inwards to whole steps and clipped to what the program accepts."""
    if entry.low is None:
        return None, None
    low, high = entry.useful(bounds)
    if entry.hard is not None:
        low, high = max(low, entry.hard[0]), min(high, entry.hard[1])
    if entry.type != "integer":
        return low, max(low, high)
    step = entry.step or 1
    lowest = math.ceil(low / step) * step
    return lowest, max(lowest, math.floor(high / step) * step)


def _number(entry: CatalogKnob, value: str | int | float | bool) -> int | float:
    """A number of the catalogue in the knob's own unit; a text may be arithmetic with units."""
    if isinstance(value, str):
        value = _finite(evaluate(value, {}), value) / unit_factor(entry.unit)[0]
    return round(value) if entry.type == "integer" else float(value)


def _finite(number: float, text: str) -> float:
    if not math.isfinite(number):
        raise SpaceError(f"expression={text!r} is {number} on this machine", hint="keep it within the range of numbers")
    return number


def vendor_range(entry: CatalogKnob, knob: Knob, running: Value) -> tuple[float | None, float | None]:
    """What the program accepts: as the catalogue says, else all that it is known to run with."""
    if knob.low is None or knob.high is None or isinstance(running, str):
        return None, None
    if entry.hard is not None:
        return float(entry.hard[0]), float(entry.hard[1])
    known = [float(value) for value in (knob.low, knob.high, *knob.special, knob.default, running)]
    return min(known), max(known)


def lock_reason(knob: Knob, unlock: Sequence[str], no_restart: str) -> str:
    """Why the knob may not be changed here; "" when it may."""
    wants = knob.safety.value
    if knob.safety is not SafetyClass.PERFORMANCE and wants not in unlock:
        return f'safety class {wants} is locked; unlock = ["{wants}"] opens it'
    return no_restart if knob.restart is not RestartClass.RELOAD else ""


def constraints(
    catalog: Catalog, names: Sequence[str], states: Mapping[str, KnobState], bounds: Bounds, context: Context
) -> tuple[Constraint, ...]:
    """The memory budget and the catalogue's constraints, those in which one of `names` comes; others stand as they run."""
    budget = model(catalog, states, bounds, context).constraint(names)
    found = [budget] if budget is not None else []
    for each in catalog.constraint:
        name, text = each.name or each.text, each.text
        spoken_of = {each.name for each in names_in(parse(text))}
        if not spoken_of & set(names):
            continue
        fixed = {n: base_value(states[n].knob, states[n].running) for n in spoken_of - set(names) if n in states}
        numbers: dict[str, Value] = {**bounds, "clients": float(context.clients), **fixed}
        found.append(Constraint(text, name=name, constants=numbers))
    return tuple(found)


def require_met(catalog: Catalog, config: Mapping[str, Value], states: Mapping[str, KnobState], bounds: Bounds) -> None:
    """That a config breaks no constraint with a single client that the running one does not break.

    Raises:
        ApplyError: it does.
    """
    one = Context("", clients=1)
    running = {name: state.running for name, state in states.items()}
    knobs = {name: state.knob for name, state in states.items()}
    for constraint in constraints(catalog, tuple(config), states, bounds, one):
        if constraint.is_met({**running, **config}, knobs) or not constraint.is_met(running, knobs):
            continue
        shown = ", ".join(f"{n}={knobs[n].format(config[n])}" for n in constraint.names if n in config)
        raise ApplyError(f"{constraint.label} does not hold with {shown}", hint=f"the constraint is: {constraint.text}")


def model(catalog: Catalog, states: Mapping[str, KnobState], bounds: Bounds, context: Context) -> MemoryModel:
    """The catalogue's [memory], with the knobs at their running values."""
    numbers: dict[str, Value] = {**bounds, "clients": float(context.clients)}
    return memory_model(catalog.memory, states, numbers, budget_bytes=int(bounds["memory"]))


def advised(catalog: Catalog, states: Mapping[str, KnobState], bounds: Bounds, context: Context) -> Config:
    """The catalogue's advice on this machine, over the knobs that may be changed."""
    facts = {**bounds, "clients": float(context.clients)}
    values: dict[str, Value] = {}
    for name, wanted in catalog.advice.items():
        state = states[name]
        if state.lock_reason:
            continue
        knob = state.knob
        if not knob.is_numeric:
            values[name] = wanted
            continue
        if isinstance(wanted, str):
            wanted = _finite(evaluate(wanted, facts), wanted) / unit_factor(knob.unit)[0]
        values[name] = knob.clip(wanted)
    return Config(values)
