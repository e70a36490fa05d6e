"""The first configs: all knobs move, around what is known to work, less far after a failure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from trimtab.records import KnobPrior, Play, Prior, Status
from trimtab.search.auto import AutoSearcher
from trimtab.search.belief import Belief
from trimtab.search.design import InteriorDesign, n_first
from trimtab.search.ledger import Ledger
from trimtab.space import Config

from .problems import crash, grid, problem, trial


def advised(searcher_problem: object = None) -> tuple[AutoSearcher, Config]:
    space = grid(10)
    advice = Config(dict.fromkeys(space.knobs, 60))
    searcher = AutoSearcher(problem(space, advice, budget=30))
    searcher.tell(trial(space.default(), 0, 0.0))
    assert searcher.ask() == [advice]
    return searcher, advice


def test_a_small_budget_explores_as_well() -> None:
    """With eight trials, advice that brings nothing is followed by configs that move most knobs."""
    space = grid(10)
    advice = Config(dict.fromkeys(space.knobs, 60))
    searcher = AutoSearcher(problem(space, advice, budget=8))
    searcher.tell(trial(space.default(), 0, 0.0))
    searcher.tell(trial(searcher.ask()[0], 1, 0.1))
    assert len(searcher.filler.difference(searcher.ask()[0])) >= 6


def test_what_was_found_before_the_design_is_not_thrown_away() -> None:
    """A play that doubles the speed, measured before: the design's configs keep about half of its settings."""
    space = grid(10)
    found = Config(dict.fromkeys(space.knobs, 70))
    searcher = AutoSearcher(problem(space, budget=30))
    searcher.tell(trial(space.default(), 0, 0.0))
    searcher.tell(trial(found, 1, -0.7))
    kept = []
    for number in range(2, 6):
        config = searcher.ask()[0]
        kept.append(10 - len(found.difference(config)))
        searcher.tell(trial(config, number, -0.2))
    assert 3 <= np.mean(kept) <= 7


def test_a_search_after_another_one_has_a_shorter_design() -> None:
    """Of the five configs of the design for ten knobs, three of an earlier search leave two, which go on from the best so far."""
    space = grid(10)
    for n_before, n_left in ((0, 5), (3, 2), (5, 0), (40, 0)):
        searcher = AutoSearcher(replace(problem(space, budget=60), n_before=n_before))
        searcher.tell(trial(space.default(), 0, 0.0))
        made = []
        while (config := searcher.design.next(searcher.ledger)) is not None:
            made.append(config)
            searcher.tell(trial(config, len(made), 0.0))
        assert len(made) == n_left
        assert all(len(searcher.filler.difference(config)) < 8 for config in made if n_before)


def test_after_advice_that_failed_the_design_lies_around_the_baseline() -> None:
    """Two failures, so few knobs move: what does not move is the baseline's."""
    searcher, advice = advised()
    searcher.tell(crash(advice, 1))
    home = searcher.filler
    for number in (2, 3):
        searcher.tell(crash(searcher.ask()[0], number))
    config = searcher.ask()[0]
    assert len(home.difference(config)) < len(advice.difference(config))


def test_after_advice_that_helped_the_design_lies_around_it() -> None:
    searcher, advice = advised()
    searcher.tell(trial(advice, 1, -0.4))
    for number in (2, 3):
        searcher.tell(crash(searcher.ask()[0], number))
    config = searcher.ask()[0]
    assert len(advice.difference(config)) < len(searcher.filler.difference(config))


def test_the_later_configs_of_the_design_go_on_from_the_best_so_far() -> None:
    """The first config of the design is the best there is: from the third on about half of its settings are kept."""
    space = grid(10)
    searcher = AutoSearcher(problem(space, budget=40))
    searcher.tell(trial(space.default(), 0, 0.0))
    first, second = searcher.ask(2)
    searcher.tell(trial(first, 1, -0.5))
    searcher.tell(trial(second, 2, 0.1))
    kept = []
    for number in range(3, 6):
        config = searcher.ask()[0]
        kept.append(10 - len(first.difference(config)))
        searcher.tell(trial(config, number, 0.2))
    assert np.mean(kept) >= 4
    assert 10 - len(first.difference(second)) <= 2


def test_upper_ends_of_ranges_are_left_out() -> None:
    space = grid(10)
    ledger = Ledger(space, space.default())
    design = InteriorDesign(space, 8, 1, space.default(), Belief(space, space.default(), Prior()))
    seen = []
    while (config := design.next(ledger)) is not None:
        seen.append([float(value) for value in config.values()])
        ledger.tell(trial(config, len(seen), 0.0))
    assert len(seen) == 8
    assert np.max(seen) <= 86
    assert np.mean(np.array(seen) > 0) > 0.8


def _played(n_plays: int) -> tuple[AutoSearcher, set[Config]]:
    """After the baseline and so many plays of one setting each; and what its design gives, as it gives it."""
    space = grid(10)
    searcher, given = AutoSearcher(problem(space, budget=30)), set[Config]()
    make = searcher.design.next

    def noted(ledger: Ledger) -> Config | None:
        config = make(ledger)
        given.update([config] if config is not None else [])
        return config

    searcher.design.next = noted  # type: ignore[method-assign]
    searcher.tell(trial(space.default(), 0, 0.0))
    for number, name in enumerate(list(space.knobs)[:n_plays], start=1):
        searcher.tell(trial(space.default().replace({name: 60}), number, 0.02 * number - 0.2))
    return searcher, given


def test_models_and_design_take_turns_once_plays_were_measured() -> None:
    searcher, given = _played(6)
    turns = []
    for number in range(7, 21):
        config = searcher.ask()[0]
        turns.append(config in given)
        searcher.tell(trial(config, number, -0.1))
    assert turns == [False, True] * 5 + [False] * 4
    assert len(given) == n_first(10, 30) == 5


def test_the_design_comes_first_where_little_was_measured_before() -> None:
    searcher, given = _played(4)
    configs = searcher.ask(5)
    assert given == set(configs)


def test_what_is_lost_of_a_design_that_takes_turns_is_asked_again() -> None:
    searcher, given = _played(6)
    first, second = searcher.ask(2)
    assert given == {second}
    for number, config in enumerate((first, second), start=7):
        searcher.tell(trial(config, number, None, status=Status.INFRASTRUCTURE))
    assert second in searcher.ask(2)


def test_an_infrastructure_fault_makes_the_design_ask_again() -> None:
    searcher = AutoSearcher(problem(grid(6)))
    config = searcher.ask()[0]
    searcher.tell(trial(config, 0, None, status=Status.INFRASTRUCTURE))
    assert searcher.ask() == [config]


def test_a_config_that_cannot_be_measured_does_not_hold_the_design_up() -> None:
    searcher = AutoSearcher(problem(grid(6)))
    first = searcher.ask()[0]
    asked = []
    for number in range(3):
        searcher.tell(trial(first, number, None, status=Status.INFRASTRUCTURE))
        asked += searcher.ask()
    assert asked[:2] == [first, first]
    assert asked[2] != first


def test_sizes() -> None:
    assert [n_first(*given) for given in ((3, None), (20, 100), (200, 100), (20, 8), (200, 4))] == [4, 8, 10, 4, 3]


def test_plays_are_met_with_and_without() -> None:
    space = grid(6)
    play = Play(name="p", settings={"a": 77, "b": 33}, chance=0.5)
    belief = Belief(space, space.default(), Prior(plays=(play,), knobs={"c": KnobPrior(at=50, width=0.05)}))
    rng = np.random.default_rng(1)
    drawn = space.decode_many(np.array([belief.drawn(np.full(6, 0.2), np.ones(2), rng) for _ in range(400)]))
    share = np.mean([config["a"] == 77 and config["b"] == 33 for config in drawn])
    near = np.mean([35 <= float(config["c"]) <= 65 for config in drawn])
    assert 0.4 < share < 0.6
    assert 0.4 < near < 0.6
