"""Tables of trials: what a spreadsheet does to them, and what they do not say."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from tests.history.strategies import plain_study
from tests.history.test_formats import make


@pytest.mark.parametrize(
    ("head", "objective", "loss"),
    [("throughput", "throughput", -math.log(2)), ("latency_p95", "latency_p95", math.log(2)),
     ("latency_p95,latency_mean", "latency_mean", math.log(3))],
)  # fmt: skip
def test_a_table_that_names_no_objective_is_judged_by_what_it_measures(
    head: str, objective: str, loss: float, tmp_path: Path
) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"config.a,{head}\n1,{'5,5' if ',' in head else '5'}\n2,{'10,15' if ',' in head else '10'}\n")
    (copy,) = make("csv").read(str(path)).studies
    assert copy.record.objective == objective
    assert [trial.loss for trial in copy.trials] == [pytest.approx(0.0), pytest.approx(loss)]


@pytest.mark.parametrize(
    ("head", "objective", "what", "loss"),
    [("throughput", "throughput", "taken as throughput (more is better)", -math.log(2)),
     ("latency_p95", "latency_p95", "taken as latency_p95 (less is better)", math.log(2)),
     ("seconds", "latency_mean", "'seconds' is taken as latency_mean (less is better)", math.log(2))],
)  # fmt: skip
def test_the_performance_of_a_table_of_another_program_is_what_its_column_says(
    head: str, objective: str, what: str, loss: float, tmp_path: Path
) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"cache,{head}\n1,5\n2,10\n")
    imported = make("csv").read(str(path))
    (copy,) = imported.studies
    assert copy.record.objective == objective
    assert [trial.loss for trial in copy.trials] == [pytest.approx(0.0), pytest.approx(loss)]
    (note,) = imported.notes
    assert what in note


def test_a_table_may_have_been_sorted(tmp_path: Path) -> None:
    """By a spreadsheet: rows of several studies stand between each other, and the baseline is not the first."""
    values = [10.0, 30.0, 20.0]
    copies = [
        plain_study(name, [({"cache": n}, value * factor, "", 0.0) for n, value in enumerate(values)], float(factor))
        for factor, name in enumerate(("a", "b"), 1)
    ]
    place = tmp_path / "x.csv"
    make("csv").write(copies, str(place))
    head, *rows = place.read_text().splitlines(keepends=True)
    column = head.split(",").index("throughput")
    place.write_text(head + "".join(sorted(rows, key=lambda row: -float(row.split(",")[column]))))
    found = {copy.record.name: copy for copy in make("csv").read(str(place)).studies}
    assert sorted(found) == ["a", "b"]
    for copy in copies:
        read = found[copy.record.name]
        assert [(t.number, t.config) for t in read.trials] == [(t.number, t.config) for t in copy.trials]
        assert read.record.baseline == copy.record.baseline


def test_a_study_without_rows_is_named(tmp_path: Path) -> None:
    copy = plain_study("x", [({"cache": 1}, 10.0, "", 0.0)], 0.0)
    empty = replace(copy, record=replace(copy.record, name="begun"), trials=[])
    place = str(tmp_path / "x.csv")
    assert make("csv").write([copy, empty], place)[1:] == ("csv: studies without trials were left out: begun",)
    assert [found.record.name for found in make("csv").read(place).studies] == ["x"]
