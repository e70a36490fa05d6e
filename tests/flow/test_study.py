"""A study as a conversation: what is asked when, in which order trials may be told, and what becomes of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trimtab.errors import InternalError, UsageError
from trimtab.flow import Ask, Budget, Scorer, SearchOptions, Steps, Stopped, Study, Task, side_by_side
from trimtab.flow.ablate import Ablation, start_ablation, without_lines
from trimtab.flow.ask import announced
from trimtab.flow.refine import Refined
from trimtab.flow.tuning import tuning
from trimtab.measure import Interval, Measurement
from trimtab.records import Context, Objective, Role, Status, StopKind, Trial
from trimtab.space import Config, Knob, KnobKind, Space

SPACE = Space([Knob(name="a", kind=KnobKind.INTEGER, low=0, high=9, default=0)])
BASELINE = SPACE.default()
CONTEXT = Context("any", 1)
TASK = Task(
    space=SPACE,
    baseline=BASELINE,
    advice=BASELINE,
    objective=Objective("throughput"),
    budget=Budget(trials=10),
    context=CONTEXT,
)


def config(a: int) -> Config:
    return Config({"a": a})


def answer(ask: Ask, value: float = 100.0) -> Trial:
    """A raw trial, as a trial room makes it."""
    return Trial(
        number=ask.number, role=ask.role, config=ask.config, context=CONTEXT, status=Status.OK,
        measurement=measured(value), cost_s={"measure": 5.0},
    )  # fmt: skip


def measured(value: float) -> Measurement:
    throughput = Interval(value, value, value, se=0.01 * value)
    return Measurement(
        window_s=(0.0, 10.0), throughput=throughput, latency_mean_ms=Interval(1.0, 1.0, 1.0, se=0.0), latency_ms={},
        n_ok=1000, n_error=0, n_timed_out=0, is_steady=True, warmup_s=0.0, series_per_s=(value,) * 10,
    )  # fmt: skip


def told(study: Study[object], *asks: Ask) -> None:
    for ask in asks:
        study.tell(answer(ask))


def twice(a: int) -> Steps[list[int]]:
    """Two runs, the second of another config."""
    first = yield Ask(config=config(a), role=Role.SEARCH)
    second = yield Ask(config=config(int(first.config["a"]) + 1), role=Role.REPEAT)
    return [first.number, second.number]


def test_one_ask_at_a_time_each_handed_out_once() -> None:
    def flow(scorer: Scorer) -> Steps[list[int]]:
        return (yield from twice(1))

    study = Study(TASK, flow)
    (ask,) = study.next()
    assert (ask.number, ask.config, ask.role) == (0, config(1), Role.SEARCH)
    assert study.next() == ()
    with pytest.raises(InternalError, match="before it had ended"):
        _ = study.result
    study.tell(answer(ask))
    (second,) = study.next(5)
    assert (second.number, second.config) == (1, config(2))
    study.tell(answer(second))
    assert (study.next(), study.is_over, study.result) == ((), True, [0, 1])


def test_a_trial_gets_its_loss_against_the_baseline_and_a_recorded_one_keeps_its_own() -> None:
    def flow(scorer: Scorer) -> Steps[list[float | None]]:
        yield Ask(config=BASELINE, role=Role.BASELINE)
        first = yield Ask(config=config(1), role=Role.SEARCH)
        second = yield Ask(config=config(2), role=Role.SEARCH)
        return [first.loss, second.loss]

    study = Study(TASK, flow)
    told(study, *study.next())
    (ask,) = study.next()
    scored = study.tell(answer(ask, 200.0))
    assert scored.loss == pytest.approx(-0.693, abs=0.001)
    assert study.scorer.best_gain == pytest.approx(2.0)
    (ask,) = study.next()
    study.tell(replace(answer(ask, 200.0), loss=-0.5, loss_se=0.1))
    assert study.next() == ()
    assert study.result == [scored.loss, -0.5]
    assert study.scorer.spent_s == 15.0


def test_a_phase_is_announced_before_its_first_run_and_not_without_one() -> None:
    said: list[str] = []

    def nothing() -> Steps[int]:
        return 7
        yield Ask(config=config(1), role=Role.SEARCH)

    def flow(scorer: Scorer) -> Steps[object]:
        seven = yield from announced(nothing(), said.append, "doing nothing")
        try:
            return seven, (yield from announced(twice(1), said.append, "running twice"))
        except Stopped as end:
            return seven, end.message

    for is_stopped, result in ((False, (7, [0, 1])), (True, (7, "enough"))):
        study, n_before = Study(TASK, flow), len(said)
        told(study, *study.next())
        assert said[n_before:] == ["running twice"]
        if is_stopped:
            study.stop("enough")
        else:
            told(study, *study.next())
            assert study.next() == ()
        assert study.result == result
    assert said == ["running twice"] * 2


def test_steps_side_by_side_may_be_told_in_any_order() -> None:
    def flow(scorer: Scorer) -> Steps[list[list[int]]]:
        return (yield from side_by_side([twice(1), twice(3), twice(5)]))

    study = Study(TASK, flow)
    a, b = study.next(2)
    assert [a.config, b.config] == [config(1), config(3)]
    (c,) = study.next(2)
    assert c.config == config(5)
    assert study.next() == ()
    told(study, c)
    (d,) = study.next(3)
    assert (d.config, d.number) == (config(6), 3)
    told(study, d, b, a)
    e, f = study.next(9)
    assert [e.config, f.config] == [config(2), config(4)]
    told(study, f, e)
    assert study.next() == ()
    assert study.result == [[0, 4], [1, 5], [2, 3]]


def test_one_at_a_time_steps_side_by_side_run_one_after_the_other() -> None:
    def flow(scorer: Scorer) -> Steps[list[list[int]]]:
        none: list[list[int]] = yield from side_by_side([])
        return none + (yield from side_by_side([twice(1), twice(3)]))

    study, configs = Study(TASK, flow), []
    while asks := study.next():
        configs += [ask.config["a"] for ask in asks]
        told(study, *asks)
    assert configs == [1, 2, 3, 4]
    assert study.result == [[0, 1], [2, 3]]


def test_a_told_trial_of_a_history_keeps_its_number_and_the_next_are_numbered_after_all_of_them() -> None:
    def flow(scorer: Scorer) -> Steps[list[int]]:
        return (yield from twice(1))

    study = Study(TASK, flow, numbers_from=7)
    (ask,) = study.next()
    study.tell(replace(answer(ask), number=4))
    (second,) = study.next()
    assert second.number == 7
    told(study, second)
    study.next()
    assert study.result == [4, 7]


def test_what_was_not_asked_for_is_refused() -> None:
    def flow(scorer: Scorer) -> Steps[list[int]]:
        return (yield from twice(1))

    study = Study(TASK, flow)
    (ask,) = study.next()
    with pytest.raises(InternalError, match=r"trial 0 \(search\) answers nothing that was asked for"):
        study.tell(replace(answer(ask), config=config(8)))
    told(study, ask)
    with pytest.raises(InternalError, match="answers nothing"):
        told(study, ask)
    with pytest.raises(UsageError, match="cannot ask for n=0 trials"):
        study.next(0)


def test_a_study_that_is_stopped_concludes_with_what_there_is() -> None:
    closed = []

    def lane(a: int) -> Steps[None]:
        try:
            yield Ask(config=config(a), role=Role.SEARCH)
        finally:
            closed.append(a)

    def flow(scorer: Scorer) -> Steps[str]:
        try:
            yield from side_by_side([lane(1), lane(2), lane(3)])
        except Stopped as stopped:
            return f"{stopped.message} after {len(scorer.trials)}"
        return "to the end"

    study = Study(TASK, flow)
    told(study, *study.next())
    study.next()
    assert study.stop("enough") == "enough after 1"
    assert study.is_over
    assert study.next() == ()
    assert closed == [1, 2]


@pytest.mark.parametrize(
    ("is_proven", "stopped_after", "kind"),
    [
        (True, None, StopKind.OVER),
        (False, None, StopKind.UNPROVEN),
        (True, 4, StopKind.ASKED),
        (False, 1, StopKind.ASKED),
    ],
)
def test_why_a_study_has_ended_is_told_to_programs(is_proven: bool, stopped_after: int | None, kind: StopKind) -> None:
    options = SearchOptions(searcher="random")
    task = replace(TASK, is_proven=is_proven, search=options, budget=Budget(trials=3))
    study = Study(task, tuning(task))
    while not study.is_over:
        told(study, *study.next())
        if len(study.scorer.trials) == stopped_after:
            study.stop("; no proof was asked for")
    assert study.result.stop_kind is kind


def test_a_flow_that_has_nothing_to_say_when_stopped_says_so() -> None:
    def flow(scorer: Scorer) -> Steps[list[int]]:
        return (yield from twice(1))

    study = Study(TASK, flow)
    study.next()
    with pytest.raises(Stopped, match="enough"):
        study.stop("enough")


def test_a_config_that_runs_with_the_values_of_another_is_told() -> None:
    said: list[str] = []

    def flow(scorer: Scorer) -> Steps[None]:
        yield Ask(config=config(1), role=Role.SEARCH)
        yield Ask(config=config(2), role=Role.SEARCH)

    study = Study(TASK, flow, say=said.append)
    for _ in range(2):
        (ask,) = study.next()
        study.tell(replace(answer(ask), effective={"a": 1}))
    assert said == [
        "trial 1 ran with the same effective values as trial 0: the target makes no difference between their a"
    ]


def test_the_same_task_and_trials_lead_the_same_way() -> None:
    """A whole study, told twice: every ask is the same, and so is the verdict."""

    def run(known: list[Trial]) -> tuple[list[Ask], object, list[Trial]]:
        study, asks = Study(TASK, tuning(TASK)), []
        while not study.is_over:
            for ask in study.next():
                asks.append(replace(ask, early_stop=None))  # it has no equality
                speed = 100.0 + 20.0 * float(ask.config["a"]) + 0.3 * (len(asks) * 7 % 5)
                study.tell(known[len(asks) - 1] if known else answer(ask, speed))
        return asks, study.result, study.scorer.trials

    asks, verdict, trials = run([])
    assert len(trials) > 15
    assert verdict.result == "better"  # type: ignore[attr-defined]
    assert verdict.config["a"] >= 7  # type: ignore[attr-defined]
    assert run(trials) == (asks, verdict, trials)


def test_what_the_winner_has_lost_before_counts_in_its_ablation(monkeypatch: pytest.MonkeyPatch) -> None:
    lost_of: list[float] = []

    def refined(*_: object) -> Steps[Refined | None]:
        yield from ()
        return Refined(config(9), lost=0.05)

    def started(task: Task, scorer: Scorer, winner: Config, lost: float = 0.0) -> Ablation:
        lost_of.append(lost)
        return start_ablation(task, scorer, winner, lost)

    monkeypatch.setattr("trimtab.flow.tuning.refine", refined)
    monkeypatch.setattr("trimtab.flow.finish.start_ablation", started)
    study = Study(TASK, tuning(TASK))
    while not study.is_over:
        for ask in study.next():
            study.tell(answer(ask, 100.0 + 20.0 * float(ask.config["a"])))
    assert lost_of == [0.05]


def test_a_study_stopped_before_its_second_proof_does_not_show_the_first_one_as_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refined(*_: object) -> Steps[Refined | None]:
        yield from ()
        return Refined(config(9))

    monkeypatch.setattr("trimtab.flow.tuning.refine", refined)
    study = Study(TASK, tuning(TASK))
    while not study.is_over:
        for ask in study.next():
            is_first = ask.config == config(9)
            if ask.role is Role.PROOF_CANDIDATE and not is_first:
                study.stop("enough")
            elif ask.role is Role.PROOF_CANDIDATE:
                study.tell(replace(answer(ask), status=Status.CRASHED, measurement=None, reason="out of memory"))
            else:
                study.tell(answer(ask, 100.0 + 20.0 * float(ask.config["a"])))
    verdict = study.result
    assert verdict.result == "interrupted"
    assert verdict.candidate not in (None, config(9), BASELINE)
    assert "out of memory" in verdict.refused[0]
    assert (verdict.failure, verdict.gain, verdict.conditions) == ("", None, ())


def test_a_setting_that_has_no_effect_beside_the_others_is_not_compared_with_itself() -> None:
    """Its default, which every config has without it, may be another value than the one that was found."""
    lazy = Knob(name="b", kind=KnobKind.INTEGER, low=0, high=9, default=5, condition="a > 6")
    space = Space([SPACE.knobs["a"], lazy])
    found = Config({"a": 0, "b": 2})
    task = replace(TASK, space=space, baseline=found, advice=found)
    winner = space.canonical(found.replace({"a": 4}))
    assert winner.difference(found) == ("a", "b")
    without, reason = without_lines(task, winner, ["b"])
    assert without is None
    assert reason == "it has no effect with the other settings, so there is nothing to compare"
