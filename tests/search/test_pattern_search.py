"""Pattern search: one knob at a time, the good direction first, leaps, smaller steps."""

from __future__ import annotations

import pytest

from trimtab.errors import UsageError
from trimtab.search.pattern_search import PatternSearcher
from trimtab.space import Config, Knob, KnobKind, Space

from .driving import best_config, bowl, drive
from .problems import grid, problem

START = Config({"a": 50, "b": 50})


def test_explores_one_knob_after_the_other_up_and_down() -> None:
    searcher = PatternSearcher(problem(grid(), START, probes=0, step=0.1))
    asked = drive(searcher, 5, lambda config: float(config != START))
    assert asked[0] == START
    assert {(c["a"], c["b"]) for c in asked[1:]} == {(40, 50), (60, 50), (50, 40), (50, 60)}


def test_step_shrinks_after_a_round_without_success() -> None:
    searcher = PatternSearcher(problem(grid(), START, probes=0, step=0.2, shrink=0.5))
    asked = drive(searcher, 9, lambda config: float(config != START))
    assert {(c["a"], c["b"]) for c in asked[5:]} == {(40, 50), (60, 50), (50, 40), (50, 60)}


def test_leaps_along_what_helped() -> None:
    """The loss falls along both knobs: after both have moved by one step, the leap moves both by another."""
    searcher = PatternSearcher(problem(grid(), Config({"a": 10, "b": 10}), probes=0, step=0.1))

    def slope(config: Config) -> float:
        return -float(config["a"]) - float(config["b"])

    asked = drive(searcher, 12, slope)
    path = [config for place, config in enumerate(asked) if all(slope(config) < slope(c) for c in asked[:place])]
    assert Config({"a": 20, "b": 20}) in path
    assert path[path.index(Config({"a": 20, "b": 20})) + 1] == Config({"a": 30, "b": 30})


def test_the_direction_that_helped_is_tried_first_the_next_time() -> None:
    """Also where the other one could not be tried, at the end of a range."""
    searcher = PatternSearcher(problem(grid(1), Config({"a": 100}), probes=0, step=0.1))
    searcher._signs[:] = 1.0
    drive(searcher, 4, lambda config: float(config["a"]))
    assert searcher._signs.tolist() == [-1.0]


def test_knobs_with_few_values_take_the_next_one() -> None:
    on = Knob(name="on", kind=KnobKind.BOOLEAN, default=False)
    mode = Knob(name="mode", kind=KnobKind.ORDINAL, choices=("low", "mid", "high"), default="low")
    searcher = PatternSearcher(problem(Space([on, mode]), probes=0, step=0.05, smallest=0.05))
    asked = drive(searcher, 3, lambda config: float(config != Config({"on": False, "mode": "low"})))
    assert {(c["on"], c["mode"]) for c in asked} == {(False, "low"), (True, "low"), (False, "mid")}


def test_finds_the_bottom_of_a_bowl() -> None:
    searcher = PatternSearcher(problem(grid()))
    drive(searcher, 60)
    assert bowl(best_config(searcher)) < 0.005


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("probes", -1, "probes must be 0 or more"),
        ("step", 0.0, "step must be more than 0 and at most 1"),
        ("shrink", 1.0, "shrink must be between 0 and 1"),
        ("smallest", 0.5, "smallest must be more than 0 and at most step"),
    ],
)
def test_options(name: str, value: object, rule: str) -> None:
    with pytest.raises(UsageError) as caught:
        PatternSearcher(problem(grid(), **{name: value}))
    assert caught.value.hint == rule
