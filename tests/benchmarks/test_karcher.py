"""The benchmark of tuning inside PostgreSQL: who takes turns with whom, and how often a query is executed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from tests.bench_modules import BENCHMARKS, bench_modules

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def karcher() -> Iterator[Any]:
    """The benchmark's main module; its folder is no package."""
    with bench_modules(BENCHMARKS / "karcher", "server", "run") as modules:
        yield modules["run"]


@pytest.mark.parametrize("n", [2, 3])
def test_none_goes_first_or_follows_another_more_often(karcher: Any, n: int) -> None:
    orders = [karcher.order(n, turn) for turn in range(2 * n)]
    firsts = [order[0] for order in orders]
    following = [pair for order in orders for pair in pairwise(order)]
    assert all(sorted(order) == list(range(n)) for order in orders)
    assert {firsts.count(who) for who in range(n)} == {2}
    assert len({following.count((a, b)) for a in range(n) for b in range(n) if a != b}) == 1


def test_slow_queries_are_executed_less_often(karcher: Any) -> None:
    assert karcher.executions(50, 10_000.0, None) == 50
    assert karcher.executions(50, 100.0, 60.0) == 50
    assert karcher.executions(50, 2_000.0, 60.0) == 30
    assert karcher.executions(50, 60_000.0, 60.0) == karcher.FEWEST
    assert karcher.executions(12, 60_000.0, 60.0) == 12
    table = karcher.table("3", {"q17": {arm: result(30) for arm in karcher.ARMS}})
    assert "| query | executions | published |" in table
    assert "| q17 | 30 | 1.086 | 1.500 |" in table


def result(n: int) -> dict[str, Any]:
    """What a row of results.json holds of an arm."""
    return {
        "n": n,
        "ratio": 1.5,
        "interval": [1.4, 1.6],
        "settled_ratio": 2.0,
        "amortised_at": 4,
        "settings": "jit=off",
    }
