"""What a session begins from where its knobs have no default, and numbers that no knob can have."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.session.conftest import spec
from trimtab.errors import SpaceError
from trimtab.session.spec import KnobSpec

HUGE = 10**400


@given(st.data(), st.sampled_from(["integer", "real"]), st.booleans())
def test_the_default_is_in_the_middle_of_the_range(data: st.DataObject, kind: Any, is_log: bool) -> None:
    step = data.draw(st.none() | st.integers(1, 1000))
    numbers = st.integers(-(10**12), 10**12) if kind == "integer" or step else st.floats(-1e300, 1e300)
    low, high = sorted(data.draw(numbers) for _ in range(2))
    log = is_log and low > 0
    knob = KnobSpec(name="k", kind=kind, low=low, high=high, step=step, log=log).knob()
    assert knob.contains(knob.default)
    if not log:
        assert isinstance(knob.default, int | float)
        off = max(step or (1 if kind == "integer" else 0), 0.01 * (high - low), 1e-13 * max(abs(low), abs(high)))
        assert abs(knob.default - (low / 2 + high / 2)) <= off


@pytest.mark.parametrize(
    ("low", "high", "log", "default"),
    [(0.0, 1.0, False, 0.5), (0.0, 1 / 3, False, 0.166667), (1.0, 100.0, True, 10.0), (1e-200, 1e-180, True, 1e-190),
     (1e300, 1.7e308, False, 8.5e307), (1234567.0, 1234569.0, False, 1234568.0), (2400000.0, 2400050.0, False, 2400025.0)],
)  # fmt: skip
def test_the_middle_is_a_short_number_where_it_can_be(low: float, high: float, log: bool, default: float) -> None:
    assert KnobSpec(name="k", kind="real", low=low, high=high, log=log).knob().default == default


@pytest.mark.parametrize(
    "more",
    [{"high": HUGE}, {"low": -HUGE}, {"step": HUGE}, {"high": HUGE, "step": HUGE // 10}, {"special": [HUGE]}, {"default": HUGE},
     {"low": 1, "high": HUGE, "log": True}, {"kind": "real", "high": HUGE}, {"kind": "real", "step": 5e-324},
     {"kind": "real", "low": -1.7e308, "high": 1.7e308}, {"kind": "real", "high": 1e308, "step": 1e-300}],
    ids=str,
)  # fmt: skip
def test_numbers_that_no_knob_can_have(more: dict[str, Any]) -> None:
    with pytest.raises(SpaceError, match="^knob k: "):
        spec(knobs=[{"name": "k", "kind": "integer", "low": 0, "high": 9, **more}]).task()


def test_a_knob_without_effect_stays_as_the_program_has_it_at_first() -> None:
    """Its default would be a change that a client makes and a report blames."""
    knobs = [
        {"name": "mode", "kind": "choice", "choices": ["a", "b"]},
        {"name": "size", "kind": "integer", "low": 0, "high": 10, "condition": "mode == 'b'"},
    ]
    task = spec(knobs=knobs, baseline={"size": 2}).task()
    assert task.baseline["size"] == 2
    assert task.space.canonical(task.baseline) == task.baseline
    assert task.space.validate({"mode": "b", "size": 5})["size"] == 5
