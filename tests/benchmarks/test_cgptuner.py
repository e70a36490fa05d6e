"""Contexts that take turns: what a run leaves in the results, and the table made of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.bench_modules import BENCHMARKS, bench_modules


@pytest.fixture(scope="module")
def table() -> Iterator[Any]:
    """The script that writes the page; its folder is no package."""
    with bench_modules(BENCHMARKS / "cgptuner", "table", "tables", "turns", "stamp") as found:
        yield found["table"]


def _row(method: str, seed: int, ratio: float | None) -> dict[str, Any]:
    context = {"baseline_ms": 1.0, "last_ms": ratio, "ratio": ratio, "best": ratio, "n": 20, "failed": seed}
    return {"system": "wiredtiger", "method": method, "seed": seed, "contexts": {"A/60": context}}


def test_the_table_shows_gains_over_the_settings_as_found_and_the_methods_against_each_other(table: Any) -> None:
    rows = [_row("contextual-gp", n, 0.5) for n in (1, 2, 3)] + [_row("gp", n, 0.6 + 0.01 * n) for n in (3, 2, 1)]
    lines = table.table(rows).splitlines()
    assert lines[0].startswith("| wiredtiger, 3 seeds | contextual-gp | gp | random | contextual / plain |")
    assert lines[2].startswith("| A/60 | 2.00 (2.00 to 2.00) | 1.61 (1.59 to 1.64) | – | 1.24 (1.1")
    assert lines[2].endswith("| – | 1,466 2,015 1,860 µs |")
    assert lines[3].startswith("| all, geometric mean | 2.00 (2.00 to 2.00) | 1.61")
    assert lines[4].startswith("| trials that failed | 6 of 60 | 6 of 60 | 0 of 0 |")


def test_a_context_in_which_every_trial_failed_has_no_gain(table: Any) -> None:
    rows = [_row("contextual-gp", 1, None), _row("gp", 1, 0.5)]
    lines = table.table(rows).splitlines()
    assert lines[0].startswith("| wiredtiger, 1 seed |")
    assert lines[2].startswith("| A/60 | – | 2.00 | – | – | – |")


def test_the_page_shows_the_results(table: Any) -> None:
    """Else run: python benchmarks/cgptuner/table.py"""
    text, results = table.PAGE.read_text(encoding="utf-8"), table.HERE / "results.json"
    assert text == table.page(text, json.loads(results.read_text(encoding="utf-8")))
