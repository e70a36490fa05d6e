"""The stored space: read back exactly."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.errors import HistoryError
from trimtab.history import History, read_space, space_from_json, space_to_json
from trimtab.history.codec import dumps, loads
from trimtab.space import Constraint, Knob, KnobKind, Space, Value

from .real import unpack_real
from .samples import study_values

KNOBS = (
    Knob(name="cache", kind=KnobKind.INTEGER, low=16, high=4096, log=True, unit="8kB", special=(-1, 0), default=128),
    Knob(name="cost", kind=KnobKind.REAL, low=0.5, high=8.0, step=0.1, default=4.0),
    Knob(name="sort", kind=KnobKind.INTEGER, low=64, high=65536, unit="kB", default=4096),
    Knob(name="jit", kind=KnobKind.BOOLEAN, default=True),
    Knob(name="jit_cost", kind=KnobKind.REAL, low=0.0, high=1e6, default=1e5, condition="jit and planner == 'full'"),
    Knob(name="method", kind=KnobKind.CHOICE, choices=("ünï", "b", "c"), default="b"),
)
EMPTY: dict[str, Any] = {"knobs": [], "constraints": [], "also_legal": {}, "fixed": {}}
NUMBERS = st.floats(min_value=1.0, max_value=1e18)


def through_json(space: Space) -> Space:
    stored: dict[str, Any] = loads(dumps(space_to_json(space)))
    return space_from_json(stored)


def facts(space: Space) -> tuple[Any, ...]:
    return list(space.knobs.items()), space.constraints, space.also_legal, space.fixed


@pytest.mark.slow
@settings(deadline=None)
@given(
    memory=NUMBERS,
    clients=NUMBERS,
    own=st.lists(st.integers(5000, 9000), max_size=3, unique=True),
    fixed=st.sampled_from(["full", "none"]),
)
def test_a_space_comes_back_as_it_was(memory: float, clients: float, own: list[int], fixed: Value) -> None:
    constraints = [
        Constraint("cache + sort * clients <= memory", "budget", {"memory": memory, "clients": clients}),
        Constraint("sort <= 32MB"),
    ]
    space = Space(KNOBS, constraints, also_legal={"cache": own}, fixed={"planner": fixed, "other": math.inf})
    found = through_json(space)
    assert facts(found) == facts(space)
    points = np.random.default_rng(1).random((64, space.n_dims))
    assert found.decode_many(points) == space.decode_many(points)
    assert np.array_equal(found.feasible_mask(points), space.feasible_mask(points))


def test_a_study_gives_its_space(tmp_path: Path) -> None:
    space = Space(KNOBS, [Constraint("cache <= limit", constants={"limit": 2.0**23})], also_legal={"sort": (7,)})
    with History.open(tmp_path / "h.db") as history:
        history.create_study(**study_values(space=space_to_json(space)))
        record = history.find_study("tpch")
    assert record is not None
    assert facts(read_space(record)) == facts(space)


def test_real_spaces_can_be_built(tmp_path: Path) -> None:
    """Running values that the range leaves out are legal."""
    with History.open(unpack_real(tmp_path / "history.db")) as history:
        for name, n_constraints in (("demo", 2), ("ya", 3)):
            study = history.find_study(name)
            assert study is not None
            space = read_space(study)
            assert list(space.knobs) == [knob["name"] for knob in study.space["knobs"]]
            assert len(space.constraints) == n_constraints
            assert space.validate(study.baseline) == study.baseline


@pytest.mark.parametrize(
    "space",
    [
        {"knobs": [{"name": "a"}]},
        {"knobs": 3},
        {**EMPTY, "constraints": [{"text": "a <=", "name": "", "constants": {}}]},
        {**EMPTY, "constraints": [{"text": "a <= memory", "name": "budget", "constants": {}}]},
        {**EMPTY, "also_legal": {"a": [1]}},
        {**EMPTY, "fixed": 3},
    ],
)
def test_what_is_no_space_is_refused(space: dict[str, Any]) -> None:
    with pytest.raises(HistoryError, match="a stored space cannot be read") as caught:
        space_from_json(space)
    assert caught.value.hint == "it is damaged; restore a copy of the history"
