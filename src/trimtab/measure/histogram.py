"""Latency histograms by the native HdrHistogram: encode, decode, merge; the native module is loaded on first use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import HistoryError

if TYPE_CHECKING:
    from trimtab._native import Histogram

__all__ = ["decode_histogram", "encode_counts", "encode_latencies", "merge_histograms"]


def encode_latencies(latency_s: NDArray[np.float64]) -> bytes:
    """HDR V2-deflate bytes of latencies in seconds, kept in whole microseconds, at least 1; b"" when there are none."""
    if len(latency_s) == 0:
        return b""
    from trimtab._native import Histogram

    histogram = Histogram()
    histogram.record_all(np.maximum(np.rint(latency_s * 1e6), 1).astype(np.int64).tolist())
    return histogram.encode()


def encode_counts(value_us: NDArray[np.float64], count: NDArray[np.int64]) -> bytes:
    """HDR V2-deflate bytes of `count` latencies of each `value_us`, kept in whole ones, at least 1; b"" when there are none."""
    if not count.sum():
        return b""
    from trimtab._native import Histogram

    histogram = Histogram()
    values, place = np.unique(np.maximum(np.rint(value_us), 1).astype(np.int64), return_inverse=True)
    for value, n in zip(values.tolist(), np.bincount(place, count).astype(np.int64).tolist(), strict=True):
        histogram.record(value, n)
    return histogram.encode()


def decode_histogram(data: bytes) -> Histogram:
    """The histogram in `data`; an empty one for b"".

    Raises:
        HistoryError: `data` is no histogram.
    """
    from trimtab._native import Histogram

    if not data:
        return Histogram()
    try:
        return Histogram.decode(data)
    except ValueError as error:
        raise HistoryError(
            f"a stored latency histogram of size_bytes={len(data)} cannot be read: {error}",
            hint="restore the history from a backup",
        ) from error


def merge_histograms(parts: Iterable[bytes]) -> bytes:
    """The bytes of all `parts` together; b"" when all are empty."""
    filled = [part for part in parts if part]
    if not filled:
        return b""
    total = decode_histogram(filled[0])
    for part in filled[1:]:
        total.merge(decode_histogram(part))
    return total.encode()
