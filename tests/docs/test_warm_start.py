"""The page of the warm start shows the results of its benchmark."""

from __future__ import annotations

import json
from pathlib import Path

from tests.bench_modules import bench_modules

FOLDER = Path(__file__).parents[2] / "benchmarks" / "history"


def test_the_page_shows_the_results() -> None:
    """Else run: python benchmarks/history/table.py"""
    with bench_modules(FOLDER, "table") as modules:
        table = modules["table"]
        found = json.loads((FOLDER / "results.json").read_text(encoding="utf-8"))
        text = table.PAGE.read_text(encoding="utf-8")
        assert table.BEGIN in text
        assert text == table.page(text, found)
        assert {row["kind"] for row in found["warm"]["pairs"]} == {"related", "unrelated"}
