"""One thread for linear algebra, however those who ask for it come and go."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.search.problems import grid, problem, trial
from trimtab.search.engine import Member
from trimtab.search.gp import GaussianProcessSearcher
from trimtab.space import Config
from trimtab.threads import _give_up_control, blas, single_threaded


def _counts() -> set[int]:
    return {library["num_threads"] for library in blas().info() if library["user_api"] == "blas"}


@pytest.fixture
def two_threads() -> Iterator[None]:
    """As on a machine with two cores; what was there comes back."""
    limit = blas().limit(limits=2, user_api="blas")
    _give_up_control()
    yield
    limit.restore_original_limits()
    _give_up_control()


def test_the_limit_ends_with_its_block(two_threads: None) -> None:
    assert _counts() == {2}
    with single_threaded():
        assert _counts() == {1}
        with single_threaded():
            assert _counts() == {1}
        assert _counts() == {1}
    assert _counts() == {2}
    with pytest.raises(KeyError), single_threaded():
        raise KeyError
    assert _counts() == {2}


def test_who_leaves_first_lifts_nobody_elses_limit_and_who_leaves_last_leaves_none_behind(two_threads: None) -> None:
    has_entered, may_leave = threading.Event(), threading.Event()

    def first() -> None:
        with single_threaded():
            has_entered.set()
            assert may_leave.wait(20)

    with ThreadPoolExecutor(1) as threads:
        run = threads.submit(first)
        assert has_entered.wait(20)
        with single_threaded():
            may_leave.set()
            run.result(20)
            assert _counts() == {1}
        assert _counts() == {2}, "though the thread that has set the limit is still alive"


def test_a_limit_of_one_thread_holds_in_another_that_enters_later(two_threads: None) -> None:
    def inside() -> set[int]:
        with single_threaded():
            return _counts()

    with ThreadPoolExecutor(1) as threads:
        assert inside() == {1}
        assert threads.submit(inside).result(20) == {1}
        assert inside() == {1}
    assert _counts() == {2}


def test_a_search_in_another_thread_lifts_no_limit(two_threads: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is its own lifted by what ends while it thinks: its sums would depend on the number of cores."""
    searcher, has_entered, may_leave = GaussianProcessSearcher(problem(grid(2))), threading.Event(), threading.Event()
    for number, config in enumerate((Config({"a": 1, "b": 2}), Config({"a": 3, "b": 4}))):
        searcher.tell(trial(config, number, 0.1 * number))
    searcher._is_designed = True

    def thinks(member: Member, rng: np.random.Generator) -> Config:
        has_entered.set()
        assert may_leave.wait(20)
        return Config({"a": 5, "b": 6})

    monkeypatch.setattr(searcher, "_asked", thinks)
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(searcher.ask)
        assert has_entered.wait(20)
        with single_threaded():
            may_leave.set()
            assert asked.result(20) == [Config({"a": 5, "b": 6})]
            assert _counts() == {1}
    assert _counts() == {2}
