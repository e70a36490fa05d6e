"""Numbers and foreign strings as people read them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.records import Context, GainInterval
from trimtab.report.charts import _log_ticks
from trimtab.report.facts import Gain
from trimtab.report.words import (
    clean,
    counted,
    first_line,
    level_text,
    number_text,
    percent_text,
    ratio_text,
    workload_text,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0123, "0.0123"), (1.824, "1.82"), (10.53, "10.5"), (1234.4, "1,234"), (999.9, "1,000"), (-5.0, "-5"),
     (2.5e7, "25,000,000"), (None, "–"), (math.nan, "–"), (math.inf, "–")],
)  # fmt: skip
def test_numbers(value: float | None, text: str) -> None:
    assert number_text(value) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.95, "95 %"),
        (0.03, "3 %"),
        (0.042, "4.2 %"),
        (0.0, "0 %"),
        (1e-9, "< 0.01 %"),
        (-1e-9, "> -0.01 %"),
        (3.0, "300 %"),
        (0.999, "100 %"),
        (None, "–"),
        (math.nan, "–"),
    ],
)
def test_shares(share: float | None, text: str) -> None:
    assert percent_text(share) == text


@pytest.mark.parametrize(
    ("level", "text"),
    [(0.95, "95 %"), (0.975, "97.5 %"), (1 - 0.05 / 4, "98.7 %"), (0.995, "99.5 %"), (1 - 0.05 / 64, "99.9 %"),
     (0.99999, "99.9 %"), (0.9, "90 %"), (math.nan, "–")],
)  # fmt: skip
def test_levels_are_never_rounded_up(level: float, text: str) -> None:
    assert level_text(level) == text
    if math.isfinite(level):
        assert Gain(1.2, 1.1, 1.3, level).interval_text == f"{text} interval 1.10 to 1.30"


@pytest.mark.parametrize(
    ("name", "clients", "text"),
    [
        ("sql shop 1 scripts 3f2a", 1, "sql shop 1 script 3f2a, 1 client"),
        ("http 21 pages 3f2a", 8, "http 21 pages 3f2a, 8 clients"),
        ("http 21 pages 3f2a", 0, "http 21 pages 3f2a"),
        ("", 0, ""),
        ("cycle of 2: day (ycsb a 1,001 records, 1 clients), night (ycsb a 1 records, 4 clients)", 4,
         "cycle of 2: day (ycsb a 1,001 records, 1 client), night (ycsb a 1 record, 4 clients), 4 clients"),
    ],
)  # fmt: skip
def test_a_workload_of_one_script_has_no_plural(name: str, clients: int, text: str) -> None:
    assert workload_text(Context(name, clients)) == text


def test_counts() -> None:
    assert [counted(n, "trial") for n in (0, 1, 2000)] == ["0 trials", "1 trial", "2,000 trials"]


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]8;;http://x\x07link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;never ended", ""),
        ("a\x00b\x9bc\x7f", "a\ufffdb\ufffdc\ufffd"),
        ("user\u202etxt.exe", "user\ufffdtxt.exe"),
        ("tab\tand\r\nnewline", "tab\tand\nnewline"),
        ("\ud800", "\ufffd"),
        ("naïve 中文", "naïve 中文"),
    ],
)
def test_foreign_text_is_made_harmless(raw: str, shown: str) -> None:
    assert clean(raw) == shown


@given(st.text(st.characters()))
def test_clean_text_can_be_written_and_holds_no_control(raw: str) -> None:
    shown = clean(raw)
    shown.encode()
    assert not any((ord(char) < 32 and char not in "\t\n") or 127 <= ord(char) < 160 for char in shown)
    assert clean(shown) == shown


def test_the_first_line_is_the_first_that_says_something() -> None:
    assert first_line("\n  \n  what happened \nlog") == "what happened"
    assert first_line("") == ""


def test_gains_without_an_interval_say_so() -> None:
    gain = Gain.of(GainInterval(estimate=1.5))
    assert gain is not None
    assert gain.interval_text == "interval unknown"
    assert gain.short_text == "1.50 (interval unknown)"
    assert Gain.of(None) is None


@pytest.mark.parametrize(
    ("ratio", "shown"),
    [(1.824, "1.82"), (25.24, "25.24"), (0.0, "< 0.01"), (0.004, "< 0.01"), (7.4e8, "> 1000"), (math.nan, "–")],
)
def test_ratios_beyond_what_can_be_measured_are_bounded(ratio: float, shown: str) -> None:
    assert ratio_text(ratio) == shown


def test_a_useless_interval_reads_as_one() -> None:
    assert Gain(7.6, 1e-7, 7.4e8).interval_text == "95 % interval < 0.01 to > 1000"


@pytest.mark.parametrize(
    ("values", "marks"),
    [([90.0, 115.0], [50.0, 100.0, 200.0]), ([0.03, 0.0], [0.02, 0.05]), ([1.0], [1.0, 2.0]), ([], [1.0, 2.0])],
)
def test_an_axis_of_latency_has_marks_on_both_sides(values: list[float], marks: list[float]) -> None:
    assert _log_ticks(values) == pytest.approx(marks)
