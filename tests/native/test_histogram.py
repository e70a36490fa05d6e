"""The histogram: what it records, it can tell, merge and give back."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab._native import Histogram

HOUR_US = 3_600_000_000
values = st.lists(st.integers(0, HOUR_US), max_size=60)


def of(values_us: list[int]) -> Histogram:
    histogram = Histogram()
    histogram.record_all(values_us)
    return histogram


def test_percentiles_to_three_digits() -> None:
    histogram = of(list(range(1, 100_001)))
    assert len(histogram) == 100_000
    for percentile in (1.0, 50.0, 95.0, 99.9, 100.0):
        assert histogram.percentile(percentile) == pytest.approx(percentile * 1000, rel=1e-3)
    assert histogram.mean() == pytest.approx(50_000.5, rel=1e-3)
    assert histogram.max() == pytest.approx(100_000, rel=1e-3)


def test_an_empty_histogram_answers_zero() -> None:
    histogram = Histogram()
    assert (len(histogram), histogram.percentile(50.0), histogram.mean(), histogram.max()) == (0, 0, 0.0, 0)


def test_counts_weigh() -> None:
    histogram = Histogram()
    histogram.record(10, 99)
    histogram.record(1000, count=1)
    assert (len(histogram), histogram.percentile(99.0), histogram.percentile(99.5)) == (100, 10, 1000)


def test_values_above_an_hour_are_clamped_and_counted() -> None:
    histogram = of([HOUR_US, HOUR_US + 1, 2**63])
    assert histogram.clamped == 2
    assert histogram.max() == pytest.approx(HOUR_US, rel=1e-3)


@given(values)
def test_survives_its_own_bytes(values_us: list[int]) -> None:
    histogram = of(values_us)
    copy = Histogram.decode(histogram.encode())
    assert copy.encode() == histogram.encode()
    assert (len(copy), copy.max(), copy.mean()) == (len(histogram), histogram.max(), histogram.mean())


@given(values, values)
def test_merging_parts_equals_the_whole(first: list[int], second: list[int]) -> None:
    merged = of(first)
    merged.merge(of(second))
    assert merged.encode() == of(first + second).encode()


def test_can_be_merged_with_itself() -> None:
    histogram = of([5, 7])
    histogram.merge(histogram)
    assert len(histogram) == 4


@given(st.binary(max_size=200))
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not an HDR histogram: "):
        Histogram.decode(data)


@given(st.data())
def test_damaged_bytes_never_do_worse_than_an_error(data: st.DataObject) -> None:
    encoded = bytearray(of([1, 20, 300, 4000]).encode())
    place = data.draw(st.integers(0, len(encoded) - 1))
    encoded[place] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(ValueError):
        assert len(Histogram.decode(bytes(encoded))) <= 4


@pytest.mark.parametrize("percentile", [-0.1, 100.1, float("nan")])
def test_percentiles_have_bounds(percentile: float) -> None:
    with pytest.raises(ValueError, match="is not between 0 and 100"):
        Histogram().percentile(percentile)


def test_negative_values_are_refused() -> None:
    with pytest.raises(OverflowError):
        Histogram().record(-1)
