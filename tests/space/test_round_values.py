"""Candidates live on values that a person would write, and a space of such values keeps all its promises."""

from __future__ import annotations

import re

import numpy as np
import pytest

from trimtab.errors import SpaceError
from trimtab.space import Config, Constraint, Knob, Space


def _knob(name: str, **values: object) -> Knob:
    return Knob(**{"name": name, "kind": "integer", "is_round": True, **values})  # type: ignore[arg-type]


BUFFERS = _knob("buffers", low=2048, high=91750, log=True, unit="8kB", default=16384)
COST = _knob("cost", kind="real", low=0.0005, high=0.05, log=True, default=0.005)
TIMEOUT = _knob("timeout", low=30, high=3600, unit="s", log=True, default=300)
SHARE = _knob("share", kind="real", low=0.1, high=0.95, default=0.9)
READS = _knob("reads", low=1, high=512, log=True, special=(0,), default=16)


@pytest.mark.parametrize(
    ("knob", "some"),
    [
        (BUFFERS, ["16MB", "128MB", "384MB", "512MB"]),
        (COST, ["0.0005", "0.005", "0.015", "0.05"]),
        (TIMEOUT, ["30s", "5min", "15min", "1h"]),
        (SHARE, ["0.5", "0.9"]),
        (READS, ["0", "16", "100", "200", "512"]),
        (_knob("cost", kind="real", low=1.0, high=8.0, log=True, default=4.0), ["1", "1.1", "1.5", "4"]),
    ],
)
def test_values_are_what_people_write(knob: Knob, some: list[str]) -> None:
    space = Space([knob])
    texts = [knob.format(value).removesuffix(".0") for value in space.levels(knob.name)]
    assert set(some) <= set(texts)
    for text in texts:
        digits = re.sub(r"[a-zA-Z]", "", text).replace(".", "").strip("0")
        assert len(digits) <= 4, text
    assert not [text for text in texts if text.endswith("kB") and len(text) > 6]
    assert 5 <= len(texts) <= 60


def test_a_short_range_is_left_whole() -> None:
    knob = _knob("workers", low=1, high=8, default=2)
    assert Space([knob]).levels("workers") == (1, 2, 3, 4, 5, 6, 7, 8)


def test_a_range_between_two_round_values_is_left_whole() -> None:
    knob = _knob("size", low=1_000_001, high=1_000_090, unit="B", log=True, default=1_000_001)
    assert Space([knob]).n_levels("size") == 90


def test_steps_hold_and_an_end_that_somebody_wrote_is_legal() -> None:
    stepped = _knob("pool", low=128 << 20, high=768 << 20, unit="B", log=True, step=8 << 20, default=128 << 20)
    assert all((value - (128 << 20)) % (8 << 20) == 0 for value in Space([stepped]).levels("pool"))
    ends = _knob("work", low=13 << 10, high=200 << 10, unit="kB", log=True, default=16 << 10)
    assert {13 << 10, 200 << 10} <= set(Space([ends]).levels("work"))


def test_points_and_configs_go_both_ways_and_repairs_stay_round() -> None:
    space = Space([BUFFERS, COST, TIMEOUT, SHARE, READS], [Constraint("buffers * 3 <= 1GB")])
    rng = np.random.default_rng(1)
    for config in space.sample(100, rng):
        assert space.decode(space.encode(config)) == config
        assert space.is_feasible(config)
    large = space.validate({**space.default(), "buffers": 81920})
    repaired = space.repair(large)
    assert space.is_feasible(repaired)
    assert BUFFERS.format(repaired["buffers"]) == "320MB"
    low, high = space.bounds()["buffers"]
    assert low <= int(repaired["buffers"]) <= high


def test_the_found_value_is_legal_however_odd_and_others_are_refused() -> None:
    odd = _knob("buffers", low=2048, high=91750, log=True, unit="8kB", default=51351)
    space = Space([odd])
    assert space.default() == Config({"buffers": 51351})
    assert space.decode(space.encode(space.default())) == space.default()
    with pytest.raises(
        SpaceError,
        match=r"buffers=410816kB \(51352 in 8kB\) is not one of the round values that are tried \(nearest: 384MB\)",
    ):
        space.validate({"buffers": 51352})
