"""Crediting by share: totals are kept, edges do not matter, only successes count."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.errors import LoadError, UsageError
from trimtab.measure import Outcome, credited_series
from trimtab.measure.credit import credit_in_window, credited_bins, operation_credit

from .runs import Row, log_of

ROWS = st.lists(
    st.tuples(
        st.floats(0, 20),
        st.one_of(st.just(0.0), st.floats(1e-6, 30)),
        st.integers(0, 2),
        st.sampled_from(list(Outcome)),
    ).map(lambda t: (t[0], t[0] + t[1], t[2], t[3])),
    max_size=30,
)


def test_shares_of_one_operation() -> None:
    log = log_of([(0.5, 2.5, 0, Outcome.OK)], duration_s=4)
    assert credited_series(log) == pytest.approx([0.25, 0.5, 0.25, 0.0])


def test_rate_is_per_second_whatever_the_bin() -> None:
    log = log_of([(0.0, 1.0, 0, Outcome.OK), (1.0, 4.0, 0, Outcome.OK)], duration_s=4)
    assert credited_series(log, bin_s=2.0) == pytest.approx([(1 + 1 / 3) / 2, (2 / 3) / 2])


@given(rows=ROWS, bin_s=st.sampled_from([0.1, 0.3, 1.0, 7.0]))
def test_bins_over_the_whole_run_hold_every_operation_once(rows: list[Row], bin_s: float) -> None:
    log = log_of(rows, n_labels=3)
    series = credited_series(log, bin_s, until_s=60.0)
    assert series.sum() * bin_s == pytest.approx(operation_credit(log).sum(), abs=1e-6)
    assert (series >= 0).all()


@given(rows=ROWS, low=st.floats(0, 20), length=st.floats(0.1, 20))
def test_window_equals_its_bins(rows: list[Row], low: float, length: float) -> None:
    log = log_of(rows, n_labels=3)
    bins = credited_bins(log, np.linspace(low, low + length, 8))
    assert credit_in_window(log, (low, low + length)).sum() == pytest.approx(bins.sum(), abs=1e-6)


@given(one=ROWS, other=ROWS)
def test_merged_logs_equal_the_sum(one: list[Row], other: list[Row]) -> None:
    # Cancelled ones are left out: their credit depends on what else completed.
    one, other = ([row for row in rows if row[3] != Outcome.CANCELLED] for rows in (one, other))
    parts = [credited_series(log_of(rows, n_labels=3), until_s=50.0) for rows in (one, other)]
    whole = credited_series(log_of(one + other, n_labels=3), until_s=50.0)
    assert whole == pytest.approx(parts[0] + parts[1], abs=1e-9)


def test_failures_are_no_throughput() -> None:
    log = log_of([(0, 1, 0, Outcome.ERROR), (0, 1, 0, Outcome.TIMED_OUT)], duration_s=1)
    assert credited_series(log).tolist() == [0.0]


def test_cancelled_counts_its_elapsed_over_the_longer_ones() -> None:
    rows = [(0, 1, 0, Outcome.OK), (0, 4, 0, Outcome.OK), (0, 8, 0, Outcome.OK), (8, 10, 0, Outcome.CANCELLED)]
    credit = operation_credit(log_of(rows))
    # Two seconds in: only the runs of 4 s and 8 s can still be like it.
    assert credit[-1] == pytest.approx((2 / 4 + 2 / 8) / 2)


@pytest.mark.parametrize("completed", [[], [(0, 1, 0, Outcome.OK)], [(0, 100, 1, Outcome.OK)]])
def test_cancelled_after_all_of_its_label_counts_at_most_once(completed: list[Row]) -> None:
    log = log_of([*completed, (0, 10, 0, Outcome.CANCELLED)], n_labels=2)
    assert operation_credit(log)[log.outcome == Outcome.CANCELLED] == pytest.approx(1.0)


def test_cancelled_credit_is_unbiased_for_operations_of_one_kind() -> None:
    rng = np.random.default_rng(4)
    # What runs at a given moment is length-biased, which for a log-normal of sigma shifts mu by sigma^2.
    elapsed = rng.uniform(0, rng.lognormal(0.6**2, 0.6, 4000))
    rows: list[Row] = [(0.0, d, 0, Outcome.OK) for d in rng.lognormal(0, 0.6, 4000)]
    rows += [(0.0, t, 0, Outcome.CANCELLED) for t in elapsed]
    log = log_of(rows)
    assert operation_credit(log)[log.outcome == Outcome.CANCELLED].mean() == pytest.approx(0.5, abs=0.02)


def test_an_operation_longer_than_the_run_of_bins() -> None:
    log = log_of([(0.0, 100.0, 0, Outcome.OK)], duration_s=100)
    assert credited_series(log, until_s=10.0) == pytest.approx(np.full(10, 0.01))


def test_instants_belong_to_the_bin_that_they_start() -> None:
    log = log_of([(1.0, 1.0, 0, Outcome.OK)], duration_s=3)
    assert credited_series(log).tolist() == [0.0, 1.0, 0.0]


def test_only_whole_bins_are_given() -> None:
    assert len(credited_series(log_of([], duration_s=2.9))) == 2
    assert len(credited_series(log_of([], duration_s=3.0), bin_s=0.1)) == 30
    assert len(credited_series(log_of([]))) == 0


def test_bad_bin_width() -> None:
    with pytest.raises(UsageError, match=r"bin_s=0 is not a positive number of seconds\nhint: use 1.0"):
        credited_series(log_of([]), bin_s=0)


def test_torn_log() -> None:
    log = log_of([(0, 1, 0, Outcome.OK)])
    torn = type(log)(log.labels, log.stream, log.label, log.start_s, log.end_s[:0], log.rows, log.outcome)
    with pytest.raises(LoadError, match=r"the columns of the load's log differ in length: .*'end_s': 0"):
        credited_series(torn, until_s=1.0)


def test_log_that_runs_backwards() -> None:
    with pytest.raises(LoadError, match="has operations with end_s < start_s or without times"):
        credited_series(log_of([(2, 1, 0, Outcome.OK)]), until_s=3.0)
