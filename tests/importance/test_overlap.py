"""What overlapping intervals of ranks are said to show, and what not."""

from __future__ import annotations

from trimtab.importance import KnobRank
from trimtab.importance.resample import overlap_verdict


def _ranked(*intervals: tuple[float, float]) -> tuple[KnobRank, ...]:
    return tuple(
        KnobRank(knob=f"k{n}", score=0.3, score_low=0.1, score_high=0.5, rank=n, rank_low=low, rank_high=high)
        for n, (low, high) in enumerate(intervals, 1)
    )


def test_intervals_that_overlap_show_neither_an_order_nor_that_knobs_are_equal() -> None:
    said = overlap_verdict(_ranked((1, 3), (1, 3), (2, 3)))
    assert said == (
        "not enough data to tell: the rank intervals of all knobs overlap; one may matter more than another all the same, "
        "but which one is not shown"
    )


def test_one_knob_that_is_surely_before_another_is_enough() -> None:
    assert overlap_verdict(_ranked((1, 2), (1, 3), (3, 3))) == ""
    assert overlap_verdict(_ranked((1, 1))) == ""
