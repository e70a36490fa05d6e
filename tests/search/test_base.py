"""What all searchers share: options, pending configs, the baseline as a config of the space, running dry."""

from __future__ import annotations

import math
import sys
from types import FrameType
from typing import Any

import numpy as np
import pytest

from trimtab.errors import UsageError
from trimtab.records import Status
from trimtab.search import SearchProblem, may_fit_model
from trimtab.search.gp import GaussianProcessSearcher
from trimtab.search.lhs import LatinHypercubeSearcher, latin_hypercube
from trimtab.search.nelder_mead import NelderMeadSearcher
from trimtab.search.random import RandomSearcher
from trimtab.space import Config, Space

from .driving import drive
from .problems import grid, integer, problem, trial
from .registered import registered


def test_unknown_option() -> None:
    with pytest.raises(UsageError) as caught:
        LatinHypercubeSearcher(problem(grid(), bacth=3))
    assert str(caught.value) == "unknown option bacth=3 of searcher 'lhs'\nhint: use one of: batch"


def test_unknown_option_of_a_searcher_without_options() -> None:
    with pytest.raises(UsageError) as caught:
        RandomSearcher(problem(grid(), batch=3))
    assert str(caught.value) == "unknown option batch=3 of searcher 'random'\nhint: this searcher has no options"


@pytest.mark.parametrize("value", ["many", 1.5, True])
def test_wrong_type_of_option(value: object) -> None:
    with pytest.raises(UsageError) as caught:
        LatinHypercubeSearcher(problem(grid(), batch=value))
    expected = f"batch={value!r} of searcher 'lhs' is not of type int\nhint: write it like its default, batch = 0"
    assert str(caught.value) == expected


def test_an_integer_stands_for_a_real() -> None:
    assert NelderMeadSearcher(problem(grid(), expand=3)).options["expand"] == 3.0


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_an_option_that_is_no_finite_number(value: float) -> None:
    with pytest.raises(UsageError) as caught:
        GaussianProcessSearcher(problem(grid(), changes=value))
    expected = (
        f"changes={value!r} of searcher 'gp' is not a finite number\nhint: write it like its default, changes = 3.0"
    )
    assert str(caught.value) == expected


def test_option_out_of_range() -> None:
    with pytest.raises(UsageError) as caught:
        LatinHypercubeSearcher(problem(grid(), batch=-1))
    assert str(caught.value) == "batch=-1 of searcher 'lhs'\nhint: batch must be 0 or more"


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("expand", 0.5, "expand must be more than reflect"),
        ("shrink", 1.0, "shrink must be between 0 and 1"),
        ("contract", 0.0, "contract must be between 0 and 1"),
        ("radius", 0.0, "radius must be more than 0 and at most 1"),
        ("init", "star", "init must be 'axes', 'random', 'boundary', 'latin' or 'prior'"),
        ("reject", "maybe", "reject must be 'penalty' or 'repair'"),
        ("restarts", 0, "restarts must be 1 or more"),
        ("probes", -1, "probes must be 0 or more"),
        ("spread", 0.0, "spread must be more than 0"),
    ],
)
def test_options_of_nelder_mead(name: str, value: object, rule: str) -> None:
    with pytest.raises(UsageError) as caught:
        NelderMeadSearcher(problem(grid(), **{name: value}))
    assert caught.value.hint == rule


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("candidates", 5, "candidates must be 10 or more"),
        ("cap", 5, "cap must be 10 or more"),
        ("changes", 0.5, "changes must be 1 or more"),
        ("restart_share", 1.5, "restart_share must be between 0 and 1"),
        ("caution", -1.0, "caution must be 0 or more"),
    ],
)
def test_options_of_gp(name: str, value: object, rule: str) -> None:
    with pytest.raises(UsageError) as caught:
        GaussianProcessSearcher(problem(grid(), **{name: value}))
    assert caught.value.hint == rule


def test_asking_for_nothing() -> None:
    with pytest.raises(UsageError) as caught:
        RandomSearcher(problem(grid())).ask(0)
    assert str(caught.value) == "cannot ask for n=0 configs\nhint: ask for at least 1"


def test_a_search_begins_at_the_servers_own_value_although_it_is_none_that_is_tried() -> None:
    space = Space([integer("a", 1000, low=1, log=True, is_round=True, default=410)])
    searcher = RandomSearcher(problem(space))
    searcher.tell(trial(Config({"a": 410})))
    assert searcher.filler == Config({"a": 410})
    assert searcher.ledger.get(searcher.filler) is not None


def test_a_baseline_outside_the_space_is_brought_inside() -> None:
    space = grid()
    outside = Config({"a": 5000, "b": 7, "elsewhere": 1})
    searcher = RandomSearcher(SearchProblem(space=space, baseline=outside))
    assert searcher.filler == Config({"a": 100, "b": 7})


def test_a_config_asked_twice_stays_pending_until_both_answers_came() -> None:
    space = grid(1, 0)
    searcher = RandomSearcher(problem(space))
    first, second = searcher.ask(2)
    assert first == second
    searcher.tell(trial(first, 0))
    assert searcher.pending[first] == 1
    searcher.tell(trial(first, 1))
    assert first not in searcher.pending


def test_infrastructure_ends_pending() -> None:
    searcher = RandomSearcher(problem(grid()))
    config = searcher.ask()[0]
    searcher.tell(trial(config, 0, None, status=Status.INFRASTRUCTURE))
    assert config not in searcher.pending
    assert config not in searcher.ledger


def test_exhausted_counts_feasible_configs_only() -> None:
    searcher = RandomSearcher(problem(grid(2, 2, "a + b <= 2")))
    assert not searcher.is_exhausted
    asked = searcher.ask(6)
    assert len(set(asked)) == 6
    assert searcher.is_exhausted


def test_large_spaces_are_never_called_exhausted() -> None:
    searcher = RandomSearcher(problem(grid()))
    searcher.ask(20)
    assert not searcher.is_exhausted


def test_hypercube_puts_one_config_in_every_slice() -> None:
    space = grid(3, 999)
    configs = latin_hypercube(space, 10, np.random.default_rng(4))
    for name in space.knobs:
        assert sorted(int(config[name]) // 100 for config in configs) == list(range(10))


def test_hypercube_under_a_constraint_is_feasible() -> None:
    space = grid(3, 999, "a + b + c <= 900")
    assert all(space.is_feasible(config) for config in latin_hypercube(space, 20, np.random.default_rng(4)))


def test_batches_of_the_hypercube_differ() -> None:
    searcher = LatinHypercubeSearcher(problem(grid(3, 999), batch=10))
    first, second = searcher.ask(10), searcher.ask(10)
    assert not set(first) & set(second)
    for batch in (first, second):
        assert sorted(int(config["a"]) // 100 for config in batch) == list(range(10))


def test_what_is_lost_of_a_hypercube_is_asked_again_before_the_next_one() -> None:
    searcher = LatinHypercubeSearcher(problem(grid(3, 999), batch=10))
    asked = []
    for number in range(14):
        asked += searcher.ask()
        is_lost = number in (0, 4, 5)
        searcher.tell(
            trial(asked[-1], number, None, status=Status.INFRASTRUCTURE) if is_lost else trial(asked[-1], number)
        )
    assert asked[1] == asked[0]
    assert asked[6] == asked[5]
    assert asked[5] == asked[4]
    assert sorted(int(config["a"]) // 100 for config in dict.fromkeys(asked[:13])) == list(range(10))
    assert asked[13] not in asked[:13]


def test_past_configs_leave_no_slice_of_a_hypercube_out() -> None:
    space = grid(2, 999)
    starts = (Config({"a": 5, "b": 5}), Config({"a": 7, "b": 7}))
    given = SearchProblem(space=space, baseline=space.default(), starts=starts, options={"batch": 10})
    asked = LatinHypercubeSearcher(given).ask(12)
    assert tuple(asked[:2]) == starts
    assert sorted(int(config["a"]) // 100 for config in asked[2:]) == list(range(10))


@pytest.mark.parametrize("name", sorted(name for name in registered() if not registered()[name].FITS_MODEL))
def test_a_config_that_cannot_be_measured_keeps_no_search_waiting(name: str) -> None:
    """Such as one with which the server, and no other, takes too many files to start."""
    searcher = registered()[name](problem(grid(2, 4), budget=25))
    asked: list[Config] = []
    while len(asked) < 40 and not (searcher.is_exhausted or searcher.is_converged):
        asked += searcher.ask()
        is_lost = asked[-1] == asked[0]
        number = len(asked)
        searcher.tell(
            trial(asked[-1], number, None, status=Status.INFRASTRUCTURE) if is_lost else trial(asked[-1], number)
        )
    assert asked.count(asked[0]) <= 3
    assert len(set(asked)) > 4


def test_who_fits_no_model_is_known() -> None:
    """Those that only draw and compare; a session answers at once with them."""
    modelless = {name for name in registered() if not may_fit_model(name)}
    assert modelless == {
        "atunert", "bestconfig", "differential-evolution", "grid", "hill-climbing", "lhs", "nelder-mead", "pattern-search", "pro",
        "random", "sobol",
    }  # fmt: skip
    assert may_fit_model("nobody"), "of one that is not here nothing is known"


@pytest.mark.parametrize("name", sorted(name for name in registered() if not registered()[name].FITS_MODEL))
def test_who_says_that_it_fits_no_model_keeps_its_word(name: str) -> None:
    searcher = registered()[name](problem(grid(3, 30), budget=12))
    called = set[str]()

    def seen(frame: FrameType, event: str, argument: Any) -> None:
        called.add(str(frame.f_globals.get("__name__", "")))

    sys.setprofile(seen)
    try:
        drive(searcher, 12)
    finally:
        sys.setprofile(None)
    assert type(searcher).__module__ in called
    assert not [module for module in called if module.startswith(("trimtab.model", "sklearn", "trimtab.search.parzen"))]
