"""The benchmark of searchers: its tables are those of its results, and its loop and its figures are right."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.bench_modules import bench_modules
from trimtab.testing.surfaces import CONTEXT, context_surface, make_surface

FOLDER = Path(__file__).parents[2] / "benchmarks" / "search"
MODULES = ("table", "store", "tasks", "contenders", "replay", "context", "ask")


@pytest.fixture(scope="module")
def bench() -> Iterator[dict[str, Any]]:
    """The benchmark's modules by name; they are no package."""
    with bench_modules(FOLDER, *MODULES) as modules:
        yield modules


def test_the_page_shows_the_results(bench: dict[str, Any]) -> None:
    """Else run: python benchmarks/search/table.py"""
    table = bench["table"]
    found = json.loads((FOLDER / "results.json").read_text(encoding="utf-8"))
    text = table.PAGE.read_text(encoding="utf-8")
    assert table.BEGIN in text
    assert text == table.page(text, found)


class Fixed:
    """Asks given configs in turn."""

    def __init__(self, configs: list[Any]) -> None:
        self.configs = configs
        self.told: list[Any] = []

    def ask(self) -> Any:
        return self.configs.pop(0)

    def tell(self, trial: Any) -> None:
        self.told.append(trial)

    def close(self) -> None:
        """Nothing is open."""


def test_a_run_counts_failures_restarts_and_what_is_worse(bench: dict[str, Any]) -> None:
    surface = make_surface(20, 3)
    rng = np.random.default_rng(0)
    drawn = surface.space.sample(200, rng)
    crash = next(c for c in drawn if math.isinf(surface.loss(c)))
    worse = next(c for c in drawn if 0.2 < surface.loss(c) < 10)
    better = min(drawn, key=surface.loss)
    task = bench["tasks"].Task(
        "t", surface.space, surface.baseline, (), 0.001, surface.loss, surface.optimum
    )  # fmt: skip
    contender = Fixed([worse, crash, better, better])
    made = bench["tasks"].run(task, contender, 4, 1)
    assert made.failed == 0.25
    assert made.worse == 0.25
    assert made.share[:2] == (0.0, 0.0)
    assert made.share[3] == pytest.approx(surface.loss(better) / surface.optimum)
    assert 0.5 <= made.restarts <= 0.75
    assert [trial.loss is None for trial in contender.told] == [False, False, True, False, False]


def test_runs_are_kept_and_forgotten(bench: dict[str, Any], tmp_path: Path) -> None:
    store = bench["store"].Store(tmp_path / "runs.jsonl")
    for contender in ("a", "b"):
        record = {"part": "replay", "task": "t", "contender": contender, "seed": 0, "share": {"10": 0.5}}
        store.add({**record, "failed": 0.0, "worse": 0.5, "restarts": 0.0})
    again = bench["store"].Store(tmp_path / "runs.jsonl")
    assert again.has("replay", "t", "a", 0)
    assert bench["store"].by_task(again.of("replay"))["t"]["b"]["share"]["10"] == [0.5, 0.5, 0.5]
    again.forget(["a"])
    assert not bench["store"].Store(tmp_path / "runs.jsonl").has("replay", "t", "a", 0)


def test_a_table_is_looked_up_by_the_nearest_row(bench: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "model4tune"
    folder.mkdir()
    rows = [f"{a},{b},{100 + 10 * a + b}" for a in range(1, 6) for b in range(1, 6)]
    (folder / "MongoDB.csv").write_text("a,b,<$performance\n" + "\n".join(rows) + "\n", encoding="utf-8")
    task = bench["replay"].load("MongoDB grid", tmp_path, seed=1)
    assert task.true_loss(task.baseline) == 0.0
    best = task.baseline.replace({"a": 1, "b": 1})
    assert task.true_loss(best) == pytest.approx(task.optimum)


def test_knobs_are_read_from_recorded_values(bench: dict[str, Any]) -> None:
    knob = bench["replay"]._knob("k", ["0", "1", "20", "5000"], "0")
    assert (knob.low, knob.high, knob.log, knob.special, knob.default) == (1, 5000, True, (0,), 0)
    assert bench["replay"]._knob("k", ["ON", "OFF"], "ON").choices == ("OFF", "ON")


def test_losses_of_the_workload_cycle_are_relative_to_each_baseline(bench: dict[str, Any]) -> None:
    space, loss = context_surface(2)
    for context in (*bench["context"].CONTEXTS, CONTEXT):
        assert loss(space.default(), context) == 0.0
    configs = space.sample(300, np.random.default_rng(1))
    best = {c.workload: min(configs, key=lambda config, c=c: loss(config, c)) for c in bench["context"].CONTEXTS}
    assert len(set(best.values())) > 1


def test_asks_are_timed_with_the_design_taken_out(bench: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench["ask"], "MANY", 200)  # of the 10,000 trials of the benchmark
    rows = bench["ask"].measure(20, "random", (20,))
    assert [row["trials"] for row in rows] == [20, bench["ask"].MANY]
    assert all(0 < row["seconds"] <= row["longest"] for row in rows)


def _record(contender: str, seed: int, share: float) -> dict[str, Any]:
    return {"task": "t", "contender": contender, "seed": seed, "share": {"10": share, "25": 2 * share}}


def test_contenders_are_compared_in_pairs(bench: dict[str, Any]) -> None:
    """Mean of the differences over shared seeds with Student's interval; what has no partner is left out."""
    records = [_record("auto", seed, 0.3 + 0.1 * (seed % 2)) for seed in range(4)]
    records += [_record("gp", seed, 0.2) for seed in range(5)] + [_record("tpe", 0, 0.9), _record("tpe", 1, 0.9)]
    found = bench["store"].paired(records)
    assert list(found) == ["gp"]
    assert found["gp"]["runs"] == 4
    mean, half = found["gp"]["10"]
    assert mean == pytest.approx(0.15)
    assert half == pytest.approx(3.182 * np.std([0.1, 0.2, 0.1, 0.2], ddof=1) / 2, abs=1e-3)


def test_tables_on_which_constants_were_chosen_are_marked(bench: dict[str, Any]) -> None:
    found = json.loads((FOLDER / "results.json").read_text(encoding="utf-8"))
    text = bench["table"].tables(found)
    assert "opadviser w02 (constants were chosen on it)" in text
    assert "opadviser w04 (constants" not in text


def test_ranks_are_means_over_tasks_and_of_common_seeds(bench: dict[str, Any]) -> None:
    records = [
        {**_record(name, seed, share), "task": task}
        for task, shares in {
            "t": {"auto": 0.5, "gp": 0.4, "tpe": 0.4},
            "u": {"auto": 0.1, "gp": 0.2, "tpe": 0.3},
        }.items()
        for name, share in shares.items()
        for seed in range(3)
    ]
    records += [_record("tpe", 9, 0.9), _record("alone", 0, 0.9)]
    found = bench["store"].ranks(records)
    assert {name: row["10"] for name, row in found.items()} == {"auto": 2.0, "gp": 2.25, "tpe": 1.75}


def test_the_best_peer_of_each_task_is_named(bench: dict[str, Any]) -> None:
    """A peer with fewer than three runs in common is left out, however good."""
    records = [_record("auto", seed, 0.3) for seed in range(4)] + [_record("tpe", seed, 0.1) for seed in range(4)]
    records += [_record("skopt", seed, 0.2) for seed in range(3)] + [_record("lucky", 0, 0.9)]
    found = bench["store"].against_best(records, ["tpe", "skopt", "lucky", "absent"])
    assert found["t"]["10"] == ["skopt", 3, 0.1, 0.0]
    assert found["t"]["25"] == ["skopt", 3, 0.2, 0.0]
