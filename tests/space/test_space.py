"""Spaces: validation, conditions, constraints and their messages, subspaces."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.space.spaces import boolean, choice, integer, real
from trimtab.errors import SpaceError
from trimtab.space import Config, Constraint, Knob, Space

MEMORY = [
    integer("shared_buffers", 2048, 2**20, log=True, unit="8kB", default=16384),
    integer("work_mem", 64, 2**21, log=True, unit="kB", default=4096),
    integer("autovacuum_work_mem", 1024, 2**21, unit="kB", special=(-1,), default=-1),
    real("hash_mem_multiplier", 1.0, 8.0, default=2.0),
    integer("wal_writer_delay", 1, 10_000, unit="ms", default=200),
    choice("wal_compression", "off", "pglz", "lz4"),
    boolean("jit"),
]
BUDGET = Constraint(
    "shared_buffers + clients * work_mem * hash_mem_multiplier <= memory", "memory", {"clients": 4, "memory": 2**30}
)


@pytest.mark.parametrize(
    ("change", "message", "hint"),
    [
        ({"work_men": 64}, "unknown knob='work_men'", "did you mean work_mem?"),
        ({"zzz": 64}, "unknown knob='zzz'", "known are: autovacuum_work_mem, hash_mem_multiplier"),
        ({"work_mem": "64MB"}, "work_mem='64MB' is not a whole number", "legal: 64kB to 2GB (64 to 2097152 in kB)"),
        ({"work_mem": 64.5}, "work_mem=64.5 is not a whole number", "legal: 64kB"),
        ({"work_mem": True}, "work_mem=True is not a whole number", "legal: 64kB"),
        ({"work_mem": [64]}, "work_mem=[64] is not a whole number", "legal: 64kB"),
        ({"work_mem": 63}, "work_mem=63kB (63 in kB) is out of range", "legal: 64kB to 2GB"),
        ({"autovacuum_work_mem": 0}, "autovacuum_work_mem=0 is out of range", "(1024 to 2097152 in kB), or -1"),
        (
            {"shared_buffers": 2**40},
            "shared_buffers=8192TB (1099511627776 in 8kB) is out of range",
            "legal: 16MB to 8GB",
        ),
        ({"hash_mem_multiplier": float("nan")}, "hash_mem_multiplier=nan is not a finite number", "legal: 1 to 8"),
        ({"jit": 1}, "jit=1 is not true or false", "legal: off, on"),
        ({"wal_compression": 0}, "wal_compression=0 is not a text", "legal: off, pglz, lz4"),
        ({"wal_compression": "zstd"}, "wal_compression='zstd' is not a choice", "legal: off, pglz, lz4"),
    ],
)
def test_configs_that_are_not_valid(change: dict[str, Any], message: str, hint: str) -> None:
    space = Space(MEMORY)
    for use in (space.validate, space.encode, space.canonical, space.is_feasible, space.violations, space.repair):
        with pytest.raises(SpaceError) as caught:
            use({**space.default(), **change})
        assert caught.value.message == message
        assert hint in (caught.value.hint or "")


def test_missing_knobs_and_steps() -> None:
    space = Space([integer("a", 0, 100, step=10), integer("b", 0, 9, default=20, unit="MB")])
    with pytest.raises(SpaceError, match="no value for knob='a'\nhint: missing: a"):
        space.validate({"b": 1})
    with pytest.raises(SpaceError) as caught:
        space.validate({"a": 17, "b": 1})
    assert str(caught.value) == "a=17 is off the step=10 (nearest: 20)\nhint: legal: 0 to 100 in steps of 10"
    with pytest.raises(SpaceError, match=r"legal: 0 to 9MB \(0 to 9 in MB\), or 20MB"):
        space.validate({"a": 0, "b": 19})
    many = [space.default()] * 20
    with pytest.raises(SpaceError, match="a=17 is off the step=10"):
        space.features([*many, {"a": 17, "b": 1}])


def test_validate_casts_to_the_knobs_own_types() -> None:
    space = Space([integer("i", 0, 9), real("r", 0, 9)])
    config = space.validate({"i": 3.0, "r": 3})
    assert [(type(v), v) for v in config.values()] == [(int, 3), (float, 3.0)]


def test_a_knob_given_twice() -> None:
    for second in (integer("a", 0, 9), integer("a", 0, 8)):
        with pytest.raises(SpaceError, match="knob='a' is given twice"):
            Space([integer("a", 0, 9), second])


CHAIN = [
    integer("deep", 1, 9, condition="above >= 3", default=7),
    integer("above", 1, 5, condition="jit", default=1),
    boolean("jit", default=True),
]


def test_inactive_knobs_hold_their_default() -> None:
    space = Space(CHAIN)
    assert space.canonical({"deep": 2, "above": 4, "jit": True}) == Config({"deep": 2, "above": 4, "jit": True})
    assert space.canonical({"deep": 2, "above": 2, "jit": True}) == Config({"deep": 7, "above": 2, "jit": True})
    # With jit off, `above` is 1, and so `deep` is off as well.
    off = Config({"deep": 7, "above": 1, "jit": False})
    assert space.canonical({"deep": 2, "above": 4, "jit": False}) == off
    assert space.decode(space.encode(off)) == off
    decoded = space.decode_many(np.random.default_rng(0).random((200, 3)))
    assert all(space.canonical(config) == config for config in decoded)
    assert {config["above"] for config in decoded if not config["jit"]} == {1}


def test_constraints_are_about_canonical_configs() -> None:
    space = Space(CHAIN, [Constraint("above + deep <= 10")])
    assert space.is_feasible({"deep": 9, "above": 2, "jit": True})
    assert not space.is_feasible({"deep": 9, "above": 5, "jit": True})
    assert space.is_feasible({"deep": 9, "above": 5, "jit": False})


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        (("b > 1", "a > 1"), "conditions go in a circle: "),
        (("a > 1", None), "conditions go in a circle: a -> a"),
        (("b >", None), "constraint='b >': expected a value"),
        (("b == 'x'", None), "'==' needs numbers, found a text"),
    ],
)
def test_wrong_conditions(conditions: tuple[str | None, str | None], message: str) -> None:
    knobs = [integer(name, 0, 3, condition=text) for name, text in zip("ab", conditions, strict=True)]
    with pytest.raises(SpaceError) as caught:
        Space(knobs)
    assert message in caught.value.message


def test_conditions_on_knobs_outside_the_space() -> None:
    knob = integer("above", 1, 5, condition="jit")
    other = Config({"above": 3})
    assert Space([knob]).canonical(other) == other, "an unknown knob leaves it active"
    assert Space([knob], fixed={"jit": True}).canonical(other) == other
    assert Space([knob], fixed={"jit": False}).canonical(other) == Config({"above": 1})


@pytest.mark.parametrize(
    ("text", "change", "lines"),
    [
        ("work_mem <= 4MB", {}, ()),
        ("work_mem < 4MB", {}, ("work_mem < 4MB: 4194304 >= 4194304 (work_mem=4MB)",)),
        (
            "shared_buffers + 2 * work_mem <= 128MB",
            {"work_mem": 2048},
            ("shared_buffers + 2 * work_mem <= 128MB: 132MiB > 128MiB (shared_buffers=128MB, work_mem=2MB)",),
        ),
        (
            "wal_writer_delay >= 1s and jit",
            {},
            ("wal_writer_delay >= 1s and jit: 200ms < 1s (wal_writer_delay=200ms, jit=on)",),
        ),
        ("jit or work_mem > 1GB", {"jit": False}, ("jit or work_mem > 1GB: is false (jit=off, work_mem=4MB)",)),
        ("wal_compression != 'off'", {}, ("wal_compression != 'off': off == off (wal_compression=off)",)),
        (
            "autovacuum_work_mem >= 0",
            {},
            ("autovacuum_work_mem >= 0: -1B < 0B (autovacuum_work_mem=-1)",),
        ),
        ("1 > 2", {}, ("1 > 2: 1 <= 2",)),
    ],
)
def test_violations_have_numbers(text: str, change: dict[str, Any], lines: tuple[str, ...]) -> None:
    space = Space(MEMORY, [Constraint(text)])
    config = {**space.default(), **change}
    assert space.violations(config) == lines
    assert space.is_feasible(config) == (not lines)
    assert space.feasible_mask(space.encode(config)[None, :]).tolist() == [not lines]


def test_constants_and_products() -> None:
    space = Space(MEMORY, [BUDGET])
    assert space.is_feasible(space.default())
    broken = space.default().replace({"work_mem": 2**20})
    assert space.violations(broken) == (
        "memory: 8.125GiB > 1GiB (shared_buffers=128MB, work_mem=1GB, hash_mem_multiplier=2)",
    )
    with pytest.raises(SpaceError, match="unknown knob='clients'"):
        Space(MEMORY, [Constraint(BUDGET.text)])
    assert Space(MEMORY, [Constraint(BUDGET.text)], fixed=BUDGET.constants).violations(broken)[0].startswith("shared")


def test_a_constraint_by_itself() -> None:
    knobs = {knob.name: knob for knob in MEMORY}
    constraint = Constraint("autovacuum_work_mem == -1 or autovacuum_work_mem >= work_mem")
    assert constraint.is_met({"autovacuum_work_mem": -1, "work_mem": 4096}, knobs)
    assert not constraint.is_met({"autovacuum_work_mem": 1024, "work_mem": 4096}, knobs)
    assert constraint == Constraint(constraint.text)
    assert isinstance(hash(BUDGET), int)


def test_the_mask_agrees_with_single_configs() -> None:
    space = Space(
        [*MEMORY, *CHAIN[:2]],
        [BUDGET, Constraint("autovacuum_work_mem >= work_mem if autovacuum_work_mem > 0 else above < 4")],
    )
    points = np.random.default_rng(3).random((300, space.n_dims))
    mask = space.feasible_mask(points)
    assert 0 < mask.sum() < 300
    assert mask.tolist() == [space.is_feasible(config) for config in space.decode_many(points)]
    assert mask.tolist() == [not space.violations(config) for config in space.decode_many(points)]


def test_a_subspace_holds_the_other_knobs() -> None:
    space = Space(MEMORY, [BUDGET], also_legal={"work_mem": (37,), "shared_buffers": (2000,)})
    small = space.subspace(["work_mem"], {**space.default(), "shared_buffers": 2**16})
    assert list(small.knobs) == ["work_mem"]
    assert small.is_feasible({"work_mem": 2**16})
    assert not small.is_feasible({"work_mem": 2**16 + 1})
    assert small.is_feasible({"work_mem": 37})
    assert small.bounds()["work_mem"] == (64, 2**16)
    with pytest.raises(SpaceError, match="unknown knob='work_men'"):
        space.subspace(["work_men"])
    inner = Space(CHAIN).subspace(["deep"], {"above": 2})
    assert inner.canonical({"deep": 3}) == Config({"deep": 7})


def test_a_knob_that_a_subspace_holds_goes_before_a_constant_of_its_name() -> None:
    """As the knob does in the whole space."""
    space = Space([integer("a", 0, 10), integer("b", 0, 10)], [Constraint("a + b <= n", constants={"a": 0, "n": 10})])
    assert not space.is_feasible({"a": 8, "b": 3})
    small = space.subspace(["b"], {"a": 8})
    assert small.is_feasible({"b": 2})
    assert not small.is_feasible({"b": 3})


def test_the_default_may_lie_outside_the_useful_range() -> None:
    knob: Knob = integer("m", 1024, 2**20, unit="kB", default=64)
    space = Space([knob], [Constraint("m >= 64kB")])
    assert space.default() == Config({"m": 64})
    assert space.is_feasible(space.default())
    with pytest.raises(SpaceError, match=r"m=65kB \(65 in kB\) is out of range"):
        space.validate({"m": 65})


def test_values_of_another_space_are_fitted() -> None:
    knobs = [integer("a", 1, 10, default=5), choice("b", "x", "y"), boolean("c"), integer("d", 1, 10, default=5)]
    space = Space(knobs, also_legal={"d": (64,)})
    otherwise = space.default().replace({"c": False})
    found = space.fit({"a": 99, "b": "z", "d": 64, "foreign": 1}, otherwise)
    assert dict(found) == {"a": 10, "b": "x", "c": False, "d": 64}
    assert dict(space.fit({"a": math.inf, "c": 0}, otherwise)) == {"a": 5, "b": "x", "c": False, "d": 5}
    far = Space([*knobs, integer("e", 1, 1000, default=5, log=True, is_round=True)])
    assert dict(far.fit({"a": 10**400, "e": -(10**400)}, far.default())) == {**far.default(), "a": 10, "e": 1}


def test_fitting_leaves_a_default_outside_the_useful_range_alone() -> None:
    """What a server was found with is often no value that would be tried."""
    knobs = [
        integer("size", 128, 4096, default=37, unit="MB"),
        integer("round", 1, 1000, default=410, log=True, is_round=True),
        choice("method", "x", "y", default="z"),
    ]
    found = Config({"size": 37, "round": 410, "method": "z"})
    assert Space(knobs).fit(found, Config({"size": 128, "round": 1, "method": "x"})) == found


def test_levels_of_many_choices_are_spread_over_all() -> None:
    labels = tuple(f"m{i:02}" for i in range(40))
    space = Space([choice("m", *labels)])
    assert space.levels("m", 4) == ("m00", "m13", "m26", "m39")
    assert space.levels("m", 40) == space.levels("m", 100) == labels


def test_a_broken_constraint_that_divides_by_zero_says_so() -> None:
    space = Space(
        [integer("pages", 1, 10, default=5), integer("parts", 0, 3, default=0)], [Constraint("pages / parts >= 1")]
    )
    assert space.violations(space.default()) == ("pages / parts >= 1: it divides by zero (pages=5, parts=0)",)
