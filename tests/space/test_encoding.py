"""The unit cube: every legal value has a place, and every place a legal value."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.space.spaces import boolean, choice, integer, knobs, real, values_of
from trimtab.errors import SpaceError
from trimtab.space import Config, Constraint, Knob, KnobKind, Space
from trimtab.space.lattice import Lattice
from trimtab.space.sampling import draw, drawn


@pytest.mark.slow
@given(st.data(), knobs())
def test_decoding_an_encoded_value_gives_it_back(data: st.DataObject, knob: Knob) -> None:
    space = Space([knob])
    config = space.validate({"k": data.draw(values_of(knob))})
    point = space.encode(config)
    assert 0.0 <= point[0] <= 1.0
    assert space.decode(point) == config


@pytest.mark.slow
@given(st.lists(st.floats(-0.5, 1.5), min_size=1, max_size=9), knobs())
def test_every_point_is_a_legal_value_and_snapping_is_idempotent(coordinates: list[float], knob: Knob) -> None:
    space = Space([knob])
    points = np.array(coordinates)[:, None]
    for config in space.decode_many(points):
        assert space.validate(config) == config
    snapped = space.snap(points)
    np.testing.assert_array_equal(space.snap(snapped), snapped)
    np.testing.assert_array_equal(space.snapped(points)[0], snapped)
    np.testing.assert_array_equal(space.snapped(points)[1], space.features_of_points(points))
    assert space.decode_many(snapped) == space.decode_many(points)
    assert [space.decode(point) for point in points] == space.decode_many(np.vstack([points, points]))[: len(points)]


@pytest.mark.parametrize("n", [1, 13, 14, 100, 4096, 5000])
def test_points_of_a_space_without_constraints_are_those_of_any_other(n: int) -> None:
    rngs = [np.random.default_rng(7) for _ in range(2)]
    plain = drawn(n, rngs[0], 3)
    general = draw(n, rngs[1], [(0.0, 0.0, 1.0)] * 3, lambda points: np.ones(len(points), dtype=np.bool_))
    np.testing.assert_array_equal(plain, general)
    assert rngs[0].bit_generator.state == rngs[1].bit_generator.state


@given(st.integers(1, 40), st.integers(-50, 50), st.integers(2, 9), st.integers(-400, 400))
def test_whole_numbers_have_the_level_that_fractions_have(step: int, low: int, n: int, value: int) -> None:
    lattice = Lattice(low, step, 1, n, False, True)
    exact = min(max(round(Fraction(value - low, step)), 0), n - 1)
    assert lattice.index(value) == lattice.index(float(value)) == exact


@pytest.mark.slow
@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize("high", [2**31 - 1, 2**40])
@given(value=st.integers(1, 2**31 - 1) | st.integers(1, 200) | st.integers(2**31 - 200, 2**31 - 1))
def test_huge_ranges_are_exact(log: bool, high: int, value: int) -> None:
    space = Space([integer("k", 1, high, log=log, unit="8kB", special=(-1, 0), default=5000)])
    value = min(value, high)
    for whole in (value, high - value + 1):
        assert space.decode(space.encode(Config({"k": whole}))) == Config({"k": whole})


def test_a_log_scale_reaches_all_small_integers() -> None:
    space = Space([integer("k", 1, 2**31 - 1, log=True)])
    reached = {config["k"] for config in space.decode_many(np.linspace(0, 1, 4000)[:, None])}
    assert set(range(1, 100)) <= reached
    assert max(value for value in reached if isinstance(value, int)) == 2**31 - 1


def test_a_linear_scale_gives_every_integer_the_same_share() -> None:
    space = Space([integer("k", 1, 10)])
    drawn = [config["k"] for config in space.decode_many(np.linspace(0, 1, 10_000)[:, None])]
    assert {drawn.count(value) for value in range(1, 11)} <= {999, 1000, 1001}


def test_special_values_own_the_bottom() -> None:
    space = Space([integer("k", 10, 10_000, special=(-1, 0), default=5)])
    grid = np.linspace(0.0005, 0.9995, 1000)
    drawn = [config["k"] for config in space.decode_many(grid[:, None])]
    assert [drawn.count(value) for value in (-1, 0, 5)] == [100, 100, 100]
    assert drawn[:300] == [-1] * 100 + [0] * 100 + [5] * 100
    one = Space([integer("k", 10, 10_000, special=(0,))])
    assert [c["k"] for c in one.decode_many(grid[:, None])].count(0) == 100


def test_choices_have_equal_bins_with_the_value_in_the_centre() -> None:
    space = Space([choice("c", "x", "y", "z"), boolean("b")])
    np.testing.assert_allclose(space.encode(Config({"c": "y", "b": True})), [0.5, 0.75])
    assert space.decode(np.array([0.66, 0.49])) == Config({"c": "y", "b": False})


def test_running_values_are_legal_exactly() -> None:
    odd = 0.123456789012345678
    space = Space(
        [real("r", 0.0, 1.0), integer("i", 10, 100, step=10), choice("c", "a", "b")],
        also_legal={"r": (odd,), "i": (37, 5000), "c": ("running",)},
    )
    for config in (Config({"r": odd, "i": 37, "c": "running"}), Config({"r": 0.5, "i": 5000, "c": "a"})):
        assert space.validate(config) == config
        assert space.decode(space.encode(config)) == config
    with pytest.raises(SpaceError, match="r=True is not a finite number"):
        Space([real("r", 0, 1)], also_legal={"r": (True,)})
    with pytest.raises(SpaceError, match=r"unknown knob='x'"):
        Space([real("r", 0, 1)], also_legal={"x": (1,)})


def test_reals_are_held_to_six_digits() -> None:
    space = Space([real("r", 0.0, 30.0)])
    assert space.validate({"r": 0.123456789})["r"] == 0.1235
    assert space.validate({"r": 7})["r"] == 7.0
    assert isinstance(space.validate({"r": 7})["r"], float)


@pytest.mark.slow
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(
    ("low", "high"), [(2400000.0, 2400050.0), (1e9, 1e9 + 10), (1234567.0, 1234569.0), (0.333, 0.3334)]
)
def test_a_range_far_from_zero_has_many_values(low: float, high: float, log: bool) -> None:
    space = Space([real("r", low, high, log=log)])
    found = space.decode_many(np.linspace(0, 1, 30_000)[:, None])
    assert len(set(found)) >= 10_000
    assert [space.decode(space.encode(config)) for config in found[::300]] == found[::300]


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e7), st.floats(0, 1), st.booleans())
def test_what_was_a_value_of_a_real_knob_still_is(low: float, width: float, place: float, log: bool) -> None:
    """In histories of versions that knew six digits only."""
    low = abs(low) + 1e-3 if log else low
    knob = real("r", low, low + width, log=log)
    high = float(knob.high or 0)
    value = low + place * (high - low)
    digits = 5 - math.floor(math.log10(abs(value) if log else max(abs(low), abs(high))))
    old = round(value, digits)
    if low + 10.0**-digits < old < high - 10.0**-digits:
        assert Space([knob]).validate({"r": old})["r"] == old


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (np.zeros((2, 3)), r"points of shape=\(2, 3\) for n_dims=1"),
        (np.array([[np.nan]]), "a coordinate of a point is NaN"),
    ],
)
def test_points_that_are_none(points: np.ndarray, message: str) -> None:
    space = Space([integer("k", 0, 3)], [Constraint("k >= 0")])
    for use in (space.decode_many, space.features_of_points, space.feasible_mask, space.snap):
        with pytest.raises(SpaceError, match=message):
            use(points)


@pytest.mark.parametrize(
    ("knob", "message"),
    [
        (integer("k", 0, 2**45), "knob k: 35184372088833 values are too many to be searched"),
        (integer("k", 2**60, 2**60 + 8), "knob k: values beyond 2^53 cannot be searched"),
        (real("k", -1.5e308, 1.5e308), "knob k: the range -1.5e+308 to 1.5e+308 is too wide"),
        (real("k", 1e-300, 1e10, log=True), "knob k: the range 1e-300 to 10000000000.0 is too wide"),
    ],
)
def test_ranges_that_cannot_be_searched(knob: Knob, message: str) -> None:
    with pytest.raises(SpaceError) as caught:
        Space([knob])
    assert caught.value.message == message
    assert caught.value.hint


MIXED = [
    integer("size", 64, 2**20, log=True, unit="kB", special=(-1,), default=32),
    integer("n", 1, 9),
    real("cost", 0.0, 4.0, default=9.0),
    boolean("jit"),
    integer("above", 1, 5, special=(0,), condition="jit"),
    choice("mode", "a", "b", "c"),
    Knob(name="level", kind=KnobKind.ORDINAL, choices=("low", "mid", "high"), default="low"),
]


def test_features_tell_configs_apart_and_lie_in_the_unit_interval() -> None:
    space = Space(MIXED)
    configs = space.sample(300, np.random.default_rng(0))
    features = space.features(configs)
    assert features.shape == (300, 13)
    assert features.min() >= 0
    assert features.max() <= 1
    assert len(np.unique(features, axis=0)) == len(set(configs))


def test_what_features_say() -> None:
    space = Space(MIXED)
    config = Config({"size": -1, "n": 9, "cost": 9.0, "jit": False, "above": 4, "mode": "b", "level": "mid"})
    row = dict(
        zip(space.feature_slices, (space.features([config])[0][s] for s in space.feature_slices.values()), strict=True)
    )
    assert {name: values.tolist() for name, values in row.items()} == {
        "size": [0.5, 1.0, 0.0],  # a fixed place while special, then the indicators of -1 and of the default 32
        "n": [1.0],
        "cost": [1.0, 1.0],  # above the useful range: clipped and marked
        "jit": [0.0],
        "above": [0.0, 0.0],  # inactive: as at its default
        "mode": [0.0, 1.0, 0.0],
        "level": [0.5],
    }


def test_features_of_points_are_those_of_their_configs() -> None:
    space = Space(MIXED)
    points = np.random.default_rng(1).random((200, 7))
    np.testing.assert_array_equal(space.features_of_points(points), space.features(space.decode_many(points)))
    few = [space.features([config])[0] for config in space.decode_many(points)]
    np.testing.assert_array_equal(few, space.features_of_points(points))


def test_levels() -> None:
    space = Space([*MIXED, integer("huge", 1, 2**31 - 1, special=(0,), unit="kB")])
    assert space.levels("n") == tuple(range(1, 10))
    assert space.levels("above") == (0, 1, 2, 3, 4, 5)
    assert space.levels("jit") == (False, True)
    assert space.levels("mode", 2) == ("a", "c")
    some = space.levels("huge", 11)
    assert (some[0], some[1], some[-1], len(some)) == (0, 1, 2**31 - 1, 11)
    assert (space.n_levels("above"), space.n_levels("cost")) == (6, float("inf"))
    with pytest.raises(SpaceError, match="unknown knob='modes'\nhint: did you mean mode"):
        space.levels("modes")


def test_size() -> None:
    assert Space(MIXED).size() == float("inf")
    assert Space([k for k in MIXED if k.name in ("n", "jit", "above", "mode")]).size() == 9 * 2 * 6 * 3
    assert Space([]).size() == 1
    small = Space([integer("a", 1, 7, step=3, special=(0,), default=5), boolean("b")])
    every = set(small.decode_many(np.array(list(itertools.product(np.linspace(0, 1, 101), repeat=2)))))
    assert len(every) == small.size() == 10


def test_a_space_of_many_wide_integers_has_a_size() -> None:
    """More configs than the largest float, and then a continuum."""
    wide = [integer(f"k{i:02}", 0, 2**40) for i in range(30)]
    assert Space(wide).size() == float("inf")
    assert Space([*wide, real("r", 0.0, 1.0)]).size() == float("inf")


def test_a_space_without_knobs() -> None:
    space = Space([])
    rng = np.random.default_rng(0)
    assert space.sample(2, rng) == [Config({}), Config({})]
    assert space.repair(Config({})) == space.default() == space.decode(np.empty(0)) == Config({})
    assert space.features([Config({})]).shape == (1, 0)
    assert space.neighbours(Config({}), rng, 3, radius=0.1) == []
    assert space.encode(Config({})).shape == (0,)


def test_bins_say_where_nearness_begins() -> None:
    space = Space(MIXED)
    starts, counts = space.bins
    found = {name: (start, int(n)) for name, start, n in zip(space.knobs, starts, counts, strict=True)}
    assert found["size"] == (pytest.approx(0.2), 2)
    assert found["n"] == (0.0, 0)
    assert found["mode"] == (1.0, 3)
    assert found["level"] == (0.0, 0)
    for name, (start, n) in found.items():
        points = np.full((n, space.n_dims), 0.5)
        points[:, list(space.knobs).index(name)] = (np.arange(n) + 0.5) * start / max(1, n)
        assert len({config[name] for config in space.decode_many(points)}) in (n, 1)
