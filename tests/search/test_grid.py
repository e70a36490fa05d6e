"""The grid: its size is known, it is finished, and one that nobody finishes is refused."""

from __future__ import annotations

import pytest

from trimtab.errors import SpaceError, UsageError
from trimtab.records import Status
from trimtab.search.grid import GridSearcher
from trimtab.space import Config, Knob, KnobKind, Space

from .driving import best_config, drive
from .problems import grid, integer, problem, trial

MIB, GIB = 2**20, 2**30


def test_every_combination_once_and_then_it_is_exhausted() -> None:
    searcher = GridSearcher(problem(grid(), levels=3))
    assert searcher.describe() == "the grid has 3 × 3 = 9 configs, 9 of them feasible and different"
    asked = drive(searcher, 9)
    assert {(c["a"], c["b"]) for c in asked} == {(a, b) for a in (0, 50, 100) for b in (0, 50, 100)}
    assert searcher.is_exhausted
    assert best_config(searcher) == Config({"a": 50, "b": 50})


def test_pending_counts_as_asked_and_comes_back_when_it_taught_nothing() -> None:
    searcher = GridSearcher(problem(grid(), levels=2))
    asked = searcher.ask(4)
    assert searcher.is_exhausted
    searcher.tell(trial(asked[1], 0, None, status=Status.INFRASTRUCTURE))
    assert not searcher.is_exhausted
    assert searcher.ask() == [asked[1]]


def test_infeasible_combinations_are_left_out() -> None:
    searcher = GridSearcher(problem(grid(2, 100, "a + b <= 100"), levels=3))
    assert searcher.describe() == "the grid has 3 × 3 = 9 configs, 6 of them feasible and different"
    assert all(c["a"] + c["b"] <= 100 for c in drive(searcher, 6))  # type: ignore[operator]
    assert searcher.is_exhausted


def test_configs_that_differ_in_an_inactive_knob_only_are_one() -> None:
    mode = Knob(name="mode", kind=KnobKind.CHOICE, choices=("flat", "deep"), default="flat")
    inner = Knob(name="depth", kind=KnobKind.INTEGER, low=1, high=5, default=1, condition="mode == 'deep'")
    searcher = GridSearcher(problem(Space([mode, inner]), levels=5))
    assert searcher.size == 10
    assert len(set(drive(searcher, 6, lambda config: 0.0))) == 6
    assert searcher.is_exhausted


def test_levels_fit_the_budget() -> None:
    assert GridSearcher(problem(grid(), budget=30)).size == 25
    assert GridSearcher(problem(grid(), budget=3)).size == 4


def test_special_values_count_in_what_fits_the_budget() -> None:
    """A knob with three of them has four levels, however few are wanted."""
    space = Space([integer("a", special=(-1, -2, -3)), integer("b"), integer("c")])
    assert GridSearcher(problem(space, budget=30)).size == 16


def test_levels_of_single_knobs() -> None:
    searcher = GridSearcher(problem(grid(3), levels=2, levels_of={"a": 4, "b": [7, 3, 7]}))
    assert searcher.levels == {"a": (0, 33, 67, 100), "b": (7, 3), "c": (0, 100)}


def test_levels_in_units() -> None:
    memory = Knob(name="memory", kind=KnobKind.INTEGER, low=MIB, high=4 * GIB, default=MIB, unit="B")
    searcher = GridSearcher(problem(Space([memory]), levels_of={"memory": ["64MiB", "1GiB"]}))
    assert searcher.levels == {"memory": (64 * MIB, GIB)}


def test_sorted_changes_restart_knobs_as_rarely_as_possible() -> None:
    """b needs a restart: one change of it for three levels."""
    asked = drive(GridSearcher(problem(grid(), levels=3, order="sorted")), 9)
    values = [config["b"] for config in asked]
    assert values == [0, 0, 0, 50, 50, 50, 100, 100, 100]


def test_a_grid_beyond_measure_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        GridSearcher(problem(grid(10), levels=20))
    assert caught.value.message == (
        "the grid has 20 × 20 × 20 × 20 × 20 × 20 × 20 × 20 × … = 10,240,000,000,000 configs, more than most=10000"
    )
    assert caught.value.hint == "tune fewer knobs, give fewer levels (levels, levels_of), or raise most"


@pytest.mark.parametrize("wish", [0, -1, True, 1.5, [], "many"])
def test_wrong_levels_of_a_knob(wish: object) -> None:
    with pytest.raises(UsageError) as caught:
        GridSearcher(problem(grid(), levels_of={"a": wish}))
    expected = f"levels_of.a={wish!r} of searcher 'grid'\nhint: give a number of levels, or a list of values"
    assert str(caught.value) == expected


@pytest.mark.parametrize(("levels_of", "text"), [({"z": 3}, "'z'"), ({"a": [101]}, "101"), ({"z": [1]}, "'z'")])
def test_levels_that_the_space_does_not_know(levels_of: object, text: str) -> None:
    with pytest.raises(SpaceError, match=text):
        GridSearcher(problem(grid(), levels_of=levels_of))


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("levels", -1, "levels must be 0 or more"),
        ("most", 0, "most must be 1 or more"),
        ("order", "random", "order must be 'shuffled' or 'sorted'"),
    ],
)
def test_options(name: str, value: object, rule: str) -> None:
    with pytest.raises(UsageError) as caught:
        GridSearcher(problem(grid(), **{name: value}))
    assert caught.value.hint == rule


def test_knobs_of_one_level_do_not_count() -> None:
    """More knobs than an array may have dimensions."""
    space = Space([integer(f"k{i:02}", 10) for i in range(70)])
    searcher = GridSearcher(problem(space, levels=1, levels_of={"k03": 3, "k60": [1, 2]}, order="sorted"))
    assert searcher.describe() == "the grid has 3 × 2 = 6 configs, 6 of them feasible and different"
    asked = [(config["k03"], config["k60"]) for config in drive(searcher, 6, lambda config: 0.0)]
    assert asked == [(0, 1), (0, 2), (5, 1), (5, 2), (10, 1), (10, 2)]
    assert searcher.is_exhausted
