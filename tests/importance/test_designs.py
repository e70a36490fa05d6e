"""Designs: balance, independence, feasibility, and what people are told."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from tests.importance.problems import flat_space
from trimtab.errors import UsageError
from trimtab.importance import lhs_design, make_design, one_at_a_time, sard_design, sobol_design
from trimtab.importance.designs import DESIGNS
from trimtab.importance.hadamard import plackett_burman
from trimtab.space import Config, Constraint, Knob, KnobKind, Space
from trimtab.testing.ranker_suite import mixed_space

MIXED = mixed_space()


def signs_of(space: Space, configs: tuple[Config, ...]) -> np.ndarray:
    """-1 and 1 by knob of a space of reals from 0 to 1."""
    return np.array([[2 * float(config[name]) - 1 for name in space.knobs] for config in configs])


@pytest.mark.parametrize("n_columns", [1, 2, 3, 4, 7, 11, 12, 23, 27, 30, 35, 50, 91, 96, 200])
def test_plackett_burman_is_balanced_and_orthogonal(n_columns: int) -> None:
    signs = plackett_burman(n_columns)
    assert signs.shape[1] >= n_columns
    assert set(np.unique(signs)) == {-1, 1}
    assert (signs.sum(axis=0) == 0).all()
    assert (signs.T @ signs == len(signs) * np.eye(signs.shape[1])).all()
    assert len(signs) <= 4 * ((n_columns + 4) // 4) + 8


def test_sard_takes_about_two_runs_a_knob() -> None:
    space = flat_space(11)
    design = sard_design(space, space.default())
    assert len(design.configs) == 24
    assert len(sard_design(space, space.default(), fold_over=False).configs) == 12


def test_fold_over_frees_main_effects_of_pairs() -> None:
    """The product of any two columns is orthogonal to every column; without fold-over it is not."""
    space = flat_space(7)
    for fold_over in (True, False):
        signs = signs_of(space, sard_design(space, space.default(), fold_over=fold_over).configs)
        pairs = np.array([signs[:, i] * signs[:, j] for i, j in combinations(range(7), 2)])
        assert bool(np.all(pairs @ signs == 0)) is fold_over


def test_a_batch_without_fold_over_is_mirrored_by_the_next_and_further_ones_alias_other_pairs() -> None:
    space = flat_space(7)
    default = space.default()
    first = make_design("sard", space, default, 8)
    second = make_design("sard", space, default, 8, before=first.configs)
    third = make_design("sard", space, default, 16, before=(*first.configs, *second.configs))
    assert (signs_of(space, second.configs) == -signs_of(space, first.configs)).all()
    signs = signs_of(space, third.configs)
    assert (signs.T @ signs == len(signs) * np.eye(7)).all()
    assert (signs[::2] == -signs[1::2]).all()
    assert len(set(third.configs) - {*first.configs, *second.configs}) >= 12


def test_further_levels_lie_between_those_that_were_tried() -> None:
    space = Space([*flat_space(1).knobs.values(), Knob(name="on", kind=KnobKind.BOOLEAN, default=True)])
    default = space.default()
    first = one_at_a_time(space, default, 2)
    further = make_design("one-at-a-time", space, default, 4, before=first.configs)
    assert {config["on"] for config in further.configs} == {True}, "it has no other value"
    values = sorted(float(config["a"]) for config in further.configs)
    assert len(values) == 2
    assert all(abs(value - float(known["a"])) > 0.1 for value in values for known in (default, *first.configs))
    low = Space(list(space.knobs.values()), [Constraint("a <= 0.5")])
    begun = one_at_a_time(low, default, 2)
    (more,) = make_design("one-at-a-time", low, default, 2, before=begun.configs).configs
    assert low.is_feasible(more), "its high end is not allowed, and was not tried"
    switch = Space([space.knobs["on"]])
    (only,) = one_at_a_time(switch, switch.default(), 1).configs
    again = make_design("one-at-a-time", switch, switch.default(), 1, before=[only])
    assert again.configs == (only,)
    assert "measured again" in again.notes[-1]


def test_sard_needs_a_knob_with_two_levels() -> None:
    """Special values are no levels: runs that are all alike would be measured for nothing, or too many be asked for."""
    switch = Knob(name="switch", kind=KnobKind.INTEGER, low=8, high=8, default=8, special=(0,))
    with pytest.raises(UsageError, match="n_knobs=1, of which none has two levels"):
        make_design("sard", Space([switch]), Config({"switch": 8}))
    space = Space([switch, *flat_space(7).knobs.values()])
    assert len(make_design("sard", space, space.default(), 8).configs) == 8


def test_sard_says_what_is_aliased_and_left_out() -> None:
    notes = " ".join(sard_design(MIXED, MIXED.default()).notes)
    assert "Main effects are free of two-factor interactions" in notes
    assert "aliased with each other" in notes
    assert "Only the first and the last choice are tried of: choice, ordinal." in notes
    assert "Special values are not tried of: special." in notes
    plain = " ".join(sard_design(MIXED, MIXED.default(), fold_over=False).notes)
    assert "aliased with interactions of two others" in plain


def test_sard_leaves_a_constant_knob_alone() -> None:
    space = mixed_space(constant=True)
    design = sard_design(space, space.default())
    assert "Held at the baseline, having one value only: constant." in design.notes
    assert {config["constant"] for config in design.configs} == {5}


@pytest.mark.slow
@pytest.mark.parametrize("kind", DESIGNS)
def test_every_config_is_feasible_and_repairs_are_said(kind: str) -> None:
    space = mixed_space([Constraint("strong + special <= 4000", name="budget")])
    design = make_design(kind, space, space.default(), 32, 1)
    assert all(space.is_feasible(config) and space.canonical(config) == config for config in design.configs)
    words = "are not allowed" if kind == "one-at-a-time" else "broke a constraint of the space and were moved"
    assert any(words in note for note in design.notes)


def test_latin_hypercube_meets_each_part_once() -> None:
    space = flat_space(5)
    values = np.array(
        [[float(config[name]) for name in space.knobs] for config in lhs_design(space, space.default(), 20).configs]
    )
    cells = np.sort(np.floor(values * 20 - 1e-9).clip(0, 19), axis=0)
    assert (np.abs(cells - np.arange(20)[:, None]) <= 1).all()


@pytest.mark.parametrize("make", [lhs_design, sobol_design])
def test_samples_follow_their_seed(make) -> None:
    space = flat_space(5)
    first = make(space, space.default(), 16, 1)
    assert make(space, space.default(), 16, 1) == first
    assert make(space, space.default(), 16, 2) != first
    assert len(set(first.configs)) == 16


def test_sobol_says_that_it_is_not_balanced() -> None:
    space = flat_space(3)
    assert sobol_design(space, space.default(), 16).notes == ()
    assert sobol_design(space, space.default(), 20).notes == (
        "runs=20 is not a power of 2, so the points are not perfectly balanced.",
    )


def test_one_at_a_time_changes_one_knob() -> None:
    default = MIXED.default()
    design = one_at_a_time(MIXED, default, 2)
    for config in design.configs:
        changed = set(config.difference(default))
        assert len(changed - {"deep"}) == 1 or changed == {"deep"}
    reals = sorted(config["real"] for config in design.configs if config["real"] != default["real"])
    assert reals == [0.5, 8.0]
    assert "Interactions cannot be seen" in design.notes[0]


def test_one_level_is_the_end_that_is_farther() -> None:
    space = flat_space(2)
    assert one_at_a_time(space, space.default(), 1).configs[0]["a"] == 1.0
    high = space.default().replace({"a": 0.9})
    assert one_at_a_time(space, high, 1).configs[0]["a"] == 0.0


@pytest.mark.parametrize(
    ("kind", "runs", "words"),
    [
        ("sard", 11, "runs=11 are too few for design='sard'"),
        ("lhs", 7, "runs=7 are too few for design='lhs'"),
        ("sobol", 3, "runs=3 are too few for design='sobol'"),
        ("one-at-a-time", 7, "runs=7 are too few for design='one-at-a-time'"),
        ("latin", 30, "unknown design='latin'"),
    ],
)
def test_refuses(kind: str, runs: int, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        make_design(kind, MIXED, MIXED.default(), runs)
    assert caught.value.hint


def test_too_few_runs_for_fold_over_do_without() -> None:
    assert len(make_design("sard", MIXED, MIXED.default(), 12).configs) == 12
    assert len(make_design("sard", MIXED, MIXED.default(), 24).configs) == 24
    assert len(make_design("sard", MIXED, MIXED.default()).configs) == 24


def test_refuses_a_space_in_which_nothing_varies() -> None:
    space = Space([Knob(name="one", kind=KnobKind.INTEGER, low=5, high=5, default=5)])
    for kind in DESIGNS:
        with pytest.raises(UsageError, match="n_knobs=1, of which none has two values"):
            make_design(kind, space, space.default(), 20)


def test_one_at_a_time_needs_a_level() -> None:
    with pytest.raises(UsageError, match="levels=0 of a one-at-a-time design"):
        one_at_a_time(MIXED, MIXED.default(), 0)
