"""The regression budget: what is counted, and that the search ends when it is spent."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from tests.fakes import FakeStudy
from trimtab.errors import LoadError
from trimtab.flow import Budget, Task
from trimtab.flow.context_score import ContextScorer
from trimtab.flow.regression import RegressionMeter
from trimtab.history import StudyRecord
from trimtab.measure import Interval, Measurement
from trimtab.records import Context, Cycle, Objective, Role, Status, Trial, Visit
from trimtab.space import Config, Space
from trimtab.study import load_study_file, run_design


def measured(throughput: float, mean_ms: float, *, is_open: bool = False) -> Measurement:
    return Measurement(
        window_s=(0, 5), throughput=Interval(throughput, throughput, throughput),
        latency_mean_ms=Interval(mean_ms, mean_ms, mean_ms), latency_ms={}, n_ok=1, n_error=0, n_timed_out=0, is_steady=True,
        warmup_s=0, series_per_s=(), users=8, is_open=is_open,
    )  # fmt: skip


def trial(measurement: Measurement | None = None, **more: Any) -> Trial:
    return replace(
        Trial(
            number=0, role=Role.SEARCH, config=Config({}), context=Context(workload="", clients=8), status=Status.OK,
            measurement=measurement, cost_s={"warmup": 2.0, "measure": 8.0, "apply": 1.0, "restore": 1.0},
        ),
        **more,
    )  # fmt: skip


@pytest.fixture
def meter() -> RegressionMeter:
    meter = RegressionMeter()
    meter.take(trial(measured(1000, 8), role=Role.BASELINE))
    return meter


def test_half_as_fast_costs_half_of_everybodys_time(meter: RegressionMeter) -> None:
    meter.take(trial(measured(500, 16)))
    assert meter.lost_s == pytest.approx(8 * 10 * 0.5)


def test_gains_pay_nothing_back(meter: RegressionMeter) -> None:
    meter.take(trial(measured(2000, 4)))
    assert meter.lost_s == 0


def test_an_open_loop_counts_the_longer_waits(meter: RegressionMeter) -> None:
    meter.take(trial(measured(1000, 28, is_open=True)))
    assert meter.lost_s == pytest.approx(1000 * 10 * 0.02)


@pytest.mark.parametrize("overloaded_ms", [math.inf, math.nan])
def test_a_baseline_run_that_was_overloaded_does_not_end_the_count(overloaded_ms: float) -> None:
    meter = RegressionMeter()
    meter.take(trial(measured(900, overloaded_ms, is_open=True), role=Role.BASELINE))
    meter.take(trial(measured(1000, 28, is_open=True)))
    assert meter.lost_s == 0, "of the baseline's latency nothing is known yet"
    meter.take(trial(measured(1000, 8, is_open=True), role=Role.BASELINE))
    meter.take(trial(measured(1000, 28, is_open=True)))
    assert meter.lost_s == pytest.approx(1000 * 10 * 0.02)


def test_a_crash_costs_its_whole_time_and_a_fault_of_others_nothing(meter: RegressionMeter) -> None:
    meter.take(trial(status=Status.CRASHED))
    assert meter.lost_s == pytest.approx(8 * 12)
    meter.take(trial(status=Status.INFRASTRUCTURE))
    assert meter.lost_s == pytest.approx(8 * 12)


def test_nothing_is_known_before_the_first_baseline() -> None:
    meter = RegressionMeter()
    meter.take(trial(measured(1, 1000)))
    assert meter.lost_s == 0


def test_the_contexts_of_a_cycle_share_the_budget() -> None:
    """What each of them may lose by itself is not what the users of the server were promised."""
    contexts = [Context(workload=name, clients=8) for name in ("day", "night")]
    cycle = Cycle(visits=tuple(Visit(name=c.workload, context=c, iterations=1) for c in contexts))
    task = Task(
        space=Space([]), baseline=Config({}), advice=Config({}), objective=Objective("throughput"), budget=Budget(trials=9),
        context=contexts[0], cycle=cycle, regression_budget_s=60.0,
    )  # fmt: skip
    scorer = ContextScorer(task)
    for context in contexts:
        scorer.take(trial(measured(1000, 8), role=Role.BASELINE, context=context))
        assert scorer.part(context).may_try_new
        scorer.take(trial(measured(500, 16), context=context))
    assert scorer.lost_s == pytest.approx(80)
    assert [scorer.part(context).lost_s for context in contexts] == pytest.approx([80, 80])
    assert not any(each.may_try_new for each in (scorer, *map(scorer.part, contexts)))


def test_the_search_ends_when_the_budget_is_spent_and_the_proof_goes_on(fake: FakeStudy) -> None:
    fake.target._speed = lambda values: 2000.0 if not values["compile"] else 1000.0 - float(values["workers"])
    fake.workload.dies_after_s = None
    fake.text += '\n[guard]\nregression_budget = "1ms"\n'
    fake.target._crash_when = lambda values: values["method"] == "ring"
    fake.text = fake.text.replace("12 trials", "60 trials")
    record, trials = fake.tune()
    n_search = sum(t.role in (Role.SEARCH, Role.ADVICE) for t in trials)
    assert n_search < 60
    assert "the regression budget of 1ms of user time is spent (lost " in record.verdict.stop_reason
    last = max(trial.number for trial in trials if trial.role in (Role.SEARCH, Role.ADVICE))
    known = {trial.config for trial in trials if trial.number <= last}
    assert {trial.config for trial in trials} == known, (
        "nothing new is tried to take settings away or to tell their worth"
    )


@pytest.mark.slow
def test_the_runs_of_a_design_end_when_the_budget_is_spent_and_go_on_with_a_larger_one(fake: FakeStudy) -> None:
    """Those that are clearly bad end early, for users wait for them."""
    path, plain = fake.path / "study.toml", fake.text
    fake.target._speed = lambda values: 1000.0 - 50.0 * float(values["workers"])

    def design(budget: str) -> tuple[StudyRecord, list[Trial]]:
        path.write_text(f'{plain}\n[guard]\nregression_budget = "{budget}"\n', encoding="utf-8")
        return run_design(load_study_file(path), fake.path / "state", fake.listener, kind="lhs", runs=8)

    spent = r"the regression budget of 1ms of user time is spent \(lost .*\), after \d of 8 runs of the design"
    with pytest.raises(LoadError, match=spent) as caught:
        design("1ms")
    assert caught.value.hint == "with a larger [guard] regression_budget the same command goes on"
    record, trials = design("10h")
    assert record.status == "ranked"
    made = [trial for trial in trials if trial.role is Role.DESIGN]
    assert len(made) == 8
    assert {trial.status for trial in made} == {Status.OK, Status.STOPPED_EARLY}
