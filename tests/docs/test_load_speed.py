"""The benchmark of the load engine: its page is that of its results, and pairs, goals and percentiles are computed right."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.bench_modules import bench_modules

FOLDER = Path(__file__).parents[2] / "benchmarks" / "load"
MODULES = ("table", "pairs", "clients", "servers", "ours")


@pytest.fixture(scope="module")
def bench() -> Iterator[dict[str, Any]]:
    """The benchmark's modules by name; they are no package."""
    with bench_modules(FOLDER, *MODULES) as modules:
        yield modules


def test_the_page_shows_the_results(bench: dict[str, Any]) -> None:
    """Else run: python benchmarks/load/table.py"""
    table = bench["table"]
    found = json.loads((FOLDER / "results.json").read_text(encoding="utf-8"))
    text = table.PAGE.read_text(encoding="utf-8")
    assert table.BEGIN in text
    assert text == table.page(text, found)
    assert {"select", "ycsb", "open", "memory"} <= set(found["parts"]) <= set(table._TITLES)


def test_clients_take_turns_and_neighbours_are_compared(bench: dict[str, Any]) -> None:
    turns: list[str] = []

    def client(name: str, rates: list[float]) -> Any:
        def measure() -> Any:
            turns.append(name)
            rate = rates.pop(0)
            return bench["clients"].Sample(rate, 1e6 / rate, 1.0)

        return measure

    found = bench["pairs"].compare(client("ours", [100.0, 200.0, 400.0]), client("peer", [50.0, 50.0, 400.0]), 3)
    assert turns == ["ours", "peer", "peer", "ours", "ours", "peer"]
    assert found["ratio"]["rate"] == {"median": 2.0, "low": 1.0, "high": 4.0}
    assert found["ratio"]["cpu_us"] == {"median": 0.5, "low": 0.25, "high": 1.0}
    assert found["ours"]["rate"] == {"median": 200.0, "low": 100.0, "high": 400.0}


@pytest.mark.parametrize(
    ("what", "ratio", "expected"),
    [
        ("cpu_us", 0.9, "≤ 1.00: met"),
        ("cpu_us", 1.01, "≤ 1.00: **missed**"),
        ("rate", 1.1, "≥ 1.00: met"),
        ("rate", 0.9, "≥ 1.00: **missed**"),
    ],
)
def test_a_goal_is_met_by_the_median(bench: dict[str, Any], what: str, ratio: float, expected: str) -> None:
    row = {"goal": {"cpu_us": 1.0, "rate": 1.0}, "ratio": {what: {"median": ratio}}}
    assert bench["table"]._goal(row, what) == expected
    assert bench["table"]._goal({**row, "goal": {}}, what) == "–"


@pytest.mark.parametrize(("cost_us", "expected"), [(11.9, "ours ≤ 12 µs: met"), (12.1, "ours ≤ 12 µs: **missed**")])
def test_a_goal_for_our_own_cost(bench: dict[str, Any], cost_us: float, expected: str) -> None:
    row = {
        "goal": {"own_us": 12.0},
        "ours": {"cpu_us": {"median": cost_us}},
        "ratio": {w: {"median": 1.0} for w in ("cpu_us", "rate")},
    }
    assert bench["table"]._goal(row, "cpu_us") == expected
    assert bench["table"]._goal(row, "rate") == "–"


class Log:
    """A log with given buckets."""

    def __init__(self, buckets: dict[int, int]) -> None:
        self._buckets = buckets

    def buckets(self, what: str) -> Any:
        values, counts = array("d", self._buckets), array("q", self._buckets.values())
        return SimpleNamespace(value_us=values.tobytes(), count=counts.tobytes())


def test_percentiles_of_a_run(bench: dict[str, Any]) -> None:
    found = bench["ours"]._summary(Log({900_000: 1, 100: 60, 200: 39}), "response")
    assert found == {"n": 100, "long": 1, "p50": 100, "p99": 200, "max": 900_000, "mean": 9138}
    assert bench["ours"]._summary(Log({}), "response") == {
        "n": 0, "long": 0, "p50": 0, "p99": 0, "max": 0, "mean": 0
    }  # fmt: skip


def test_a_program_that_fails_says_why(bench: dict[str, Any]) -> None:
    with pytest.raises(RuntimeError, match="ended with 3: no such table"):
        bench["clients"].finished(["sh", "-c", "echo no such table; exit 3"])
