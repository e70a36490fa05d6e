"""What completes a trial: counters before and after the load, seed and versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from trimtab import __version__
from trimtab.errors import TargetError
from trimtab.records import Context, Role, Status, Trial
from trimtab.space import Config
from trimtab.systems import Stack, Target, Tier
from trimtab.testing.fake_workload import FakeWorkload
from trimtab.trial.counting import complete, counted, versions_of
from trimtab.trial.load import End, LoadResult

RESULT = LoadResult(End.COMPLETE, None, 1.0, 2.0, peaks={"memory": 3.0})


class Counting:
    """A target that counts, until it is gone."""

    def __init__(self, *answers: float | None) -> None:
        self.answers = list(answers)

    def counters(self) -> Mapping[str, float]:
        answer = self.answers.pop(0)
        if answer is None:
            raise TargetError("gone")
        return {"reads": answer}


def run_on(target: object) -> LoadResult:
    return counted(Stack([Tier(name="x", target=cast(Target, target))]), lambda *_, **__: RESULT, 1, seed=2)


def test_counters_stand_before_and_after() -> None:
    result = run_on(Counting(1.0, 5.0))
    assert (result.counters_before, result.counters_after) == ({"reads": 1.0}, {"reads": 5.0})


@pytest.mark.parametrize(
    ("answers", "found"), [((None, 5.0), ({}, {"reads": 5.0})), ((1.0, None), ({"reads": 1.0}, {}))]
)
def test_a_target_that_is_gone_does_not_end_the_trial(answers: tuple[Any, ...], found: tuple[Any, Any]) -> None:
    result = run_on(Counting(*answers))
    assert (result.counters_before, result.counters_after) == found


def test_a_target_that_counts_nothing() -> None:
    assert run_on(object()) == RESULT


def test_a_trial_is_completed() -> None:
    trial = Trial(number=0, role=Role.BENCH, config=Config({}), context=Context("x", 1), status=Status.OK)
    assert complete(trial, None) is trial
    found = complete(trial, run_on(Counting(1.0, 5.0)))
    assert (found.peaks, found.counters_before, found.counters_after) == (
        {"memory": 3.0},
        {"reads": 1.0},
        {"reads": 5.0},
    )


def test_versions() -> None:
    assert versions_of(cast(Any, object.__new__(FakeWorkload))) == {"trimtab": __version__, "workload": __version__}
    foreign = type("Foreign", (), {"__module__": "numpy.linalg"})()
    assert versions_of(foreign)["workload"] not in ("", __version__)
    assert versions_of(type("Local", (), {"__module__": "nowhere"})())["workload"] == ""
