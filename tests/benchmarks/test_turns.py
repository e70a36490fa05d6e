"""Experiments of several studies: rows are kept one by one, a stop loses none, and configs are compared round by round."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench_modules import BENCHMARKS, bench_modules

MADE = {"commit": "0123456", "version": "0", "machine": "m", "load": [0.0, 0.0], "date": "2026-01-01 00:00 UTC"}
KEYS = {"system": ("a", "b"), "workload": ("x", "y")}


@pytest.fixture(scope="module")
def turns() -> Iterator[Any]:
    """The module."""
    with bench_modules(BENCHMARKS, "turns", "stamp") as modules:
        yield modules["turns"]


@pytest.mark.parametrize("kind", ["StoppedError", "KeyboardInterrupt"])
def test_a_stopped_experiment_goes_on_where_it_was(
    turns: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    done: list[tuple[str, str]] = []
    stops = [("b", "x")]
    options = argparse.Namespace(results=tmp_path / "results.json")

    def experiment(system: str, workload: str, options: Any, progress: Any) -> dict[str, Any]:
        if (system, workload) in stops:
            stops.clear()
            raise KeyboardInterrupt if kind == "KeyboardInterrupt" else turns.StoppedError
        done.append((system, workload))
        return {"value": len(done), "made": MADE}

    def table(rows: Any) -> str:
        return f"{len(rows)} rows"

    assert turns.keep_rows(options, KEYS, experiment, table) == 130
    assert "the same command goes on" in capsys.readouterr().err
    kept = json.loads(options.results.read_text(encoding="utf-8"))
    assert [(row["system"], row["workload"], row["value"]) for row in kept["rows"]] == [("a", "x", 1), ("a", "y", 2)]
    assert set(kept["made"]) == {"a x", "a y"}
    assert turns.keep_rows(options, KEYS, experiment, table) == 0
    assert done == [("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")]
    assert "4 rows" in capsys.readouterr().out


def test_rounds_in_which_a_run_failed_do_not_count(turns: Any) -> None:
    values = {"found": [100.0, 100.0, math.nan, 100.0], "all": [200.0, 210.0, 200.0, 190.0], "few": [200.0]}
    estimate, low, high = turns.ratio(values, "found", "all", True)
    assert low < estimate < high
    assert estimate == pytest.approx((2.0 * 2.1 * 1.9) ** (1 / 3))
    assert turns.ratio(values, "found", "few", True) is None
    assert turns.ratio(values, "found", "nobody", True) is None
