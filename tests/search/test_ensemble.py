"""The ensemble: credit by the area under the curve, exploration, shared results."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from trimtab.errors import UsageError
from trimtab.records import Status
from trimtab.search.ensemble import EnsembleSearcher, credit

from .driving import best_config, bowl, drive
from .problems import grid, problem, trial


def test_credit_counts_late_successes_more() -> None:
    assert credit([]) == 0.0
    assert credit([False, False]) == 0.0
    assert credit([True, True, True]) == pytest.approx(1.0)
    assert credit([True, False, False]) == pytest.approx(1 / 6)
    assert credit([False, False, True]) == pytest.approx(3 / 6)


def test_score_is_credit_and_exploration() -> None:
    searcher = EnsembleSearcher(problem(grid(), members="random sobol", exploration=0.1))
    searcher._outcomes.extend([("random", True), ("sobol", False), ("random", False), ("random", False)])
    assert searcher.scores()["random"] == pytest.approx(1 / 6 + 0.1 * math.sqrt(2 * math.log2(4) / 3))
    assert searcher.scores()["sobol"] == pytest.approx(0.1 * math.sqrt(2 * math.log2(4) / 1))


def test_every_member_is_asked_once_before_any_twice() -> None:
    searcher = EnsembleSearcher(problem(grid()))
    assert set(searcher.scores().values()) == {math.inf}
    searcher.ask(5)
    assert Counter(searcher._askers.values()) == dict.fromkeys(searcher.members, 1)


def test_who_found_better_configs_asks_next_until_exploration_wins() -> None:
    searcher = EnsembleSearcher(problem(grid(), members="hill-climbing sobol"))
    drive(searcher, 2)
    searcher._outcomes.clear()
    searcher._outcomes.extend([("hill-climbing", True), ("sobol", False)] * 3)
    drive(searcher, 3, lambda config: 9.0)
    assert [name for name, _ in searcher._outcomes][-3:] == ["hill-climbing"] * 3
    drive(searcher, 60, lambda config: 9.0, start=10)
    assert "sobol" in [name for name, _ in searcher._outcomes][-30:]


def test_old_outcomes_leave_the_window() -> None:
    searcher = EnsembleSearcher(problem(grid(), window=6))
    drive(searcher, 30)
    assert len(searcher._outcomes) == 6


def test_members_share_results_and_pending() -> None:
    searcher = EnsembleSearcher(problem(grid()))
    drive(searcher, 8)
    waiting = searcher.ask(3)
    assert len(searcher.members) > 1
    for member in searcher.members.values():
        assert len(member.ledger) == 8
        assert set(member.pending) == set(waiting)


def test_a_trial_that_taught_nothing_gives_no_one_a_turn() -> None:
    searcher = EnsembleSearcher(problem(grid()))
    drive(searcher, 6)
    before = list(searcher._outcomes)
    searcher.tell(trial(searcher.ask()[0], 7, None, status=Status.INFRASTRUCTURE))
    assert list(searcher._outcomes) == before
    assert not searcher._askers


def test_finds_the_bottom_of_a_bowl() -> None:
    searcher = EnsembleSearcher(problem(grid()))
    drive(searcher, 60)
    assert bowl(best_config(searcher)) < 0.005


def test_unknown_member() -> None:
    with pytest.raises(UsageError) as caught:
        EnsembleSearcher(problem(grid(), members="random genetic"))
    assert caught.value.message == "no member 'genetic' of searcher 'ensemble'"
    assert str(caught.value.hint).startswith("use some of: bestconfig, differential-evolution, hill-climbing")


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("members", " ", "members must be one searcher or more"),
        ("window", 0, "window must be 1 or more"),
        ("exploration", -0.1, "exploration must be 0 or more"),
    ],
)
def test_options(name: str, value: object, rule: str) -> None:
    with pytest.raises(UsageError) as caught:
        EnsembleSearcher(problem(grid(), **{name: value}))
    assert caught.value.hint == rule
