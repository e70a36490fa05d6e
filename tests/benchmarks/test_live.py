"""The benchmark on real servers: what it computes of a study, and that it goes on where it was stopped."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench_modules import bench_modules
from tests.fakes import FakeStudy

pytestmark = pytest.mark.slow

LIVE = Path(__file__).parents[2] / "benchmarks" / "live"
MADE = {"commit": "abc1234", "version": "0.1.0", "machine": "X", "load": [0.02, 0.02], "date": "2026-11-22 10:00 UTC"}


@pytest.fixture(scope="module")
def live() -> Iterator[Any]:
    """The benchmark's main module; its folder is no package."""
    with bench_modules(LIVE, "contenders", "run") as modules:
        yield modules["run"]


def test_a_run_is_told_by_gain_area_settings_and_failures(fake: FakeStudy, live: Any) -> None:
    fake.workload.noise_sd = 0.01
    fake.target._crash_when = lambda values: values["method"] == "ring"
    record, trials = fake.tune()
    row = live.row_of(("demo", "auto", 1, "6m"), 360.0, record, trials)
    assert row["result"] == "better"
    assert row["gain"]["low"] > 1
    assert set(row["settings"]) == set(record.verdict.config)
    assert row["n_crashed"] == sum(t.status.is_config_fault for t in trials)
    assert row["n_trials"] == len(trials)
    json.dumps(row)


def test_the_area_is_the_mean_log_gain_over_the_budget(fake: FakeStudy, live: Any) -> None:
    _, trials = fake.tune()
    best = max(math.exp(-t.loss) for t in trials if t.loss is not None and t.is_feasible and t.status == "ok")
    spent = sum(sum(t.cost_s.values()) for t in trials)
    curve, area = live.gain_curve(trials, 1e6 * spent)
    assert curve[-1][1] == pytest.approx(best, rel=1e-3)
    assert area == pytest.approx(math.log(best), rel=1e-3)
    assert [gain for _, gain in curve] == sorted(gain for _, gain in curve)
    assert live.gain_curve([], 100.0) == ([], 0.0)


def test_what_was_run_is_not_run_again(tmp_path: Path, live: Any) -> None:
    path = tmp_path / "results.json"
    row = {"task": "demo", "contender": "auto", "seed": 1, "budget": "6m", "gain": None, "settings": {}, "area": 0.0,
           "n_crashed": 0, "n_worse": 1, "search_share": 0.6, "made": MADE}  # fmt: skip
    live.Store(path).add(row)
    store = live.Store(path)
    assert store.has(("demo", "auto", 1, "6m"))
    assert not store.has(("demo", "auto", 2, "6m"))
    store.add({**row, "gain": {"estimate": 2.0}})
    assert len(live.Store(path).rows) == 1
    assert json.loads(path.read_text(encoding="utf-8"))["made"] == {"all": MADE}
    assert "| demo | auto | 1 | 2.00 (2.00 to 2.00) |" in live.table(live.Store(path).rows)


def test_every_task_is_a_study_and_every_contender_is_known(live: Any) -> None:
    for path, budget, n_seeds in live.TASKS.values():
        file = live._study(path, "random", 3, budget)
        assert (file.study.seed, file.search.searcher) == (3, "random")
        assert n_seeds >= 3
    assert all(not live.missing(name) for name in live.OURS)
