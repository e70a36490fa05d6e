"""What the judge makes of a run in which nothing ended."""

from __future__ import annotations

import pytest

from tests.measure.runs import Row, log_of
from trimtab.measure import Outcome, summarise
from trimtab.records import Objective, Status
from trimtab.trial import End, MeasurePlan
from trimtab.trial.judge import is_worth_another_run, judge
from trimtab.trial.load import LoadResult

CUT = Outcome.CANCELLED


@pytest.mark.parametrize(
    ("rows", "status", "is_again"),
    [
        ([(0.0, 10.0, 0, CUT)] * 3, Status.TIMED_OUT, True),
        ([], Status.TIMED_OUT, True),
        ([(0.0, 1.0, 0, Outcome.OK), (1.0, 10.0, 0, CUT)], Status.TIMED_OUT, True),
        ([(0.0, 6.0, 0, Outcome.OK), (6.0, 10.0, 0, CUT)], Status.OK, False),
        ([(0.0, 6.0, 0, Outcome.TIMED_OUT), (6.0, 10.0, 0, CUT)], Status.TIMED_OUT, False),
    ],
    ids=["all were cut off", "none at all", "one ended in the warm-up", "one ended", "one timed out"],
)
def test_a_run_in_which_nothing_ended_is_timed_out(rows: list[Row], status: Status, is_again: bool) -> None:
    """Of what was cut off it is not known whether it did any work."""
    result = LoadResult(End.COMPLETE, summarise(log_of(rows, duration_s=10), (2.0, 10.0)), 2.0, 8.0)
    found, reason = judge(result, MeasurePlan(), Objective.parse("throughput"))
    assert found is status, reason
    assert is_worth_another_run(found, result) is is_again
