"""PastStudy: what another study has measured, said in the knobs of this one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trimtab.space import Config, Knob, Space, Value

__all__ = ["PastStudy", "fitted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PastStudy:
    """Trials of another study, for a prior.

    Attributes:
        name: of the study, for people; different for each of one problem.
        nearness: how much it promises, above 0 and at most 1.
        configs: what was measured, as configs of this problem's space.
        losses: one for each, finite; relative to that study's own baseline, so only their order and spread count here.
        failed: configs that failed by their own fault.
    """

    name: str
    nearness: float
    configs: tuple[Config, ...]
    losses: tuple[float, ...]
    failed: tuple[Config, ...] = ()


def fitted(space: Space, filler: Config, config: Mapping[str, Value]) -> Config:
    """`config` of another space in this one: foreign knobs are dropped, numbers brought into range, the rest is `filler`'s.

    Valid, but perhaps not feasible.
    """
    values: dict[str, Value] = {}
    for name, knob in space.knobs.items():
        values[name] = filler[name] if name not in config else _fitted(knob, config[name], filler[name])
    return space.canonical(values)


def _fitted(knob: Knob, given: Value, otherwise: Value) -> Value:
    value = knob.cast(given)
    if value is None or knob.contains(value):
        return otherwise if value is None else value
    if knob.is_numeric and not isinstance(value, str | bool):
        value = knob.clip(value)
    return value if knob.contains(value) else otherwise
