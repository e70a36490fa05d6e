"""The experiment of three tiers: what is tuned tier by tier is what a study of the whole tunes."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import pytest

from tests.bench_modules import BENCHMARKS, bench_modules


@pytest.fixture(scope="module")
def run() -> Iterator[Any]:
    """The script."""
    with bench_modules(BENCHMARKS / "fernando", "run", "turns", "stamp") as modules:
        yield modules["run"]


@pytest.mark.parametrize("application", ["rubis", "tpcw"])
def test_the_tiers_together_are_the_whole(run: Any, application: str) -> None:
    options = argparse.Namespace(budget="2h", quick=False)
    whole, bandit = (run.study_of(application, "latency_mean", options, part) for part in (run.WHOLE, run.BANDIT))
    assert set(whole.target) == set(bandit.target) == set(run.TIERS)
    for part in run.TIERS:
        target = run.study_of(application, "latency_mean", options, part).target
        assert [name for name, table in target.items() if table.get("knobs") != []] == [part]
        assert target[part] == whole.target[part]


def test_the_table_says_how_many_budgets_a_config_has_had_and_where_nothing_was_proven(run: Any) -> None:
    values = {"found": [2.0, 2.0], "web": [2.0, 2.0], "whole": [1.0, 1.0], "combined": [1.0, 1.0]}
    changed: dict[str, Any] = {"web": {}, "whole": {"db.work_mem": 8}, "combined": {"db.work_mem": 8}}
    rows = [{"application": "tpcw", "objective": "latency_mean", "values": values, "changed": changed, "ranked": []}]
    cells = [line.split(" | ")[2:6] for line in run.table(rows).splitlines()[2:]]
    assert [(part, budgets, gain) for part, budgets, _, gain in cells] == [
        ("web", "1", "–"), ("whole", "1", "50.0%"), ("combined", "3", "50.0%"),
    ]  # fmt: skip
    assert cells[0][2] == "nothing proven"
