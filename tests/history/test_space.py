"""The stored space: read back exactly; what version 1 did not keep is named."""

from __future__ import annotations

import gzip
import json
import math
import sqlite3
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

from .samples import study_values

FORMER = Path(__file__).parent / "former" / "v1.db.gz"

KNOBS = (
    Knob(name="cache", kind=KnobKind.INTEGER, low=16, high=4096, log=True, unit="8kB", special=(-1, 0), default=128),
    Knob(name="cost", kind=KnobKind.REAL, low=0.5, high=8.0, step=0.1, default=4.0),
    Knob(name="sort", kind=KnobKind.INTEGER, low=64, high=65536, unit="kB", default=4096),
    Knob(name="jit", kind=KnobKind.BOOLEAN, default=True),
    Knob(name="jit_cost", kind=KnobKind.REAL, low=0.0, high=1e6, default=1e5, condition="jit and planner == 'full'"),
    Knob(name="method", kind=KnobKind.CHOICE, choices=("ünï", "b", "c"), default="b"),
)
NUMBERS = st.floats(min_value=1.0, max_value=1e18)


def through_json(space: Space) -> Space:
    stored: dict[str, Any] = loads(dumps(space_to_json(space)))
    found, notes = space_from_json(stored)
    assert notes == ()
    return found


def facts(space: Space) -> tuple[Any, ...]:
    return list(space.knobs.items()), space.constraints, space.also_legal, space.fixed


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


def test_what_version_1_did_not_store_is_named() -> None:
    stored = space_to_json(Space(KNOBS, [Constraint("cache <= sort")]))
    for key in ("also_legal", "fixed"):
        del stored[key]
    stored["constraints"] = [{"text": "cache <= sort", "name": ""}, {"text": "cache <= memory", "name": "budget"}]
    space, notes = space_from_json(stored)
    assert [constraint.text for constraint in space.constraints] == ["cache <= sort"]
    assert notes == ("constraint 'budget' is left out: its memory was not stored",)


def test_real_spaces_of_version_1_can_be_built(tmp_path: Path) -> None:
    path = tmp_path / "v1.db"
    path.write_bytes(gzip.decompress(FORMER.read_bytes()))
    connection = sqlite3.connect(path)
    bodies = [json.loads(row[0]) for row in connection.execute("select body from trimtab_study order by id")]
    connection.close()
    spaces = [space_from_json(body["space"]) for body in bodies]
    assert [len(space.knobs) for space, _ in spaces] == [len(body["space"]["knobs"]) for body in bodies]
    assert spaces[0][1][0].startswith("constraint 'memory budget' is left out: its ")


@pytest.mark.parametrize(
    "space",
    [
        {"knobs": [{"name": "a"}]},
        {"knobs": 3},
        {"knobs": [], "constraints": [{"text": "a <=", "name": ""}]},
        {"knobs": [], "also_legal": {"a": [1]}},
        {"knobs": [], "fixed": 3},
    ],
)
def test_what_is_no_space_is_refused(space: dict[str, Any]) -> None:
    with pytest.raises(HistoryError, match="a stored space cannot be read") as caught:
        space_from_json(space)
    assert caught.value.hint == "it is damaged; restore a copy of the history"
