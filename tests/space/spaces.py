"""Strategies for knobs, spaces and points."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from trimtab.space import Knob, KnobKind, Value

UNITS = ["", "B", "kB", "8kB", "MB", "us", "ms", "s", "min"]


def integer(name: str, low: int, high: int, **more: Any) -> Knob:
    """An integer knob, its default at the low end unless said otherwise."""
    return Knob(name=name, kind=KnobKind.INTEGER, low=low, high=high, **{"default": low, **more})


def real(name: str, low: float, high: float, **more: Any) -> Knob:
    """A real knob, its default at the low end unless said otherwise."""
    return Knob(name=name, kind=KnobKind.REAL, low=low, high=high, **{"default": low, **more})


def boolean(name: str, default: bool = True, **more: Any) -> Knob:
    """A boolean knob."""
    return Knob(name=name, kind=KnobKind.BOOLEAN, default=default, **more)


def choice(name: str, *choices: str, **more: Any) -> Knob:
    """A choice, its default the first unless said otherwise."""
    return Knob(name=name, kind=KnobKind.CHOICE, choices=choices, **{"default": choices[0], **more})


@st.composite
def integers(draw: st.DrawFn, name: str = "k") -> Knob:
    low = draw(st.integers(-1000, 2**31) | st.integers(1, 100))
    log = low > 0 and draw(st.booleans())
    step = draw(st.none() | st.integers(1, 1000))
    reach = draw(st.integers(0, 2**31 - 1) | st.integers(0, 50))
    special = draw(st.sets(st.integers(low - 5, low - 1), max_size=4))
    default = draw(st.integers(low - 100, low + reach + 100))
    return Knob(
        name=name,
        kind=KnobKind.INTEGER,
        low=low,
        high=low + reach,
        step=step,
        log=log,
        unit=draw(st.sampled_from(UNITS)),
        special=tuple(special),
        default=default,
    )


@st.composite
def reals(draw: st.DrawFn, name: str = "k") -> Knob:
    finite = st.floats(-1e9, 1e9) | st.sampled_from([0.0, 0.1, 0.5, 1.0, 1e-9, 1 / 3])
    low, high = sorted((draw(finite), draw(finite)))
    stepped = draw(st.booleans())
    if stepped:
        low, high, step = round(low, 3), round(high, 3), draw(st.sampled_from([0.001, 0.1, 0.25, 2.0]))
    special = (math.floor(low) - 1.0,) if draw(st.booleans()) else ()
    return Knob(
        name=name,
        kind=KnobKind.REAL,
        low=low,
        high=max(low, high),
        step=step if stepped else None,
        log=low > 0 and draw(st.booleans()),
        special=special,
        default=draw(finite),
    )


@st.composite
def labelled(draw: st.DrawFn, name: str = "k") -> Knob:
    kind = draw(st.sampled_from([KnobKind.BOOLEAN, KnobKind.CHOICE, KnobKind.ORDINAL]))
    if kind is KnobKind.BOOLEAN:
        return boolean(name, draw(st.booleans()))
    choices = draw(st.lists(st.text(max_size=4), min_size=1, max_size=6, unique=True))
    return Knob(name=name, kind=kind, choices=tuple(choices), default=draw(st.sampled_from([*choices, "other"])))


def knobs(name: str = "k") -> st.SearchStrategy[Knob]:
    """Knobs of every kind."""
    return integers(name) | reals(name) | labelled(name)


def values_of(knob: Knob) -> st.SearchStrategy[Value]:
    """Legal values of a knob in a space without `also_legal`."""
    if not knob.is_numeric:
        return st.sampled_from([*knob.labels, knob.default])
    regular = knob.range
    inside: st.SearchStrategy[Value]
    if knob.kind is KnobKind.REAL and knob.step is None:
        inside = st.floats(regular.low, regular.high).map(knob.clip)
    else:
        last = int(regular.n_levels) - 1
        ends = st.sampled_from([0, min(1, last), max(0, last - 1), last])
        inside = (st.integers(0, last) | ends).map(lambda k: _level(knob, k))
    return inside | st.sampled_from([*knob.special, knob.default])


def _level(knob: Knob, k: int) -> Value:
    value = knob.low if knob.low is not None else 0
    return knob.clip(value + k * (knob.step or 1))
