"""The benchmark of tuning inside PostgreSQL: who takes turns with whom, and how often a query is executed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from tests.bench_modules import BENCHMARKS, bench_modules
from trimtab.importance import sard_design

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def modules() -> Iterator[dict[str, Any]]:
    """The benchmark's modules by name; its folder is no package."""
    with bench_modules(BENCHMARKS / "karcher", "server", "table", "run", "sard") as modules:
        yield modules


@pytest.fixture(scope="module")
def karcher(modules: dict[str, Any]) -> Any:
    """Its main module."""
    return modules["run"]


@pytest.fixture(scope="module")
def table(modules: dict[str, Any]) -> Any:
    """What writes its page."""
    return modules["table"]


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


def test_the_page_shows_the_results(karcher: Any, table: Any) -> None:
    """Else run: python benchmarks/karcher/table.py"""
    found = json.loads(karcher.RESULTS.read_text(encoding="utf-8"))
    text = table.PAGE.read_text(encoding="utf-8")
    assert table.BEGIN in text
    assert text == table.page(text, found)


def test_the_page_shows_the_ranks(modules: dict[str, Any], table: Any) -> None:
    """Else run: python benchmarks/karcher/table.py"""
    path = modules["sard"].RESULTS
    text = table.PAGE.read_text(encoding="utf-8")
    assert (table.RANKS_BEGIN in text) == path.exists()
    if path.exists():
        assert text == table.ranks_page(text, json.loads(path.read_text(encoding="utf-8")))


def test_a_setting_that_halves_the_time_is_ranked_first(modules: dict[str, Any], table: Any) -> None:
    sard = modules["sard"]
    space = sard.space()
    configs = sard_design(space, space.default()).configs
    assert len(configs) == 24
    high = space.knobs["work_mem"].high
    runs = [[ms, ms * 1.01, ms * 0.99] for ms in (50.0 if config["work_mem"] == high else 100.0 for config in configs)]
    ranks = sard.ranked(space, configs, runs)
    assert ranks["work_mem"]["rank"] == 1
    assert ranks["work_mem"]["effect_percent"] == pytest.approx(-50)
    lines = table.ranks_table({"seed": sard.SEED, "queries": {"q3": ranks}}).splitlines()
    assert lines[2] == "| `work_mem` | yes | 1.0 | 1 | -50 % (Q3) |"
    assert len(lines) == 2 + len(sard.LEVELS)


def test_a_table_shows_what_a_query_gained(karcher: Any, table: Any) -> None:
    rows = {
        "q17": {arm: result(30) for arm in karcher.ARMS},
        "q18": {arm: result(20) for arm in karcher.ARMS},
        "q2": {"sections": result(50)},
        "stream": result(5),
    }
    rows["q17"]["sections"]["sections"] = 300
    lines = table.table("3", rows).splitlines()
    assert lines[0] == "Scale 3:"
    assert lines[4] == (
        "| Q17 | 30 | 2.10 | 1.086 | 1.50 | 1.50 (1.40 to 1.60) | 7 of 300 | 1.50 | 1.50 (1.40 to 1.60) | 2.00 (1.90 to 12.0) "
        "| 4 | `jit = off`, `work_mem = 64MB` | 7 |"
    )
    assert "1.50 (1.40 to 1.60) | – | 1.50" in lines[5], "an earlier build, which did not tell its sections"
    assert lines[-1].startswith(
        "A stream of all queries, 5 rounds: 1.50 times as fast over all rounds, in pairs 1.50 (1.40"
    )
    assert not any("Q2 " in line for line in lines), "an arm is missing"


def result(n: int) -> dict[str, Any]:
    """What a row of results.json holds of an arm."""
    return {
        "n": n, "default_ms": 2_100.0, "ratio": 1.5, "pair_ratio": 1.5, "interval": [1.4, 1.6], "settled_ratio": 2.0,
        "settled_interval": [1.9, 12.0], "amortised_at": 4, "settings": "jit=off, work_mem=64MB", "probes": 7,
    }  # fmt: skip
