"""Bounds, repair, drawing and neighbours, against brute force on small spaces."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.space.spaces import boolean, choice, integer, real
from trimtab.errors import SpaceError
from trimtab.space import Config, Constraint, Knob, Space, Value
from trimtab.space.feasible import Feasibility
from trimtab.space.interval import can_hold

NAMES = "abc"


@st.composite
def small_knobs(draw: st.DrawFn) -> list[Knob]:
    found = []
    for name in NAMES[: draw(st.integers(1, 3))]:
        low = draw(st.integers(0, 5))
        special = (-1,) if draw(st.booleans()) else ()
        reach, step = draw(st.integers(0, 8)), draw(st.integers(1, 3))
        found.append(integer(name, low, low + reach, step=step, special=special))
    return found


@st.composite
def linear(draw: st.DrawFn, knobs: list[Knob]) -> Constraint:
    terms = [f"{draw(st.integers(-4, 4))} * {knob.name}" for knob in knobs]
    sign = draw(st.sampled_from(["<=", ">=", "<", ">", "=="]))
    return Constraint(f"{' + '.join(terms)} {sign} {draw(st.integers(-10, 25))}")


@st.composite
def crooked(draw: st.DrawFn, knobs: list[Knob]) -> Constraint:
    a, b = draw(st.sampled_from(knobs)).name, draw(st.sampled_from(knobs)).name
    number = draw(st.integers(-3, 30))
    shapes = ["{a} * {b} <= {n}", "max({a}, {b}) <= {n}", "{a} % 2 == 1 or {b} > {n}", "{a} if {b} > 3 else {a} < {n}"]
    shape = draw(st.sampled_from([*shapes, "abs({a} - {b}) <= {n}", "not {a} == {b}", "{a} // 2 + {b} > {n}"]))
    return Constraint(shape.format(a=a, b=b, n=number))


def every(space: Space) -> list[Config]:
    """All configs of a small space."""
    names = list(space.knobs)
    return [Config(dict(zip(names, v, strict=True))) for v in itertools.product(*(space.levels(n) for n in names))]


@pytest.mark.slow
@given(st.data(), small_knobs())
def test_bounds_and_repair_are_exact_for_linear_constraints(data: st.DataObject, knobs: list[Knob]) -> None:
    constraints = data.draw(st.lists(linear(knobs), min_size=1, max_size=3))
    space = Space(knobs, constraints)
    configs = every(space)
    feasible = [config for config in configs if space.is_feasible(config)]
    if not feasible:
        with pytest.raises(SpaceError, match=r"no config meets|contradict each other"):
            space.require_feasible()
        return
    for knob in knobs:
        regular = [config[knob.name] for config in feasible if config[knob.name] not in knob.special]
        wanted = (min(regular), max(regular)) if regular else (knob.range.low, knob.range.high)
        assert space.bounds()[knob.name] == wanted
    points = np.array([space.encode(config) for config in feasible])
    config = data.draw(st.sampled_from(configs))
    repaired = space.repair(config)
    assert space.is_feasible(repaired)
    moved = np.abs(space.encode(repaired) - space.encode(config)).sum()
    assert moved == pytest.approx(np.abs(points - space.encode(config)).sum(axis=1).min(), abs=1e-9)


@pytest.mark.slow
@given(st.data(), small_knobs())
def test_bounds_never_cut_and_repair_always_mends(data: st.DataObject, knobs: list[Knob]) -> None:
    texts = st.lists(crooked(knobs) | linear(knobs), min_size=1, max_size=3)
    space = Space(knobs, data.draw(texts))
    feasible = [config for config in every(space) if space.is_feasible(config)]
    assume(feasible)
    for name, (low, high) in space.bounds().items():
        assert all(low <= c[name] <= high for c in feasible if c[name] not in space.knobs[name].special)  # type: ignore[operator]
    config = data.draw(st.sampled_from(every(space)))
    repaired = space.repair(config)
    assert space.is_feasible(repaired)
    assert space.validate(repaired) == repaired
    assert space.repair(repaired) == repaired
    assert not space.is_feasible(config) or repaired == config


BIG = [
    integer("a", 1, 2**31 - 1, log=True, unit="kB"),
    integer("b", 3, 2**31 - 1, unit="kB"),
    integer("c", 7, 2**31 - 1, unit="8kB", special=(-1, 0), default=7),
]


@pytest.mark.parametrize("limit", [10_000, 123_456_789, 2**31 - 2, 3 * 2**31 + 1])
def test_bounds_are_exact_for_huge_ranges(limit: int) -> None:
    space = Space(BIG, [Constraint(f"a + 3 * b + c <= {limit}kB")])
    assert space.bounds() == {
        # The other knobs at their least: c is at its special value 0 or -1, which counts as -1 byte.
        "a": (1, min(2**31 - 1, limit - 9)),
        "b": (3, min(2**31 - 1, (limit - 1) // 3)),
        "c": (7, min(2**31 - 1, (limit - 10) // 8)),
    }
    repaired = space.repair(Config({"a": 2**31 - 1, "b": 2**30, "c": 2**30}))
    assert space.is_feasible(repaired)


def test_memory_budget_with_a_product_is_bounded() -> None:
    space = Space(
        [
            integer("buffers", 2048, 2**20, unit="8kB", log=True),
            integer("work_mem", 64, 2**21, unit="kB", log=True),
            real("factor", 1.0, 8.0),
        ],
        [Constraint("buffers + 10 * work_mem * factor <= 1GiB")],
    )
    bounds = space.bounds()
    assert bounds["buffers"] == (2048, (2**30 - 640 * 1024) // 8192)
    assert bounds["work_mem"] == (64, (2**30 - 2**24) // 10240)
    assert bounds["factor"] == (1.0, 8.0)


def test_a_budget_of_many_knobs_is_bounded_in_few_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look goes through the whole constraint, and a stack's has dozens of knobs."""
    looks: list[Any] = []

    def counted(*given: Any) -> bool:
        looks.append(given)
        return can_hold(*given)

    monkeypatch.setattr("trimtab.space.tighten.can_hold", counted)
    knobs = [integer("n", 1, 500), *(integer(f"k{i}", 1, 2**20) for i in range(12))]
    space = Space(knobs, [Constraint(" + ".join(f"n * k{i}" for i in range(12)) + f" <= {2**16}")])
    assert space.bounds()["k3"] == (1, 2**16 - 11)
    assert len(looks) < 25 * len(knobs) + 4 * len(knobs)


def test_max_and_min_stay_linear() -> None:
    knobs = [integer("a", 0, 100), integer("b", 0, 100), real("r", 0.0, 10.0)]
    space = Space(knobs, [Constraint("10 + max(a, 2 * b) <= min(60, 70 - 2 * r) and abs(a - b) <= 5")])
    assert space.bounds() == {"a": (0, 30), "b": (0, 25), "r": (0.0, 10.0)}
    assert Space(knobs, [Constraint("2 * r + a < 5.5 and r / 2 >= 1")]).bounds()["r"] == (2.0, 2.75)


def test_the_bounds_cut_off_no_feasible_config() -> None:
    space = Space(
        [integer("a", 0, 9, default=9), integer("b", 0, 9, special=(-1,)), choice("m", "x", "y")],
        [Constraint("a + b <= 7"), Constraint("b >= 2 or m == 'y'")],
    )
    bounds = space.bounds()
    assert bounds == {"a": (0, 8), "b": (0, 7)}
    ends = {"a": {0, 8}, "b": {0, 7, -1}}
    feasible = [config for config in every(space) if space.is_feasible(config)]
    for name, (low, high) in bounds.items():
        values = {config[name] for config in feasible}
        assert ends[name] <= values
        assert values - {-1} <= set(range(int(low), int(high) + 1))
    assert Space([]).bounds() == {}


def test_bounds_cut_off_no_round_value_of_a_range_that_spans_many_powers_of_ten() -> None:
    wait = real("wait", 0.1, 1e12, log=True, is_round=True, unit="s")
    space = Space([wait], [Constraint("wait <= (1s if wait > 1s else 3s)")])
    assert dict(space.bounds()) == {"wait": (0.1, 1.0)}
    assert {c["wait"] for c in space.sample(50, np.random.default_rng(0))} == {0.1, 1.0}


def test_a_range_without_feasible_values_stays_as_it_is() -> None:
    space = Space([integer("a", 5, 9, special=(0,)), integer("b", 0, 9)], [Constraint("a + b <= 4")])
    assert space.bounds() == {"a": (5, 9), "b": (0, 4)}
    assert {c["a"] for c in space.sample(50, np.random.default_rng(0))} == {0}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["a >= 5", "b >= 3", "a + b <= 4"], "these constraints contradict each other: a >= 5; a + b <= 4"),
        (["b >= 0", "a > 9"], "no config meets a > 9"),
        (["a * b > 100"], "no config meets a * b > 100"),
        (["a * b > 60", "a + b < 12"], "these constraints contradict each other: a * b > 60; a + b < 12"),
        (["a % 2 == 0", "b >= 1", "a % 2 == 1"], "no config was found that meets a % 2 == 0; a % 2 == 1"),
        (["m == 'z'"], "no config meets m == 'z'"),
        (["1 > 2"], "no config meets 1 > 2"),
        (["limit > 2"], "no config meets limit > 2"),
        (["limit * limit > 2 or 0"], "no config meets limit * limit > 2 or 0"),
    ],
)
def test_contradictions_are_named(texts: list[str], message: str) -> None:
    knobs = [integer("a", 0, 9), integer("b", 0, 9), choice("m", "x", "y")]
    space = Space(knobs, [Constraint(text) for text in texts], fixed={"limit": 1})
    actions = (
        space.require_feasible,
        lambda: space.sample(1, np.random.default_rng(0)),
        lambda: space.repair(space.default()),
    )
    for action in actions:
        with pytest.raises(SpaceError) as caught:
            action()
        assert caught.value.message.startswith(message)
        one = "loosen it, or widen the ranges of its knobs"
        several = "loosen one of them, or widen the ranges of their knobs"
        assert caught.value.hint == (several if ";" in message else one)


@pytest.mark.parametrize(
    ("text", "shortfall"),
    [
        ("a > 12", "the left side is at most 9, the right side at least 12"),
        ("a > 9", ""),
        ("a + 3 <= 2", "the left side is at least 3, the right side at most 2"),
        ("1 == 1 and size < limit", "the left side is at least 1MiB, the right side at most 512KiB"),
        ("m == 'z'", ""),
        ("a != a", ""),
    ],
)
def test_a_single_impossible_constraint_says_how_far_it_is_from_holding(text: str, shortfall: str) -> None:
    knobs = [integer("a", 0, 9), integer("size", 1, 64, unit="MB"), choice("m", "x", "y")]
    space = Space(knobs, [Constraint(text, "rule", hint="give it more")], fixed={"limit": 512.0 * 1024})
    with pytest.raises(SpaceError) as caught:
        space.require_feasible()
    assert caught.value.message.endswith(f"rule ({text})" + (f": {shortfall}" if shortfall else ""))
    assert caught.value.hint == "give it more"


@pytest.mark.parametrize("text", ["' '", "m", "'x' if a > 3 else 'y'"])
def test_a_text_is_no_condition(text: str) -> None:
    with pytest.raises(SpaceError, match="is a text and no condition") as caught:
        Space([integer("a", 0, 9), choice("m", "x", "y")], [Constraint(text)])
    assert caught.value.hint == 'compare it, as in: method == "ring"'


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("a + 1", 3),
        ("-a", 1),
        ("2 * a and b > 1", 3),
        ("not max(a, b)", 5),
        ("b if a + 1 else true", 8),
        ("2", 1),
        ("1MB", 1),
    ],
)
def test_arithmetic_is_no_condition(text: str, at: int) -> None:
    """It would hold wherever it is not 0: mostly who wrote it has forgotten the other half."""
    message = rf"arithmetic instead of a condition at character {at}\b"
    with pytest.raises(SpaceError, match=message) as caught:
        Space([integer("a", 0, 9), integer("b", 0, 9)], [Constraint(text)])
    assert caught.value.hint == "compare it with something, as in: reads > 2 * writes"
    with pytest.raises(SpaceError, match=message):
        Space([integer("a", 0, 9), integer("b", 0, 9), integer("c", 0, 9, condition=text)])


@pytest.mark.parametrize("text", ["jit", "not jit", "jit and a > 1 or true", "a > 2 if jit else false", "(a > 2) == 1"])
def test_truth_is_a_condition(text: str) -> None:
    space = Space([integer("a", 0, 9, default=5), boolean("jit")], [Constraint(text)])
    assert space.is_feasible(space.validate({"a": 9, "jit": text != "not jit"}))


def test_a_contradiction_has_the_names_of_its_constraints() -> None:
    space = Space([integer("a", 0, 9)], [Constraint("a > 5", "floor"), Constraint("a < 5", "ceiling")])
    with pytest.raises(SpaceError, match=r"floor \(a > 5\); ceiling \(a < 5\)"):
        space.require_feasible()


WIDE = [
    integer("size", 64, 2**20, log=True, unit="kB", special=(-1,), default=64),
    integer("n", 1, 40, default=2),
    real("cost", 0.0, 4.0),
    boolean("jit"),
    integer("above", 1, 500, condition="jit"),
    choice("mode", "x", "y", "z"),
    integer("free", 0, 1000),
]
TIGHT = [Constraint("size * n <= 2MB"), Constraint("cost + n <= 8"), Constraint("above < 100 or mode != 'x'")]


@cache
def tight() -> Space:
    """Made once for all examples: it is immutable."""
    return Space(WIDE, TIGHT)


def test_samples_are_feasible_deterministic_and_spread() -> None:
    space = tight()
    configs = space.sample(400, np.random.default_rng(5))
    assert len(configs) == 400
    assert all(space.is_feasible(config) and space.canonical(config) == config for config in configs)
    assert space.sample(400, np.random.default_rng(5)) == configs
    assert space.sample(400, np.random.default_rng(6)) != configs
    assert space.sample(0, np.random.default_rng(5)) == []
    assert {config["mode"] for config in configs} == {"x", "y", "z"}
    assert 20 <= sum(config["size"] == -1 for config in configs) <= 130
    free = np.array([config["free"] for config in configs], dtype=float)
    assert abs(free.mean() - 500) < 5 * 289 / 20


def test_a_sliver_is_sampled_by_repair() -> None:
    knobs = [integer(name, 0, 10**6) for name in "abcd"]
    space = Space(knobs, [Constraint("a + b + c == d and a >= b"), Constraint("c * a >= 10")])
    configs = space.sample(5, np.random.default_rng(0))
    assert len(configs) == 5
    assert all(space.is_feasible(config) for config in configs)


def test_where_reals_must_add_up_nothing_is_drawn_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty thousand points were drawn for each config, of which none met the equation."""
    space = Space([real(name, 0.0, 1.0, default=0.25) for name in "abcd"], [Constraint("a + b + c + d == 1")])
    space.require_feasible()
    plain = Feasibility.feasible_points
    looks: list[int] = []

    def counted(self: Feasibility, points: np.ndarray) -> np.ndarray:
        looks.append(len(points))
        return plain(self, points)

    monkeypatch.setattr(Feasibility, "feasible_points", counted)
    (config,) = space.sample(1, np.random.default_rng(4))
    assert space.is_feasible(config)
    assert sum(looks) < 1000


def test_a_real_that_is_given_its_value_leaves_others_spread_as_ever() -> None:
    """Repair would put what it moves on the edge of what the other constraint leaves."""
    knobs = [real("a", 0.0, 1.0, default=0.25), integer("b", 0, 1000), integer("c", 0, 1000)]
    space = Space(knobs, [Constraint("a == 0.25"), Constraint("b + c <= 1000")])
    configs = space.sample(200, np.random.default_rng(1))
    assert {config["a"] for config in configs} == {0.25}
    assert sum(int(config["b"]) + int(config["c"]) >= 995 for config in configs) < 20
    found = space.neighbours({"a": 0.25, "b": 500, "c": 500}, np.random.default_rng(1), 20, radius=0.1)
    assert len(found) == 20
    assert all(map(space.is_feasible, found))


def test_repair_leaves_what_no_constraint_speaks_of() -> None:
    space = tight()
    bad: dict[str, Value] = {"size": 2**20, "n": 40, "cost": 4.0, "jit": False, "above": 1, "mode": "z", "free": 777}
    repaired = space.repair(bad)
    assert space.is_feasible(repaired)
    assert (repaired["free"], repaired["mode"], repaired["jit"]) == (777, "z", False)


def test_many_are_repaired_at_once_and_each_as_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search with few feasible candidates repairs dozens of them for each ask."""
    space, plain = tight(), Feasibility.feasible_points
    space.require_feasible()
    points = np.random.default_rng(2).random((40, space.n_dims))
    looks: list[int] = []

    def counted(self: Feasibility, points: np.ndarray) -> np.ndarray:
        looks.append(len(points))
        return plain(self, points)

    monkeypatch.setattr(Feasibility, "feasible_points", counted)
    moved, n_looks = space.feasible_configs(points), len(looks)
    bad = [config for config in space.decode_many(points) if not space.is_feasible(config)]
    assert len(bad) > 20
    assert moved == [space.repair(config) for config in space.decode_many(points)]
    assert n_looks < (len(looks) - n_looks) / 4


@pytest.mark.slow
@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.floats(0.001, 0.5))
def test_neighbours_differ_in_few_knobs_and_are_feasible(seed: int, radius: float) -> None:
    space = tight()
    centre = space.sample(1, np.random.default_rng(seed))[0]
    found = space.neighbours(centre, np.random.default_rng(seed), 30, radius=radius)
    assert len(set(found)) == len(found) == 30
    assert centre not in found
    assert all(space.is_feasible(config) for config in found)
    assert np.mean([len(config.difference(centre)) for config in found]) < 4
    assert space.neighbours(centre, np.random.default_rng(seed), 30, radius=radius) == found


def test_where_reals_must_add_up_neighbours_give_what_one_of_them_takes() -> None:
    """Of one knob alone none could change, so there were no neighbours."""
    names = "abcdefgh"
    space = Space([real(name, 0.0, 1.0, default=0.125) for name in names], [Constraint(f"{' + '.join(names)} == 1")])
    found = space.neighbours(space.default(), np.random.default_rng(1), 12, radius=0.05)
    assert len(found) == 12
    assert all(map(space.is_feasible, found))
    moves = np.abs([space.encode(config) - 0.125 for config in found])
    assert moves.max() < 0.5
    assert np.median((moves > 0).sum(axis=1)) <= 4


def test_neighbours_reach_all_of_a_small_space() -> None:
    space = Space([integer("a", 1, 4), boolean("b")], [Constraint("a < 4")])
    found = space.neighbours({"a": 2, "b": True}, np.random.default_rng(0), 50, radius=0.01)
    assert {(c["a"], c["b"]) for c in found} == {(1, True), (3, True), (1, False), (2, False), (3, False)}


def test_near_means_near() -> None:
    space = Space([replace(WIDE[6], name=name) for name in "abcdef"])
    centre = Config(dict.fromkeys("abcdef", 500))
    moves = [
        abs(config[name] - 500)  # type: ignore[operator]
        for config in space.neighbours(centre, np.random.default_rng(1), 100, radius=0.02)
        for name in config.difference(centre)
    ]
    assert 5 < np.median(moves) < 40
    assert max(moves) < 200


def test_a_real_of_a_single_value_takes_part_in_linear_constraints() -> None:
    """A range that is computed from a machine may have shrunk to one."""
    fixed, count = real("fixed", 1.5, 1.5, default=1.5), integer("count", 0, 10)
    space = Space([fixed, count], [Constraint("2 * fixed + count <= 8"), Constraint("fixed >= 1.5")])
    assert dict(space.bounds()) == {"fixed": (1.5, 1.5), "count": (0, 5)}
    assert space.repair({"fixed": 1.5, "count": 9}) == Config({"fixed": 1.5, "count": 5})
    assert all(space.is_feasible(config) for config in space.sample(5, np.random.default_rng(1)))
    with pytest.raises(SpaceError, match="no config meets fixed < 1.5: the left side is at least 1.5"):
        Space([fixed], [Constraint("fixed < 1.5")]).require_feasible()
