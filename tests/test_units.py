"""Sizes, durations, figures and knob values: parse and print."""

from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.errors import UsageError
from trimtab.units import (
    Dimension,
    counted,
    format_duration,
    format_figure,
    format_percent,
    format_size,
    format_time,
    format_value,
    parse_duration,
    parse_size,
    parse_value,
    unit_factor,
    unit_ratio,
)

KNOB_UNITS = ["", "B", "kB", "8kB", "MB", "16MB", "us", "ms", "s", "min", "h", "d"]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1GiB", 2**30),
        ("1GB", 2**30),
        ("1.5GiB", 3 * 2**29),
        ("64M", 64 * 2**20),
        ("8 kB", 8192),
        ("10b", 10),
        ("1TiB", 2**40),
        ("1e3B", 1000),
    ],
)
def test_parse_size(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "size='' is not a number with a unit"),
        ("many", "size='many' is not a number with a unit"),
        ("-1GB", "size='-1GB' is not a number with a unit"),
        ("512", "size='512' has no unit"),
        ("5XB", "size='5XB' has the unknown unit 'XB'"),
        ("5mib5", "size='5mib5' is not a number with a unit"),
        ("5IB", "size='5IB' has the unknown unit 'IB'"),
    ],
)
def test_wrong_sizes(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_size(text)
    assert caught.value.message == message
    assert "write a size such as '512MB'" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("5m", 300.0),
        ("5min", 300.0),
        ("90s", 90.0),
        ("250ms", 0.25),
        ("1h30m", 5400.0),
        ("1h 30min 5s", 5405.0),
        ("1.5 d", 129600.0),
        ("7us", 7e-6),
    ],
)
def test_parse_duration(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "duration='' is empty"),
        ("soon", "duration='soon' is not a number with a unit"),
        ("5", "duration='5' has no unit after 5"),
        ("1h30", "duration='1h30' has no unit after 30"),
        ("5y", "duration='5y' has the unknown unit 'y'"),
        ("30s1h", "duration='30s1h' does not go from long to short units"),
        ("1e200d", "duration='1e200d' is too long"),
    ],
)
def test_wrong_durations(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_duration(text)
    assert caught.value.message == message
    assert "write a duration such as '90s'" in str(caught.value)


@pytest.mark.parametrize("parse", [parse_size, parse_duration])
@given(text=st.text(max_size=30) | st.from_regex(r"[0-9.eE+ kMGBsmhd]{0,20}", fullmatch=True))
def test_arbitrary_text_gives_a_number_or_a_usage_error(parse: object, text: str) -> None:
    assert callable(parse)
    with contextlib.suppress(UsageError):
        assert parse(text) >= 0


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0B"), (1000, "1000B"), (1536, "1.5KiB"), (2**30, "1GiB"), (-(2**20), "-1MiB"), (1610612736, "1.5GiB")],
)
def test_format_size(size: float, text: str) -> None:
    assert format_size(size) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"), (-0.0, "0"), (0.00012346, "0.0001235"), (0.012346, "0.01235"), (1.5, "1.5"), (12.0, "12"),
        (999.96, "1,000"),
        (1234.5, "1,234"), (75_690.4, "75,690"), (-75_690.4, "-75,690"),
        (1_234_567.8, "1,234,568"), (2.5e12, "2,500,000,000,000"),
        (0.00001234, "1.234e-05"), (1e15, "1e+15"), (math.inf, "∞"), (-math.inf, "-∞"), (math.nan, "–"),
    ],
)  # fmt: skip
def test_format_figure(value: float, text: str) -> None:
    assert format_figure(value) == text


def test_figures_have_the_digits_that_are_asked_for() -> None:
    assert [format_figure(1234.56, digits) for digits in (2, 3, 5, 6)] == ["1,235", "1,235", "1,234.6", "1,234.56"]
    assert format_figure(999.6, 3) == "1,000"


@given(st.floats(1e-4, 9.9e14), st.integers(2, 6))
def test_a_printed_figure_is_plain_and_within_its_digits(value: float, digits: int) -> None:
    text = format_figure(value, digits)
    assert "e" not in text
    assert float(text.replace(",", "")) == pytest.approx(value, rel=0.5001 * 10.0 ** (1 - digits))


def test_counts_with_their_noun() -> None:
    assert [counted(n, "run") for n in (0, 1, 2, 12_000)] == ["0 runs", "1 run", "2 runs", "12,000 runs"]
    assert counted(2, "retry") == "2 retries"
    assert [counted(n, "class") for n in (1, 2)] == ["1 class", "2 classes"]


def test_a_moment_is_told_in_utc() -> None:
    assert format_time(1_780_228_800.9) == "2026-05-31T12:00:00Z"


def test_format_percent() -> None:
    assert format_percent(0.2) == "20 %"
    assert format_percent(0.0044, 1) == "0.4 %"
    assert format_percent(0.31, 1, sign=True) == "+31.0 %"
    assert format_percent(-0.018, 1, sign=True) == "-1.8 %"


@given(st.integers(0, 2**50))
def test_a_printed_size_is_within_four_digits(size: int) -> None:
    assert parse_size(format_size(size)) == pytest.approx(size, rel=5e-4, abs=1.5)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.25, "250ms"),
        (7e-6, "7us"),
        (1.5, "1.5s"),
        (59.999, "1min"),
        (90, "1min30s"),
        (5400, "1h30min"),
        (86400, "1d"),
        (-90, "-1min30s"),
        (float("inf"), "infs"),
    ],
)
def test_format_duration(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.floats(1e-6, 1e7))
def test_a_printed_duration_is_within_a_second_or_four_digits(seconds: float) -> None:
    back = parse_duration(format_duration(seconds))
    assert back == pytest.approx(seconds, rel=1e-3 if seconds < 60 else 0.0, abs=0.0 if seconds < 59 else 0.51)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (65536, "8kB", "512MB"),
        (16385, "8kB", "131080kB"),
        (3, "16MB", "48MB"),
        (-1, "kB", "-1"),
        (0, "kB", "0"),
        (60000, "ms", "1min"),
        (1500, "ms", "1500ms"),
        (0.3, "ms", "0.3ms"),
        (2.0, "ms", "2ms"),
        (0.1, "8kB", "0.1"),
        (4.0, "", "4"),
        (0.9, "", "0.9"),
        (7, "", "7"),
        (True, "", "on"),
        (False, "", "off"),
        ("lz4", "", "lz4"),
    ],
)
def test_format_value(value: bool | int | float | str, unit: str, text: str) -> None:
    assert format_value(value, unit) == text


@given(st.integers(-10, 2**62), st.sampled_from(KNOB_UNITS))
def test_whole_values_survive_printing(value: int, unit: str) -> None:
    back = parse_value(format_value(value, unit), unit)
    assert (back, type(back)) == (value, int)


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(KNOB_UNITS))
def test_real_values_survive_printing(value: float, unit: str) -> None:
    assert float(parse_value(format_value(value, unit), unit)) == value


@pytest.mark.parametrize(
    ("text", "unit", "message", "hint"),
    [
        ("lots", "kB", "value='lots' is not a number", "write a number with B, kB, MB, GB or TB"),
        ("5ms", "kB", "value='5ms' has a unit that does not fit unit='kB'", "write a number with B, kB, MB, GB or TB"),
        (
            "5kB",
            "ms",
            "value='5kB' has a unit that does not fit unit='ms'",
            "write a number with us, ms, s, min, h or d",
        ),
        ("5kB", "", "value='5kB' has a unit that does not fit unit=''", "write a number without a unit"),
        ("5", "furlong", "unknown unit='furlong'", "use B, kB"),
        ("5 mb", "kB", "value='5 mb' has the unknown unit 'mb'", "write a number with B, kB, MB, GB or TB"),
        ("400XB", "8kB", "value='400XB' has the unknown unit 'XB'", "write a number with B, kB, MB, GB or TB"),
        ("5y", "ms", "value='5y' has the unknown unit 'y'", "write a number with us, ms, s, min, h or d"),
        ("5k", "", "value='5k' has the unknown unit 'k'", "write a number without a unit"),
    ],
)
def test_wrong_values(text: str, unit: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_value(text, unit)
    assert caught.value.message == message
    assert caught.value.hint is not None
    assert caught.value.hint.startswith(hint)


@pytest.mark.parametrize(("text", "unit", "value"), [("768M", "B", 768 << 20), ("2g", "MB", 2048), ("64 k", "8kB", 8)])
def test_a_size_may_have_one_letter(text: str, unit: str, value: int) -> None:
    assert parse_value(text, unit) == value


def test_one_letter_is_no_size_where_none_is_meant() -> None:
    with pytest.raises(UsageError, match="has the unknown unit 'M'"):
        parse_value("5M", "ms")


def test_units() -> None:
    assert unit_factor("8kB") == (8192, Dimension.SIZE)
    assert unit_factor("ms") == (0.001, Dimension.DURATION)
    assert unit_factor("") == (1, Dimension.NUMBER)
    assert unit_ratio("MiB") == unit_ratio("MB")


@pytest.mark.parametrize("unit", ["x", "0kB", "8", "kB8", " kB", "-1kB"])
def test_unknown_units(unit: str) -> None:
    with pytest.raises(UsageError, match="unknown unit="):
        unit_factor(unit)
