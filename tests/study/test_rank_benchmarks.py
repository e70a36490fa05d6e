"""The arithmetic and the tables of the benchmarks of importance that need real servers; the servers themselves do not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.bench_modules import bench_modules
from trimtab.study import load_study_file

FOLDER = Path(__file__).parents[2] / "benchmarks" / "importance"


@pytest.fixture(scope="module")
def modules() -> Iterator[dict[str, ModuleType]]:
    with bench_modules(FOLDER, "studies", "ycsb", "ycsb_table", "tpch_sard", "tpch_table") as found:
        yield found


def _rows(order: str) -> list[dict[str, Any]]:
    return [{"knob": name, "rank": place, "rank_low": place, "rank_high": place} for place, name in enumerate(order, 1)]


def test_the_ycsb_study_has_thirty_knobs_and_no_opened_class() -> None:
    for letter in "ab":
        table = load_study_file(FOLDER / f"ycsb-{letter}.toml").target["db"]
        assert len(set(table["knobs"])) == 30
        assert "unlock" not in table


def test_the_sard_study_has_the_knobs_of_the_published_table(modules: dict[str, ModuleType]) -> None:
    knobs = load_study_file(FOLDER / "tpch-sard.toml").target["db"]["knobs"]
    assert set(knobs) == set(modules["tpch_sard"].PUBLISHED)
    assert all(len(row) == len(modules["tpch_sard"].QUERIES) for row in modules["tpch_sard"].PUBLISHED.values())


@pytest.mark.slow
def test_overlap_counts_shared_knobs_and_certain_ranks_have_no_spread(modules: dict[str, ModuleType]) -> None:
    found = modules["ycsb"]._overlap(_rows("abcdefghij"), _rows("abcdefghij"[::-1]))
    assert found["correlation"] == {"estimate": pytest.approx(-1), "low": pytest.approx(-1), "high": pytest.approx(-1)}
    assert found["top5"] == {"estimate": 0, "low": 0, "high": 0}
    assert found["top8"]["estimate"] == 6


def test_share_of_the_best_has_an_interval_and_trials_are_counted_to_it(modules: dict[str, ModuleType]) -> None:
    gain = {"estimate": 1.9, "low": 1.8, "high": 2.0}
    arm = {"gain": gain, "curve": [1.0, 1.5, 1.91, 1.91]}
    found = modules["ycsb"]._against(arm, {"estimate": 2.0, "low": 1.9, "high": 2.1})
    assert found["of_best"]["estimate"] == pytest.approx(0.95)
    assert found["of_best"]["low"] < 0.9 < 0.95 < found["of_best"]["high"]
    assert found["trials_to"] == {"90%": 3, "95%": None}


@pytest.mark.slow
def test_tables_show_what_was_not_reached(modules: dict[str, ModuleType]) -> None:
    interval = {"estimate": 1.5, "low": 1.4, "high": 1.6}
    ranks = {"knobs": _rows("abcdefghij"), "r2": None, "verdict": ""}
    arms = {"all": {"gain": interval, "of_best": interval, "trials_to": {"90%": 7, "95%": None}}}
    rows = [{"workload": "A", "n_knobs": 10, "arms": arms, "ranks": ranks}]
    overlap = dict.fromkeys(("correlation", "top5", "top8"), interval)
    found = {"runs": 60, "trials": 24, "window": "2s", "rows": rows, "overlap": overlap}
    text = "\n".join(modules["ycsb_table"].lines(found))
    assert "| A | all 10 | 1.50 (1.40 to 1.60) | 1.50 (1.40 to 1.60) | 7 | not reached |" in text
    assert "`a` (1 to 1), `b` (2 to 2)" in text


def test_the_sard_table_stands_beside_the_published_one(modules: dict[str, ModuleType]) -> None:
    ranks = {"n_trials": 30, "knobs": _rows("ab")}
    rows = [{"query": "q1", "ranks": ranks, "published": {"a": 15, "b": 1}, "tau": -1.0, "tau_p": 0.5}]
    text = "\n".join(modules["tpch_table"].lines({"scale": 0.1, "rows": rows}))
    assert "| `a` | – | 1 (1 to 1) |" in text
    assert "| `b` | 1 | 2 (2 to 2) |" in text
    assert "Kendall's tau between the two: Q1 -1.00 (p = 0.50)." in text
