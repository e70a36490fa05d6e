"""Stored latency histograms: written, read, merged, and refused when torn."""

from __future__ import annotations

import numpy as np
import pytest

from trimtab.errors import HistoryError
from trimtab.measure import decode_histogram, encode_latencies, merge_histograms


def test_round_trip_within_three_digits() -> None:
    latency_s = np.random.default_rng(0).lognormal(-4, 1, 5000)
    histogram = decode_histogram(encode_latencies(latency_s))
    assert len(histogram) == 5000
    for percentile in (50, 95, 99):
        exact = np.percentile(latency_s, percentile, method="inverted_cdf") * 1e6
        assert histogram.percentile(percentile) == pytest.approx(exact, rel=0.002)


def test_merged_parts_equal_the_whole() -> None:
    latency_s = np.random.default_rng(1).exponential(0.01, 1000)
    parts = [encode_latencies(part) for part in np.split(latency_s, 4)]
    merged, whole = decode_histogram(merge_histograms([b"", *parts])), decode_histogram(encode_latencies(latency_s))
    assert len(merged) == 1000
    assert [merged.percentile(p) for p in (1, 50, 99)] == [whole.percentile(p) for p in (1, 50, 99)]


def test_faster_than_a_microsecond_counts_as_one() -> None:
    assert decode_histogram(encode_latencies(np.array([0.0, 2e-7]))).max() == 1


def test_nothing() -> None:
    assert encode_latencies(np.zeros(0)) == b""
    assert merge_histograms([b"", b""]) == b""
    assert len(decode_histogram(b"")) == 0


def test_torn_bytes() -> None:
    with pytest.raises(
        HistoryError, match=r"a stored latency histogram of size_bytes=4 cannot be read: (.|\n)*hint: restore"
    ):
        decode_histogram(b"torn")
