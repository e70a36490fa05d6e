"""Contexts name what decides what is measured: two loads whose figures cannot be compared have different names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trimtab.workload.oltp import OltpWorkload
from trimtab.workload.rubis.workload import RubisWorkload
from trimtab.workload.sql.workload import SqlWorkload
from trimtab.workload.tpch import TpchWorkload
from trimtab.workload.tpcw.workload import TpcwWorkload
from trimtab.workload.ycsb import YcsbWorkload

OPEN = {"rate": 100}


def name_of(kind: Any, **settings: Any) -> str:
    return str(kind.from_settings({"kind": kind.kind, **settings}).context.workload)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "rubis scale 0.01 bidding"),
        ({"images": False}, "rubis scale 0.01 bidding without images"),
        ({"think_law": "fixed"}, "rubis scale 0.01 bidding fixed pauses"),
        ({"load": OPEN}, "rubis scale 0.01 bidding"),
        ({"load": OPEN, "rate_of": "sessions"}, "rubis scale 0.01 bidding by sessions"),
        ({"reading": "literal", "images": False}, "rubis scale 0.01 bidding literal without images"),
        ({"bids_on": "active", "description_length": 64}, "rubis scale 0.01 (bids on active, descriptions 64) bidding"),
    ],
)
def test_an_auction_site_s_name_says_what_is_not_as_usual(settings: dict[str, Any], words: str) -> None:
    assert name_of(RubisWorkload, **settings) == words


def test_a_bookshop_s_name_says_how_the_application_works() -> None:
    assert name_of(TpcwWorkload) == "tpcw 2880 customers 1000 items shopping"
    slow = name_of(TpcwWorkload, numbering="lock", best_sellers="30s")
    assert slow == "tpcw 2880 customers 1000 items, numbers under a lock, best sellers kept 30 s shopping"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"workload": "D"}, "ycsb D 100000 records"),
        ({"workload": "D", "distribution": "uniform"}, "ycsb D 100000 records, uniform"),
        ({"read": 1, "distribution": "hotspot"}, "ycsb 1 read 100000 records, hotspot 0.2 0.8"),
        ({"workload": "A", "fields": 5, "field_lengths": "zipfian"}, "ycsb A 100000 records, 5x100z"),
        ({"workload": "A", "insert_order": "ordered", "zero_padding": 8}, "ycsb A 100000 records, ordered, pad8"),
        ({"workload": "A", "scan_length": 9}, "ycsb A 100000 records"),
        ({"workload": "E", "scan_length": 9}, "ycsb E 100000 records, scans 9 uniform"),
        (
            {"workload": "A", "read_all_fields": False, "write_all_fields": True},
            "ycsb A 100000 records, reads 1 field, writes all fields",
        ),
    ],
)
def test_the_name_of_records_says_their_shape_and_how_they_are_asked_for(settings: dict[str, Any], words: str) -> None:
    assert name_of(YcsbWorkload, **settings) == words


def test_the_name_of_transactions_says_which_rows_they_ask_for() -> None:
    assert name_of(OltpWorkload) == "oltp read_write 1 x 100000 rows"
    skewed = name_of(OltpWorkload, distribution="zipfian", range_size=10)
    assert skewed == "oltp read_write 1 x 100000 rows zipfian 1.1 ranges of 10"


def test_queries_without_the_indexes_that_they_need_are_another_workload() -> None:
    assert name_of(TpchWorkload, mix="4Q6", schema="pk-only") == "tpch 4Q6 scale 1 pk-only"


def test_a_study_does_not_go_on_with_another_script_that_undoes_its_runs(tmp_path: Path) -> None:
    """What a workload has read from files must agree for a resume: it is in the name."""
    table = {"kind": "sql", "database": "shop", "files": ["a.sql"], "start_state": "undo", "undo": "undo.sql"}
    names = []
    for text in ("DELETE FROM t WHERE a = 1", "DELETE FROM t WHERE a = 1", "DELETE FROM t"):
        (tmp_path / "a.sql").write_text("INSERT INTO t VALUES (1)")
        (tmp_path / "undo.sql").write_text(text)
        names.append(SqlWorkload.from_settings(table, directory=tmp_path).context.workload)
    assert names[0] == names[1] != names[2]
