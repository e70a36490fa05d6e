"""What the history keeps is enough: every figure of a report is worked out again from the stored rows of real studies."""

from __future__ import annotations

import itertools
import json
import math
import sqlite3
import zlib
from contextlib import closing
from typing import Any

import pytest

from tests.history.real import unpack_real
from trimtab.history import History
from trimtab.measure import BaselineTrack, compare_pairs, decode_histogram


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[dict[str, Any]]]:
    """Trials by study, straight from the columns: no code of the history reads them."""
    path = unpack_real(tmp_path_factory.mktemp("rows") / "history.db")
    History.open(path).close()
    found: dict[int, list[dict[str, Any]]] = {}
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        query = "select * from trimtab_trial where study_id <= 2 order by study_id, number"
        for row in connection.execute(query):
            values = {**dict(row), **json.loads(row["body"]), "config": json.loads(row["config"])}
            values.update(json.loads(zlib.decompress(row["detail"])) if row["detail"] else {"measurement": None})
            found.setdefault(row["study_id"], []).append(values)
        for study_id, verdict in connection.execute("select id, verdict from trimtab_study where id <= 2"):
            found[study_id][0]["verdict"] = json.loads(verdict)
    return found


def measured(rows: dict[int, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    chosen = [row for own in rows.values() for row in own if row["measurement"] is not None]
    assert len(chosen) > 30
    return chosen


def test_throughput_is_the_mean_of_the_windows_seconds(rows: dict[int, list[dict[str, Any]]]) -> None:
    for row in measured(rows):
        found = row["measurement"]
        start, end = (int(edge) for edge in found["window_s"])
        series = found["series_per_s"][start:end]
        assert sum(series) / len(series) == pytest.approx(found["throughput"]["estimate"], rel=1e-9)


def test_percentiles_are_those_of_the_histogram(rows: dict[int, list[dict[str, Any]]]) -> None:
    for row in measured(rows):
        histogram = decode_histogram(row["histogram"])
        assert len(histogram) == row["measurement"]["n_ok"]
        for name, interval in row["measurement"]["latency_ms"].items():
            value = histogram.percentile(float(name.removeprefix("p"))) / 1000
            # Three significant digits, and an interpolated percentile beside one of the histogram's.
            assert value == pytest.approx(interval["estimate"], rel=0.01)


def test_figures_by_label_add_up(rows: dict[int, list[dict[str, Any]]]) -> None:
    for row in measured(rows):
        labels = row["measurement"]["by_label"].values()
        assert sum(label["n_ok"] for label in labels) == row["measurement"]["n_ok"]
        total = sum(label["throughput_per_s"] for label in labels)
        assert total == pytest.approx(row["measurement"]["throughput"]["estimate"], rel=1e-6)


def test_losses_are_against_the_baseline_of_their_time(rows: dict[int, list[dict[str, Any]]]) -> None:
    for own in rows.values():
        track = BaselineTrack()
        for row in own:
            if row["measurement"] is None:
                continue
            value = row["measurement"]["throughput"]
            if row["role"] in ("baseline", "proof_baseline"):
                track.add(row["started_at"], value["estimate"], value["se"])
            baseline, _ = track.at(row["started_at"])
            # The repeats' own errors count for less since these studies were recorded (`share_of_stated`).
            assert row["loss"] == pytest.approx(-math.log(value["estimate"] / baseline), abs=1e-3)


def test_the_gain_is_that_of_the_pairs(rows: dict[int, list[dict[str, Any]]]) -> None:
    verdict = rows[1][0]["verdict"]
    by_role = {
        role: [row["measurement"]["throughput"]["estimate"] for row in rows[1] if row["role"] == role]
        for role in ("proof_baseline", "proof_candidate")
    }
    pairs = list(zip(by_role["proof_baseline"], by_role["proof_candidate"], strict=True))
    assert [list(pair) for pair in pairs] == verdict["pairs"]
    found = compare_pairs([pair[0] for pair in pairs], [pair[1] for pair in pairs], is_maximised=True)
    assert found.ratio.estimate == pytest.approx(verdict["gain"]["estimate"], rel=1e-9)


def test_the_winner_is_a_config_that_was_measured(rows: dict[int, list[dict[str, Any]]]) -> None:
    verdict = rows[1][0]["verdict"]
    proven = [row["config"] for row in rows[1] if row["role"] == "proof_candidate"]
    assert all(config == verdict["candidate"] for config in proven)


def test_costs_add_up_to_the_wall_clock(rows: dict[int, list[dict[str, Any]]]) -> None:
    for own in rows.values():
        for row, after in itertools.pairwise(own):
            spent = sum(seconds for step, seconds in row["cost_s"].items() if step != "ask")
            # The next trial begins when this one has ended, and not much later than its model has thought about it.
            assert row["started_at"] + spent <= after["started_at"] + 0.05
