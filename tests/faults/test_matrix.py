"""The table of rows is kept true."""

from __future__ import annotations

from pathlib import Path

from tests.faults.matrix import (
    ELSEWHERE,
    IN_ENGINE,
    NOT_HERE,
    README,
    ROWS,
    engine_tests,
    outcome_lines,
    rows_with_tests,
    with_table,
)


def test_page_names_the_tests_that_exist() -> None:
    text = README.read_text(encoding="utf-8")
    assert with_table(text) == text, "run python -m tests.faults.matrix"


def test_every_fault_of_the_extension_has_a_test_that_exists() -> None:
    assert {name for names in IN_ENGINE.values() for name in names} <= engine_tests()
    assert all(IN_ENGINE.values())


def test_there_are_sixty_rows_and_no_test_of_another() -> None:
    assert len(ROWS) == 60
    assert set(rows_with_tests()) <= set(ROWS)


def test_reasons_are_for_rows_without_a_test() -> None:
    assert not {*NOT_HERE, *ELSEWHERE} & set(rows_with_tests())


def test_tests_elsewhere_exist() -> None:
    root = Path(__file__).parents[2]
    for file, _, name in (test.partition("::") for tests in ELSEWHERE.values() for test in tests):
        assert f"def {name}(" in (root / file).read_text(encoding="utf-8")


def test_every_row_has_a_test_or_a_reason() -> None:
    missing = [row for row in ROWS if row not in {*rows_with_tests(), *NOT_HERE, *ELSEWHERE}]
    assert missing == []


def test_a_row_fails_when_one_of_its_tests_fails() -> None:
    outcomes = [
        ("f.py::test_T1_one[18]", "passed", ""),
        ("f.py::test_T1_one[16]", "failed", ""),
        ("f.py::test_T2_two", "skipped", "needs root"),
        ("f.py::test_T3_three", "passed", ""),
        ("f.py::test_other", "failed", ""),
    ]
    lines = {line.split()[0]: line for line in outcome_lines(outcomes)}
    assert lines["T1"].endswith("FAILED")
    assert lines["T2"].endswith("skipped (needs root)")
    assert lines["T3"].endswith(" passed")
    assert lines["S3"].endswith("tested in tests/serve/test_security.py")
    assert lines["N2"].endswith("not tested (no server behind SSH is tuned yet)")
    assert outcome_lines(outcomes)[-1] == "1 of 60 rows passed"
