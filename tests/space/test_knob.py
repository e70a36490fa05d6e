"""Knobs: their definitions are checked, their values cast, clipped, printed and read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.space.spaces import boolean, choice, integer, integers, knobs, real, reals, values_of
from trimtab.errors import SpaceError
from trimtab.space import Knob, KnobKind


@pytest.mark.parametrize(
    ("change", "message", "hint"),
    [
        ({"name": "a b"}, "knob name='a b' is not a word", "without spaces"),
        ({"kind": "number"}, "knob k: kind='number' is unknown", "integer, real, boolean"),
        ({"restart": "now"}, "knob k: restart='now' is unknown", "reload, restart, reboot"),
        ({"unit": "kb"}, "knob k: unit='kb' is not legal for kind=integer", "use B, kB"),
        ({"low": None}, "knob k: low=None is not legal", "needs low and high"),
        ({"low": 1.5}, "knob k: low=1.5 is not legal", "whole numbers, counted in unit='kB'"),
        ({"low": True}, "knob k: low=True is not legal", "whole numbers"),
        ({"high": float("inf")}, "knob k: high=inf is not legal", "whole numbers"),
        ({"low": 101}, "knob k: low=101 above high=100 is not legal", "swap them"),
        ({"step": 0}, "knob k: step=0 is not legal", "above zero"),
        ({"step": 0.5}, "knob k: step=0.5 is not legal", "whole numbers"),
        ({"low": 0, "log": True}, "knob k: log=True with low=0 is not legal", "needs low > 0"),
        ({"special": (50,)}, "knob k: special=50 inside low=10 high=100 is not legal", "lie outside the range"),
        ({"special": (0, 0)}, "knob k: special=(0, 0) is not legal", "once"),
        ({"special": ("off",)}, "knob k: special='off' is not legal", "whole numbers"),
        ({"default": "x"}, "knob k: default='x' is not legal", "whole numbers"),
        ({"choices": ("a",)}, "knob k: choices=('a',) is not legal", "have a range, not choices"),
    ],
)
def test_contradictory_numbers(change: dict[str, Any], message: str, hint: str) -> None:
    legal: dict[str, Any] = {"name": "k", "kind": KnobKind.INTEGER, "low": 10, "high": 100, "unit": "kB", "default": 10}
    Knob(**legal)
    with pytest.raises(SpaceError) as caught:
        Knob(**{**legal, **change})
    assert caught.value.message.startswith(message)
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("definition", "message", "hint"),
    [
        ({"kind": "boolean", "default": 1}, "knob k: default=1 is not legal for kind=boolean", "true or false"),
        ({"kind": "boolean", "default": True, "choices": ("a",)}, "knob k: choices=('a',)", "true or false"),
        ({"kind": "boolean", "default": True, "low": 0}, "knob k: low=0 is not legal", "have ranges"),
        ({"kind": "choice", "default": "a"}, "knob k: choices=() is not legal for kind=choice", "at least one"),
        ({"kind": "choice", "choices": ("a", "a"), "default": "a"}, "knob k: choices=('a', 'a')", "only once"),
        ({"kind": "choice", "choices": ("a",), "default": 1}, "knob k: choices=('a',) default=1", "are texts"),
        ({"kind": "ordinal", "choices": ("a",), "default": "a", "unit": "s"}, "knob k: special=()", "a unit"),
        ({"kind": "real", "low": 0, "high": 1e9, "step": 1e-12, "default": 0}, "knob k: step=1e-12", "fewer digits"),
    ],
)
def test_contradictory_definitions(definition: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(SpaceError) as caught:
        Knob(name="k", **definition)
    assert caught.value.message.startswith(message)
    assert hint in (caught.value.hint or "")


def test_reals_and_lists_are_brought_to_form() -> None:
    knob = Knob(name="k", kind=KnobKind.REAL, low=1, high=4, default=-0.0, special=[0])  # type: ignore[arg-type]
    assert (knob.low, knob.high, knob.special) == (1.0, 4.0, (0.0,))
    assert repr(knob.default) == "0.0"
    assert isinstance(hash(knob), int)


def test_what_a_knob_contains() -> None:
    knob = integer("k", 10, 100, step=20, special=(-1,), default=5)
    assert [v for v in range(-2, 120) if knob.contains(v)] == [-1, 10, 30, 50, 70, 90]
    assert knob.n_values == 6
    assert knob.contains(30.0)
    assert not any(knob.contains(value) for value in (True, "30", 30.5, float("nan"), None))
    stepped = real("r", 0.1, 0.7, step=0.1)
    assert stepped.contains(0.1 + 0.2)
    assert not stepped.contains(0.35)
    assert real("c", 0.0, 1.0).n_values == float("inf")
    assert not boolean("b").contains(1)
    assert choice("c", "x", "y").contains("y")


def test_clip() -> None:
    knob = integer("k", 10, 100, step=20, special=(-1,))
    assert [knob.clip(v) for v in (-1, 0, 19, 21, 1e300)] == [-1, 10, 10, 30, 90]
    stepped = real("r", 0.0, 1.0, step=0.1)
    assert stepped.clip(0.31) == 0.3
    with pytest.raises(SpaceError, match="low=None high=None"):
        boolean("b").clip(3)


@given(st.data(), integers() | reals())
def test_clipping_is_idempotent_and_legal(data: st.DataObject, knob: Knob) -> None:
    value = knob.clip(data.draw(st.floats(allow_nan=False, allow_infinity=False)))
    assert knob.contains(value)
    assert knob.clip(value) == value


@given(st.data(), knobs())
def test_values_survive_printing(data: st.DataObject, knob: Knob) -> None:
    value = data.draw(values_of(knob))
    back = knob.parse(knob.format(value))
    assert (back, type(back)) == (value.strip() if isinstance(value, str) else value, type(value))


def test_values_read() -> None:
    knob = integer("m", 1, 2**20, unit="8kB", special=(-1,))
    assert (knob.parse("512MB"), knob.parse(" 7 "), knob.parse("-1")) == (65536, 7, -1)
    assert (boolean("b").parse("On"), boolean("b").parse("false")) == (True, False)


@pytest.mark.parametrize(
    ("knob", "text", "message"),
    [
        (integer("m", 1, 9, unit="8kB"), "12kB", "m='12kB' is not a whole number of unit='8kB'"),
        (integer("m", 1, 9, unit="8kB"), "12s", "m='12s' is not a value: value='12s' has a unit that does not fit"),
        (integer("m", 1, 9), "many", "m='many' is not a value: value='many' is not a number"),
        (boolean("b"), "maybe", "b='maybe' is neither on nor off"),
    ],
)
def test_texts_that_are_no_values(knob: Knob, text: str, message: str) -> None:
    with pytest.raises(SpaceError) as caught:
        knob.parse(text)
    assert caught.value.message.startswith(message)
    assert caught.value.hint
