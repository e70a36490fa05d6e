"""The one number that a program in a session reports of itself goes through every format, and reports of it can be made again."""

from __future__ import annotations

import csv
import math
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.history.samples import make_trial
from tests.history.test_exchange import copy_of
from tests.history.test_formats import make
from trimtab.history import StudyCopy
from trimtab.measure import Interval
from trimtab.report import report_text


def _of_a_session() -> StudyCopy:
    copy = copy_of(objective="cost")
    trials = []
    for number in range(3):
        measured = make_trial(0).measurement
        assert measured is not None
        figure = Interval(12.5 + number, 12.0 + number, 13.0 + number)
        trials.append(make_trial(number, measurement=replace(measured, histogram=b"", figure=figure)))
    return StudyCopy(copy.record, trials, [])


@pytest.mark.parametrize("name", ["csv", "xml", "text", "jsonl", "parquet"])
def test_a_report_can_be_made_of_what_was_read_back(name: str, tmp_path: Path) -> None:
    place = str(tmp_path / f"x{make(name).suffixes[0]}")
    make(name).write([_of_a_session()], place)
    (found,) = make(name).read(place).studies
    if name != "text":  # which holds settings and losses only
        report_text(replace(found.record, id=1), list(found.trials))
    make("text").write([found], str(tmp_path / "again.txt"))


def test_csv_has_it_as_a_column(tmp_path: Path) -> None:
    make("csv").write([_of_a_session()], str(tmp_path / "x.csv"))
    with open(tmp_path / "x.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(float(row["figure"]), float(row["figure_low"])) for row in rows] == [
        (12.5, 12.0),
        (13.5, 13.0),
        (14.5, 14.0),
    ]
    (found,) = make("csv").read(str(tmp_path / "x.csv")).studies
    measured = found.trials[1].measurement
    assert measured is not None
    assert measured.figure is not None
    assert (measured.figure.estimate, measured.figure.high) == (13.5, 14.0)


def test_a_table_of_an_earlier_version_does_not_know_it(tmp_path: Path) -> None:
    make("csv").write([_of_a_session()], str(tmp_path / "x.csv"))
    with open(tmp_path / "x.csv", encoding="utf-8", newline="") as file:
        rows = [
            {key: value for key, value in row.items() if not key.startswith("figure")} for row in csv.DictReader(file)
        ]
    with open(tmp_path / "old.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    (found,) = make("csv").read(str(tmp_path / "old.csv")).studies
    measured = found.trials[0].measurement
    assert measured is not None
    assert measured.figure is not None
    assert math.isnan(measured.figure.estimate)
    assert "The trials" in report_text(replace(found.record, id=1), list(found.trials))


def test_tables_for_analysis_have_it(tmp_path: Path) -> None:
    make("parquet").write([_of_a_session()], str(tmp_path / "x.parquet"))
    assert pq.read_table(tmp_path / "x.parquet")["figure"].to_pylist() == [12.5, 13.5, 14.5]
    make("taudb").write([_of_a_session()], str(tmp_path / "x.taudb"))
    with closing(sqlite3.connect(tmp_path / "x.taudb")) as database:
        names = {row[0] for row in database.execute("SELECT name FROM metric")}
    assert "figure" in names
