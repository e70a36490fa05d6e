"""All 22 answers at scale 1 against the published ones (in digest form), and how a wrong one is described."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest

from trimtab.errors import LoadError
from trimtab.records import Endpoint
from trimtab.workload.tpch import TpchWorkload
from trimtab.workload.tpch.answers import AnswerCheck, check_answers, compare, published, summarise
from trimtab.workload.tpch.parameters import QUERIES

ROWS = [("a   ", 1, Decimal("2.005"), date(1995, 1, 1)), ("b", 2, Decimal("3.1"), date(1995, 1, 2))]


def test_numbers_are_rounded_and_texts_stripped() -> None:
    answer = summarise(ROWS)
    assert (answer.n_rows, answer.sums) == (2, ("3.00", "5.11"))
    assert (
        summarise([("a", 1, Decimal("2.01"), date(1995, 1, 1)), ("b ", 2, 3.10, "1995-01-02")]).sha256 == answer.sha256
    )


def test_every_query_has_a_published_answer() -> None:
    assert sorted(published()) == list(QUERIES)
    # Known figures of the published set: 4 groups in Q1, 100 rows in Q2, one in Q6.
    assert [published()[query].n_rows for query in (1, 2, 6, 9, 11, 16)] == [4, 100, 1, 175, 1048, 18314]
    assert published()[6].sums == ("123141078.23",)


def test_differences_are_named() -> None:
    right = summarise(ROWS)
    assert compare(1, right, right) == AnswerCheck(1, True)
    assert compare(2, summarise(ROWS[:1]), right).difference == "rows=1, expected rows=2"
    wrong = summarise([("a", 1, Decimal("2.5"), date(1995, 1, 1)), ROWS[1]])
    assert compare(3, wrong, right).difference == "column sums=['3.00', '5.60'], expected sums=['3.00', '5.11']"
    swapped = compare(4, summarise(ROWS[::-1]), right)
    assert (swapped.is_right, swapped.difference) == (
        False,
        "the figures agree, but a text or the order of the rows differs",
    )


@pytest.mark.service
def test_other_scales_have_no_published_answers(small: Endpoint) -> None:
    for endpoint in (small, replace(small, database="postgres")):
        with pytest.raises(LoadError, match="does not hold TPC-H data of scale=1") as caught:
            check_answers(endpoint)
        assert caught.value.hint == "the published answers are for scale 1: prepare that first"


@pytest.mark.service
@pytest.mark.slow
@pytest.mark.full
def test_all_answers_at_scale_one(server: Endpoint) -> None:
    workload = TpchWorkload.from_settings({"mix": "Q1", "scale": 1})
    workload.prepare(server, lambda line: None)
    checks = check_answers(server.with_database(workload.settings.database))
    assert [check for check in checks if not check.is_right] == []
    assert [check.query for check in checks] == list(QUERIES)
