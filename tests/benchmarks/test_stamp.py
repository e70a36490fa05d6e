"""Every benchmark's results say with what they were made, and the pages that show them print it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench_modules import BENCHMARKS, bench_modules

DOCS = BENCHMARKS.parent / "docs"
PAGES: dict[str, dict[str, tuple[str, ...]]] = {
    "cgptuner": {"measurements/contexts-in-turns.md": ("all",)},
    "fernando": {"measurements/three-tiers.md": ("rubis throughput", "tpcw throughput", "rubis latency_p99", "tpcw latency_p99",
                                                "rubis latency_mean", "tpcw latency_mean")},
    "history": {
        "measurements/warm-start.md": ("warm",),
        "reference/history.md": ("sqlite", "formats_10_studies", "postgresql"),
    },
    "importance": {"measurements/importance.md": ("planted", "recorded", "ycsb", "tpch")},
    "kanellis": {"measurements/few-knobs.md": ("postgresql A", "postgresql B", "cassandra A", "cassandra B")},
    "karcher": {"measurements/in-engine.md": ("scale 1", "scale 3")},
    "live": {"measurements/search-live.md": ("all",)},
    "load": {"measurements/load-speed.md": ("select", "drivers", "ycsb", "open", "memory", "pages", "browsers", "cassandra",
                                            "wiredtiger", "mongodb")},
    "restart": {"measurements/restarts.md": ("cassandra", "tomcat")},
    "sections": {"measurements/speed.md": ("calls",)},
    "steady": {"measurements/three-tiers.md": ("all",)},
    "search": {"measurements/search.md": ("replay", "surfaces (auto)", "surfaces (others)", "rugged", "context", "ask")},
    "zhou2013": {"measurements/zhou2013.md": ("4q6-4q9-4q13 all", "3q6-3q7-3q8-3q13 all", "12q6 all", "12q7 all")},
}  # fmt: skip
"""Benchmark -> page -> the parts of its results that the page shows."""


@pytest.fixture(scope="module")
def stamp() -> Iterator[Any]:
    """The module that all benchmarks write their results with."""
    with bench_modules(BENCHMARKS, "stamp") as modules:
        yield modules["stamp"]


@pytest.mark.parametrize("path", sorted(BENCHMARKS.glob("*/results.json")), ids=lambda path: path.parent.name)
def test_every_result_has_its_stamp_and_its_page_prints_it(path: Path, stamp: Any) -> None:
    made = json.loads(path.read_text(encoding="utf-8"))["made"]
    for part, own in made.items():
        assert set(stamp.FIELDS) <= set(own), part
        assert all(own.values()), part
        assert re.search(r"\b[0-9a-f]{7,}\b", f"{own['commit']} {own.get('recorded_in', '')}"), part
        assert re.search(r"\d{4}-\d\d-\d\d", own["date"]), part
    pages = PAGES[path.parent.name]
    assert {part for parts in pages.values() for part in parts} == set(made)
    for name, parts in pages.items():
        text = (DOCS / name).read_text(encoding="utf-8")
        for part in parts:
            assert stamp.line(made[part]) in text, f"{name} lacks the stamp of {part}"


def test_every_benchmark_writes_its_results_with_the_stamp() -> None:
    """No script writes a results.json by itself."""
    for path in sorted(BENCHMARKS.glob("*/*.py")):
        text = path.read_text(encoding="utf-8")
        if "results.json" in text and "import argparse" in text:
            assert "stamp.write(" in text or "keep_rows(" in text, path
            assert "json.dump(" not in text, path
            assert not re.search(r"(RESULTS|results|out|path)\.write_text", text), path


def test_results_without_a_stamp_are_refused(stamp: Any, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text("{}", encoding="utf-8")
    whole = stamp.Making().stamp()
    for made in ({}, {"a": {}}, {"a": whole, "b": {**whole, "machine": ""}}):
        with pytest.raises(ValueError, match="results need a stamp with commit, version, machine, load, date"):
            stamp.write(path, {"rows": []}, made)
    assert path.read_text(encoding="utf-8") == "{}"
    stamp.write(path, {"rows": [1]}, {"a": whole})
    assert stamp.former(path) == {"schema_version": 1, "rows": [1], "made": {"a": whole}}
    assert [p.name for p in tmp_path.iterdir()] == ["results.json"]


def test_a_stamp_says_what_this_run_was_made_with(stamp: Any) -> None:
    found = stamp.Making().stamp()
    assert tuple(found) == stamp.FIELDS
    assert " cores of " in found["machine"]
    assert found["load"] == "unknown" or 0 <= found["load"][0] <= found["load"][1] <= 1
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", found["date"])


def test_a_page_prints_a_stamp_as_a_sentence(stamp: Any) -> None:
    own = {
        "commit": "abc1234",
        "version": "0.1.0",
        "machine": "2 cores of X",
        "load": [0.05, 0.05],
        "date": "2026-11-22",
    }
    assert stamp.line(own) == (
        "Measured: 2026-11-22; commit: abc1234; version: 0.1.0; machine: 2 cores of X; load: others took 5 % of the CPU."
    )
    other = {**own, "commit": "unknown", "recorded_in": "def5678", "load": "unknown"}
    assert "commit: unknown, recorded in def5678;" in stamp.line(other)
    assert stamp.line(other).endswith("load: unknown.")
    assert stamp.lines({"a": own, "b": own}) == stamp.line(own)
    assert stamp.lines({"a": own, "b": other, "c": own}) == f"- a, c: {stamp.line(own)}\n- b: {stamp.line(other)}"


def test_figures_of_several_times_have_one_stamp(stamp: Any) -> None:
    first = {
        "commit": "abc1234",
        "version": "0.1.0",
        "machine": "X",
        "load": [0.1, 0.1],
        "date": "2026-11-21 10:00 UTC",
    }
    second = {**first, "commit": "def5678", "load": [0.3, 0.3], "date": "2026-11-22 10:00 UTC"}
    assert stamp.merged([second, first]) == {
        "commit": "def5678, abc1234", "version": "0.1.0", "machine": "X", "load": [0.1, 0.3],
        "date": "2026-11-21 10:00 UTC to 2026-11-22 10:00 UTC",
    }  # fmt: skip
    assert stamp.merged([first]) == first
    assert stamp.merged([stamp.merged([first, second]), first]) == stamp.merged([first, second])
    partly = stamp.merged([first, None])
    assert (partly["commit"], partly["load"]) == ("abc1234, unknown", "unknown")
    assert partly["date"] == "2026-11-21 10:00 UTC to unknown"


def test_the_share_of_others_is_between_none_and_all(stamp: Any) -> None:
    cpu = stamp.CpuShare()
    sum(range(10**6))
    share = cpu.of_others()
    assert share is None or 0 <= share <= 1


def test_the_page_shows_the_figures_of_a_section() -> None:
    with bench_modules(BENCHMARKS / "sections", "run") as modules:
        found = json.loads((BENCHMARKS / "sections" / "results.json").read_text(encoding="utf-8"))
        assert modules["run"].table(found) in (DOCS / "measurements" / "speed.md").read_text(encoding="utf-8")
