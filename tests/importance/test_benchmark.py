"""The benchmark of importance: its page is that of its results, and its counts are counted right."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench_modules import bench_modules

FOLDER = Path(__file__).parents[2] / "benchmarks" / "importance"


@pytest.fixture(scope="module")
def bench() -> Iterator[dict[str, Any]]:
    """The benchmark's modules by name; they are no package."""
    with bench_modules(FOLDER, "table", "planted") as modules:
        yield modules


def test_the_page_shows_the_results(bench: dict[str, Any]) -> None:
    """Else run: python benchmarks/importance/table.py"""
    table = bench["table"]
    found = json.loads((FOLDER / "results.json").read_text(encoding="utf-8"))
    text = table.PAGE.read_text(encoding="utf-8")
    assert table.BEGIN in text
    with bench_modules(FOLDER):
        assert text == table.page(text, found)
    assert {"planted", "recorded"} <= set(found["parts"])


def test_samples_needed_are_those_from_which_it_holds(bench: dict[str, Any]) -> None:
    rows = [{"samples": n, "last_place": {"x": [place]}} for n, place in ((20, 5), (40, 9), (60, 6), (80, 5), (100, 6))]
    needed = bench["table"].needed
    assert needed(rows, "x", 0, 6) == 60
    assert needed(rows, "x", 0, 5) is None
    assert needed(rows, "x", 0, 9) == 20


def test_planted_truth_is_what_it_says(bench: dict[str, Any]) -> None:
    """Only the five move the loss, each by its size, and two of them move it together."""
    planted = bench["planted"].plant(30, 3)
    default = planted.space.default()
    moved = {}
    for name in planted.space.knobs:
        losses = [planted.loss(default.replace({name: value})) for value in planted.space.levels(name, 60)]
        moved[name] = max(losses) - min(losses)
    assert {name for name, size in moved.items() if size > 0} == set(planted.five)
    first, second = planted.five[:2]
    ends = [[planted.space.levels(n, 5)[i] for i in (-1, 1)] for n in (first, second)]
    at = [[planted.loss(default.replace({first: a, second: b})) for b in ends[1]] for a in ends[0]]
    assert abs(at[0][0] - at[0][1] - at[1][0] + at[1][1]) > 0.05
    assert bench["planted"].places(["a", "b", "c", "d"], ["a", "c"]) == 3
