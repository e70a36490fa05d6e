"""Power@Size and Throughput@Size on numbers computed by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from trimtab.errors import LoadError
from trimtab.measure import Outcome, QueryLog
from trimtab.workload.tpch.metrics import (
    composite,
    power_at_size,
    power_of_log,
    throughput_at_size,
    throughput_of_log,
)


def log_of(rows: Sequence[tuple[str, float, float, Outcome]]) -> QueryLog:
    """(label, start, end, outcome) as a log."""
    ordered = sorted(rows, key=lambda row: row[2])
    labels = tuple(dict.fromkeys(row[0] for row in ordered))
    n = len(ordered)
    return QueryLog(
        labels=labels,
        stream=np.zeros(n, np.int32),
        label=np.array([labels.index(row[0]) for row in ordered], np.int32),
        start_s=np.array([row[1] for row in ordered]),
        end_s=np.array([row[2] for row in ordered]),
        rows=np.zeros(n, np.int64),
        outcome=np.array([row[3] for row in ordered], np.uint8),
    )


def run_of(
    time_s: float, *, start_s: float = 0.0, outcome: Outcome = Outcome.OK
) -> list[tuple[str, float, float, Outcome]]:
    """22 queries one after the other, each of `time_s`."""
    return [(f"q{q}", start_s + (q - 1) * time_s, start_s + q * time_s, outcome) for q in range(1, 23)]


def test_power_of_equal_times_is_queries_per_hour_times_scale() -> None:
    assert power_at_size([2.0] * 22, [2.0, 2.0], 10) == pytest.approx(3600 / 2 * 10)


def test_power_is_the_geometric_mean_over_24() -> None:
    # 21 times 1 s, one of 16 s, RF 4 s and 0.25 s: product 16, so the mean is 16^(1/24).
    assert power_at_size([1.0] * 21 + [16.0], [4.0, 0.25], 1) == pytest.approx(3600 / 16 ** (1 / 24))


def test_power_without_refresh_is_over_22() -> None:
    assert power_at_size([1.0] * 21 + [16.0], [], 1) == pytest.approx(3600 / 16 ** (1 / 22))


def test_times_under_a_thousandth_of_the_longest_are_lifted() -> None:
    # 2000 s is the longest, so 0.5 s counts as 2 s; 2000 x 2^21.
    lifted = power_at_size([2000.0] + [0.5] * 21, [], 1)
    assert lifted == pytest.approx(3600 / (2000 * 2.0**21) ** (1 / 22))
    # At exactly a thousandth nothing changes.
    assert power_at_size([1000.0] + [1.0] * 21, [], 1) == pytest.approx(3600 / 1000 ** (1 / 22))


def test_refresh_times_are_never_lifted() -> None:
    assert power_at_size([1000.0] * 22, [0.001, 1000.0], 1) == pytest.approx(3600 / (1000**23 * 0.001) ** (1 / 24))


def test_throughput_and_composite() -> None:
    assert throughput_at_size(2, 44.0, 1) == pytest.approx(3600)
    assert throughput_at_size(2, 88.0, 10) == pytest.approx(18_000)
    assert composite(100.0, 400.0) == pytest.approx(200.0)


def test_power_of_a_log_takes_the_first_run_of_each_query() -> None:
    rows = [("rf1", 0.0, 1.0, Outcome.OK), *run_of(1.0, start_s=1.0), ("rf2", 23.0, 24.0, Outcome.OK)]
    assert power_of_log(log_of(rows), 1) == pytest.approx(3600)
    assert power_of_log(log_of(rows + run_of(9.0, start_s=24.0)), 1) == pytest.approx(3600)


def test_a_query_that_timed_out_counts_with_its_time_out() -> None:
    rows = [row for row in run_of(1.0) if row[0] != "q17"] + [("q17", 30.0, 90.0, Outcome.TIMED_OUT)]
    assert power_of_log(log_of(rows), 1) == pytest.approx(3600 / 60 ** (1 / 22))


def test_an_incomplete_power_run_is_refused() -> None:
    rows = [row for row in run_of(1.0) if row[0] != "q17"] + [("q17", 30.0, 31.0, Outcome.CANCELLED)]
    with pytest.raises(LoadError, match=r"not complete: missing queries=\[17\]"):
        power_of_log(log_of(rows), 1)


def test_a_power_run_whose_refresh_function_failed_is_refused() -> None:
    """Without its time the figure would be that of another run."""
    rows = [("rf1", 0.0, 1.0, Outcome.OK), *run_of(1.0, start_s=1.0), ("rf2", 23.0, 24.0, Outcome.ERROR)]
    with pytest.raises(LoadError, match=r"not complete: missing refresh functions=\['rf2'\]"):
        power_of_log(log_of(rows), 1)


def test_throughput_of_a_log_goes_from_first_start_to_last_end() -> None:
    rows = run_of(1.0) + run_of(1.5, start_s=11.0) + [("rf1", 0.0, 1.0, Outcome.OK)]
    assert throughput_of_log(log_of(rows), 2, 1) == pytest.approx(2 * 22 * 3600 / 44.0)


def test_an_incomplete_throughput_run_is_refused() -> None:
    with pytest.raises(LoadError, match="not complete: queries=22 of 44"):
        throughput_of_log(log_of([*run_of(1.0), ("rf1", 0.0, 1.0, Outcome.OK)]), 2, 1)
