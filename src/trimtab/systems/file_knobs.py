"""Knobs of a program: the catalogue under the machine's limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from trimtab.space import Constraint, Knob, KnobKind, RestartClass, SafetyClass, Value
from trimtab.systems.catalog import CatalogKnob
from trimtab.systems.overlay import Bounds

__all__ = ["inactive", "knob_of", "lock_reason", "unknown_choice", "unknown_value", "vendor_range"]


def knob_of(name: str, entry: CatalogKnob, bounds: Bounds, *, must_restart: bool) -> Knob:
    """The knob with its useful range on this machine.

    Raises:
        SpaceError: the range contradicts itself here.
    """
    low, high = _range(entry, bounds)
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
        default=entry.default if low is None else _default(entry),
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


def _default(entry: CatalogKnob) -> int | float:
    number = entry.default_number
    return round(number) if entry.type == "integer" else float(number)


def inactive(config: Mapping[str, Value], values: Mapping[str, Value], knob: Callable[[str], Knob]) -> frozenset[str]:
    """The knobs of `config` that have no effect in it, by their conditions; a program may even refuse to read them then.

    Args:
        config: the values to set.
        values: of the other knobs.
        knob: the knob of a name.
    """
    off, all_values = [], {**values, **config}
    for name in config:
        condition = knob(name).condition
        if condition is None:
            continue
        rule = Constraint(condition, name=condition)
        if set(rule.names) <= all_values.keys() and not rule.is_met(
            {each: all_values[each] for each in rule.names}, {each: knob(each) for each in rule.names}
        ):
            off.append(name)
    return frozenset(off)


def vendor_range(entry: CatalogKnob, knob: Knob, running: Value) -> tuple[float | None, float | None]:
    """What the program accepts: as the catalogue says, else all that it is known to run with."""
    if knob.low is None or knob.high is None or isinstance(running, str):
        return None, None
    if entry.hard is not None:
        return float(entry.hard[0]), float(entry.hard[1])
    known = [float(value) for value in (knob.low, knob.high, *knob.special, knob.default, running)]
    return min(known), max(known)


def unknown_value(entry: CatalogKnob, knob: Knob, running: Value) -> str:
    """Why a number that lies outside what the catalogue holds for possible is left alone: it may mean that another setting
    rules (vm.dirty_ratio is 0 while vm.dirty_bytes counts); "" when it lies inside."""
    if entry.hard is None or isinstance(running, str | bool) or running in knob.special:
        return ""
    if entry.hard[0] <= running <= entry.hard[1]:
        return ""
    return f"its value as found, {running}, is not one that the catalogue knows"


def unknown_choice(knob: Knob, running: Value) -> str:
    """Why a choice that the catalogue does not have is left alone: its author knew what for; "" when it has it."""
    if not knob.choices or running in knob.choices:
        return ""
    return f"its value as found, {running}, is not one that the catalogue knows"


def lock_reason(knob: Knob, unlock: Sequence[str], no_restart: str) -> str:
    """Why the knob may not be changed here; "" when it may."""
    wants = knob.safety.value
    if knob.safety is not SafetyClass.PERFORMANCE and wants not in unlock:
        return f'safety class {wants} is locked; unlock = ["{wants}"] opens it'
    return no_restart if knob.restart is not RestartClass.RELOAD else ""
