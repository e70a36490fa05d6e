"""Sizes of the advice: near what was asked for, and such as people write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.systems.memory import round_size
from trimtab.units import format_value

MIB = 1 << 20


@pytest.mark.parametrize(
    ("size", "step", "rounded"),
    [
        (1024 * MIB * 0.65, 1, 656 * MIB),
        (1024 * MIB * 0.65, 8 * MIB, 656 * MIB),
        (1677721, 1, 1632 << 10),
        (1677721, 4096, 1632 << 10),
        (63, 1, 63),
        (65, 1, 64),
        (100, 128, 0),
        (0.5, 1, 0),
    ],
)
def test_a_size_is_rounded_down_to_one_that_people_write(size: float, step: int, rounded: int) -> None:
    assert round_size(size, step) == rounded


@given(st.floats(1, 2**50), st.sampled_from([1, 128, 1024, 4096]))
def test_no_more_than_three_per_cent_and_one_step_are_lost(size: float, step: int) -> None:
    rounded = round_size(size, step)
    assert rounded % step == 0
    assert round_size(rounded, step) == rounded or rounded == 0
    assert size - max(step, size / 31) <= rounded <= size


def test_what_is_rounded_is_short_in_print() -> None:
    assert format_value(round_size(1677721), "B") == "1632kB"
