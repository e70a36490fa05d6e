"""The benchmark on real servers: what it computes of a study, and that it goes on where it was stopped."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import replace
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
    with bench_modules(LIVE, "contenders", "table", "tables", "stamp", "run") as modules:
        yield modules["run"]


@pytest.fixture(scope="module")
def table() -> Iterator[Any]:
    """The module that writes the page."""
    with bench_modules(LIVE, "table", "tables", "stamp") as modules:
        yield modules["table"]


def run_of(contender: str, seed: int, gain: float | None, n_settings: int = 2) -> dict[str, Any]:
    """As results.json has it."""
    return {
        "task": "demo", "contender": contender, "seed": seed, "budget": "6m", "settings": dict.fromkeys(range(n_settings)),
        "gain": gain and {"estimate": gain, "low": 0.9 * gain, "high": 1.1 * gain}, "area": 0.5, "n_trials": 40, "n_crashed": 0,
        "n_worse": 1, "noise": 0.04, "curve": [[10.0, 1.5], [119.0, 1.8], [200.0, 2.2]], "made": MADE,
    }  # fmt: skip


def test_a_run_is_told_by_gain_area_settings_and_failures(fake: FakeStudy, live: Any) -> None:
    fake.workload.noise_sd = 0.01
    fake.target._crash_when = lambda values: values["method"] == "ring"
    record, trials = fake.tune()
    row = live.row_of(("demo", "auto", 1, "6m"), 360.0, record, trials)
    assert row["result"] == "better"
    assert row["gain"]["low"] > 1
    assert row["unmet"] == []
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
    row = run_of("auto", 1, None)
    live.Store(path).add(row)
    store = live.Store(path)
    assert store.has(("demo", "auto", 1, "6m"))
    assert not store.has(("demo", "auto", 2, "6m"))
    store.add(run_of("auto", 1, 2.0))
    assert [each["gain"]["estimate"] for each in live.Store(path).rows] == [2.0]
    assert json.loads(path.read_text(encoding="utf-8"))["made"] == {"all": MADE}


def test_a_run_that_is_stopped_is_not_kept_and_ends_the_benchmark(
    tmp_path: Path, fake: FakeStudy, live: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record, trials = fake.tune()
    begun: list[Path] = []

    def tune(_file: Any, state: Path, _progress: Any) -> tuple[Any, Any]:
        begun.append(state)
        return replace(record, status="interrupted"), trials

    results = tmp_path / "results.json"
    monkeypatch.setattr(live, "tune", tune)
    monkeypatch.setattr(live, "register", lambda: None)
    monkeypatch.setattr(sys, "argv", ["run.py", "--task", "demo", "--contender", "random", "--results", str(results)])
    live.main()
    assert len(begun) == 1
    assert not results.exists()
    assert "demo random 1: stopped, status='interrupted'; not kept" in capsys.readouterr().err


def test_the_table_compares_the_seeds_that_all_searchers_have_and_shows_every_run(table: Any) -> None:
    runs = [
        run_of("auto", 1, 9.0),
        run_of("auto", 2, 2.0),
        run_of("auto", 3, 2.0),
        run_of("smac3", 2, 1.0, 4),
        run_of("smac3", 3, None, 0),
    ]
    lines = table.tables({"runs": runs, "made": {"all": MADE}}).splitlines()
    assert "Over the seeds that all searchers have (2, 3):" in lines
    assert "| `auto` | 2.00 | 0.50 | 2.0 | 1.0 | 0.0 |  |" in lines
    assert "| SMAC3 | 1.00 | 0.50 | 2.0 | 1.0 | 0.0 | 2.00 (0 %) |" in lines, "nothing proven is a gain of 1"
    assert "| `auto` | 1 | 9.00 (8.10 to 9.90) | 2 | 40 | 1 | 0 | 1.80 | 0.50 | 4 % | abc1234 | X | 2 % |" in lines
    assert "| SMAC3 | 3 | none | 0 | 40 | 1 | 0 | 1.80 | 0.50 | 4 % | abc1234 | X | 2 % |" in lines
    alone = table.tables({"runs": runs[:3], "made": {"all": MADE}})
    assert "Over the seeds" not in alone, "one searcher is compared with none"


def test_the_page_shows_the_results(table: Any) -> None:
    """Else run: python benchmarks/live/table.py"""
    text, results = table.PAGE.read_text(encoding="utf-8"), table.HERE / "results.json"
    assert text == table.page(text, json.loads(results.read_text(encoding="utf-8")))


def test_every_task_is_a_study_and_every_contender_is_known(live: Any) -> None:
    for path, budget, n_seeds in live.TASKS.values():
        file = live._study(path, "random", 3, budget)
        assert (file.study.seed, file.search.searcher) == (3, "random")
        assert n_seeds >= 3
    assert all(not live.missing(name) for name in live.OURS)
