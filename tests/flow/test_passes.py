"""Passes: the knobs that need a restart first, then the others, from the best so far; what each brought, and when it ends."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from trimtab.errors import UsageError
from trimtab.flow import Ask, Budget, Effort, SearchOptions, Settled, Study, Task
from trimtab.flow.passes import PassesSearcher, passes_of
from trimtab.flow.tuning import tuning
from trimtab.measure import Interval, Measurement
from trimtab.records import Context, Objective, PassesPlan, PassesSummary, Role, Status, Trial, Verdict
from trimtab.search import SearchProblem, create
from trimtab.space import Config, Knob, KnobKind, RestartClass, Space

pytestmark = pytest.mark.slow

CONTEXT = Context("any", 1)


def knob(name: str, restart: RestartClass = RestartClass.RELOAD) -> Knob:
    return Knob(name=name, kind=KnobKind.REAL, low=0.0, high=1.0, default=0.0, restart=restart)


SPACE = Space([knob("late", RestartClass.RESTART), knob("boot", RestartClass.REBOOT), knob("a"), knob("b")])
BASELINE = SPACE.default()


def measured(value: float) -> Measurement:
    return Measurement(
        window_s=(0.0, 10.0), throughput=Interval(value, value, value, se=0.002 * value),
        latency_mean_ms=Interval(1.0, 1.0, 1.0, se=0.0), latency_ms={}, n_ok=1000, n_error=0, n_timed_out=0,
        is_steady=True, warmup_s=0.0, series_per_s=(value,) * 10,
    )  # fmt: skip


def additive(config: Config) -> float:
    """Log of the speed: `late` brings 0.4, `a` 0.3, the others nothing."""
    return 0.4 * float(config["late"]) + 0.3 * float(config["a"])


def task(**changes: Any) -> Task:
    made = Task(
        space=SPACE, baseline=BASELINE, advice=BASELINE, objective=Objective("throughput"), budget=Budget(trials=40),
        context=CONTEXT, search=SearchOptions(searcher="forest", patience=40),
    )  # fmt: skip
    return replace(made, **changes)


def run(
    kind: str,
    truth: Callable[[Config], float] = additive,
    *,
    on: Task | None = None,
    room: int | None = 40,
    known: list[Trial] | None = None,
    cost_s: Callable[[Ask], float] = lambda ask: 5.0,
    unit_cost_s: float = 0.0,
    sd: float = 0.003,
) -> tuple[Verdict, list[Trial], list[Ask]]:
    """A whole study whose trials are answered from `truth` with noise; the first ones from `known`."""
    chosen = on or task()
    plan = PassesPlan(kind=kind, room=room, unit_cost_s=unit_cost_s)
    study = Study(chosen, tuning(chosen, lambda scorer: Settled(passes=plan)))
    rng, asks, told = np.random.default_rng(1), list[Ask](), list[Trial]()
    while not study.is_over:
        for ask in study.next():
            value = 100.0 * math.exp(truth(ask.config) + rng.normal(0.0, sd))
            asks.append(ask)
            trial = Trial(
                number=ask.number, role=ask.role, config=ask.config, context=CONTEXT, status=Status.OK,
                measurement=measured(value), cost_s={"measure": cost_s(ask)},
            )  # fmt: skip
            told.append(study.tell(known[len(asks) - 1] if known and len(asks) <= len(known) else trial))
    return study.result, told, asks


@cache
def restart_first() -> tuple[Verdict, list[Trial], list[Ask]]:
    """The usual study with two passes."""
    return run("restart-first")


def searched(asks: list[Ask]) -> list[Ask]:
    """Of the search itself: what comes after the baseline, and before the best are measured again."""
    end = next((i for i, ask in enumerate(asks) if ask.role is Role.REPEAT), len(asks))
    return [ask for ask in asks[:end] if ask.role is Role.SEARCH]


def summary(verdict: Verdict) -> PassesSummary:
    assert verdict.passes is not None
    return verdict.passes


def test_knobs_that_need_a_restart_come_first_and_their_trials_are_long() -> None:
    verdict, _, asks = restart_first()
    late, soon = (each.trials for each in summary(verdict).passes)
    search = searched(asks)
    assert len(search) == 40 == late + soon
    assert late < soon
    first, second = search[:late], search[late:]
    assert {ask.effort for ask in first} == {Effort.LONG}
    assert {ask.effort for ask in second} == {Effort.QUICK}
    assert all((ask.config["a"], ask.config["b"]) == (0.0, 0.0) for ask in first)
    held = {(ask.config["late"], ask.config["boot"]) for ask in second}
    assert len(held) == 1
    assert next(iter(held))[0] > 0.8


def test_both_kinds_of_gain_are_found_proven_and_told_by_pass() -> None:
    verdict, _, _ = restart_first()
    assert verdict.result == "better"
    assert set(verdict.config) == {"late", "a"}
    late, soon = summary(verdict).passes
    assert (late.name, late.knobs, late.has_gained) == ("restart", ("late", "boot"), True)
    assert (soon.name, soon.knobs, soon.has_gained) == ("reload", ("a", "b"), True)
    assert late.gain == pytest.approx(math.exp(0.4), rel=0.1)
    assert soon.gain == pytest.approx(math.exp(0.3), rel=0.1)
    assert late.cost_s >= 5.0 * late.trials


def test_alternating_goes_on_while_it_pays_and_ends_when_a_pass_brings_nothing() -> None:
    def bound(config: Config) -> float:
        """Each of the two pays as far as the other follows: by turns 0.3, 0.6, 0.9, 1; both at once, 1 and 1."""
        late, a = float(config["late"]), float(config["a"])
        return 0.6 * late + 0.6 * a - (late - a) ** 2

    verdict, _, asks = run("alternate", bound, on=task(budget=Budget(trials=90)), room=90)
    passes = summary(verdict).passes
    assert len(passes) >= 3
    assert [each.name for each in passes] == ["restart", "reload"] * (len(passes) // 2) + ["restart"] * (
        len(passes) % 2
    )
    assert all(each.has_gained for each in passes[:2])
    once, _, _ = run("restart-first", bound, on=task(budget=Budget(trials=90)), room=90)
    assert verdict.candidate is not None
    assert once.candidate is not None
    assert bound(verdict.candidate) > bound(once.candidate) + 0.2
    assert summary(verdict).end == "the last pass has brought nothing"
    assert not passes[-1].has_gained
    assert len(searched(asks)) < 90


def test_where_nothing_helps_two_passes_are_enough() -> None:
    verdict, _, asks = run("alternate", lambda config: 0.0)
    assert verdict.result == "no_improvement"
    assert [each.has_gained for each in summary(verdict).passes] == [False, False]
    assert summary(verdict).end == "the last pass has brought nothing"
    assert verdict.stop_reason == "the last pass has brought nothing", "and far from everything was tried"
    assert len(searched(asks)) < 40


def test_a_pass_whose_trials_cost_more_has_fewer_of_them() -> None:
    def cost_s(ask: Ask) -> float:
        return 25.0 if ask.config["late"] != 0.0 or ask.config["boot"] != 0.0 else 5.0

    dear, _, _ = run("restart-first", cost_s=cost_s, unit_cost_s=5.0)
    even, _, _ = run("restart-first", unit_cost_s=5.0)
    assert summary(dear).passes[0].trials < summary(even).passes[0].trials / 2


def test_the_advice_is_tried_whole_before_the_passes() -> None:
    advice = Config({"late": 0.5, "boot": 0.0, "a": 0.5, "b": 0.5})
    verdict, trials, asks = run("restart-first", on=task(advice=advice))
    assert asks[3].config == advice
    assert trials[3].role is Role.ADVICE
    held = {(ask.config["a"], ask.config["b"]) for ask in searched(asks)[: summary(verdict).passes[0].trials]}
    assert held == {(0.5, 0.5)}


def test_a_resumed_study_goes_the_same_way() -> None:
    verdict, trials, asks = run("alternate", sd=0.02)
    n = len(trials) // 2
    again, resumed, asked = run("alternate", sd=0.02, known=trials[:n])
    assert resumed == trials
    assert again == verdict
    assert [ask.config for ask in asked] == [ask.config for ask in asks]


def test_without_a_known_room_each_pass_ends_when_it_stalls() -> None:
    verdict, _, _ = run("alternate", room=None, on=task(budget=Budget(trials=200)))
    assert len(summary(verdict).passes) >= 2


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ([knob("a"), knob("b")], "all n_knobs=2 knobs of the study take effect without a restart"),
        ([knob("late", RestartClass.RESTART)], "all n_knobs=1 knobs of the study need a restart"),
    ],
)
def test_knobs_of_one_kind_cannot_be_divided(knobs: list[Knob], words: str) -> None:
    with pytest.raises(UsageError) as refused:
        passes_of(Space(knobs), "alternate")
    assert refused.value.message == f"search.passes has nothing to divide: {words}"
    assert "`trimtab knobs`" in str(refused.value.hint)


def test_what_it_will_do_is_said() -> None:
    problem = SearchProblem(space=SPACE, baseline=BASELINE)
    searcher = PassesSearcher(
        problem, PassesPlan(kind="alternate", room=10), lambda each: create("random", each), patience=9
    )
    assert searcher.describe() == (
        "searching in passes: 2 knobs that need a restart with few long trials, then 2 knobs that do not, again until a pass "
        "brings nothing"
    )
    searcher.ask()
    assert searcher.news() == ["pass 1: 2 knobs (restart) with long trials"]
    assert searcher.summary().passes[0].trials == 0


# --- by tier ---

STACK = Space(
    [
        knob("db.late", RestartClass.RESTART),
        knob("db.a"),
        knob("app.b", RestartClass.RESTART),
        knob("web.c"),
        knob("web.d"),
    ]
)


def stack_task(**changes: Any) -> Task:
    return task(space=STACK, baseline=STACK.default(), advice=STACK.default(), **changes)


def test_one_tier_is_searched_after_the_other_the_others_held() -> None:
    def truth(config: Config) -> float:
        return 0.4 * float(config["db.a"]) + 0.3 * float(config["web.c"])

    verdict, _, asks = run("tiers", truth, on=stack_task(budget=Budget(trials=80)), room=80)
    passes = summary(verdict).passes
    assert [each.name for each in passes][:3] == ["db", "app", "web"]
    assert [each.knobs for each in passes][:3] == [("db.late", "db.a"), ("app.b",), ("web.c", "web.d")]
    assert [each.has_gained for each in passes][:3] == [True, False, True]
    made = searched(asks)
    first, second = passes[0].trials, passes[1].trials
    assert {(ask.config["app.b"], ask.config["web.c"]) for ask in made[:first]} == {(0.0, 0.0)}
    assert len({(ask.config["db.a"], ask.config["web.c"]) for ask in made[first : first + second]}) == 1
    assert [ask.effort for ask in made[first : first + second]] == [Effort.LONG] * second, "each of them is a restart"
    assert {ask.effort for ask in made[:first]} == {Effort.QUICK}
    assert verdict.candidate is not None
    assert truth(verdict.candidate) > 0.6


def test_a_round_without_a_gain_ends_it() -> None:
    verdict, _, asks = run("tiers", lambda config: 0.0, on=stack_task(budget=Budget(trials=80)), room=80)
    assert [each.name for each in summary(verdict).passes] == ["db", "app", "web"]
    assert summary(verdict).end == "a round of passes has brought nothing"
    assert len(searched(asks)) < 80


def test_after_a_gain_the_other_tiers_have_their_turn_again() -> None:
    def truth(config: Config) -> float:
        """What the last tier of a round brings lets the first one gain in the next."""
        return 0.5 * float(config["web.c"]) * (0.2 + float(config["db.a"]))

    verdict, _, _ = run("tiers", truth, on=stack_task(budget=Budget(trials=120)), room=120)
    names = [each.name for each in summary(verdict).passes if each.has_gained]
    assert names[:2] == ["web", "db"]


def test_the_passes_of_a_single_target_are_no_tiers() -> None:
    with pytest.raises(UsageError) as refused:
        passes_of(SPACE, "tiers")
    assert refused.value.message == (
        "search.passes='tiers' has nothing to divide: all n_knobs=4 knobs of the study are of one target"
    )
    assert refused.value.hint


def told(number: int, config: Config, loss: float, excess: float = 0.0) -> Trial:
    role = Role.SEARCH if number else Role.BASELINE
    return Trial(number=number, role=role, config=config, context=CONTEXT, status=Status.OK, measurement=measured(100.0),
                 loss=loss, loss_se=0.01, excess=excess, cost_s={"measure": 5.0})  # fmt: skip


@pytest.mark.parametrize("excess", [0.0, 0.5])
def test_the_next_pass_holds_what_meets_the_constraint_that_the_baseline_misses(excess: float) -> None:
    """All that the first pass tries is slower than the baseline, and meets its constraint."""
    searcher = PassesSearcher(
        SearchProblem(space=SPACE, baseline=BASELINE), PassesPlan(kind="restart-first", room=12),
        lambda each: create("random", each), patience=40,
    )  # fmt: skip
    searcher.tell(told(0, BASELINE, 0.0, excess))
    for number in range(1, 60):
        (config,) = searcher.ask()
        if len(searcher.summary().passes) == 2:
            break
        searcher.tell(told(number, config, 0.1 + 0.01 * number))
    first, _ = searcher.summary().passes
    assert first.has_gained is (excess > 0), "it has found what meets the constraint"
    assert first.gain == 1.0
    brought = "a config that meets the objective's constraints" if excess else "nothing"
    assert f"pass 1 (restart) has brought {brought}" in searcher.news()
    is_held = (config["late"], config["boot"]) != (BASELINE["late"], BASELINE["boot"])
    assert is_held is (excess > 0)


@pytest.mark.parametrize("loss", [0.1, -0.2])
def test_a_pass_that_finds_the_first_config_within_the_constraint_is_no_reason_to_end(loss: float) -> None:
    """It is found in the second pass: the knobs of the first one were never searched around it."""
    searcher = PassesSearcher(
        SearchProblem(space=SPACE, baseline=BASELINE), PassesPlan(kind="alternate", room=60),
        lambda each: create("random", each), patience=8,
    )  # fmt: skip
    searcher.tell(told(0, BASELINE, 0.0, 0.5))
    for number in range(1, 60):
        (config,) = searcher.ask()
        is_second = len(searcher.summary().passes) == 2
        if len(searcher.summary().passes) > 2 or searcher.is_exhausted:
            break
        searcher.tell(told(number, config, loss if is_second else 0.3, 0.0 if is_second else 0.4))
    assert not searcher.is_exhausted
    first, second = searcher.summary().passes[:2]
    assert (first.has_gained, first.gain) == (False, 1.0)
    assert second.has_gained
    assert second.gain == pytest.approx(math.exp(max(0.0, -loss)))


def test_what_passes_by_tier_will_do_is_said() -> None:
    problem = SearchProblem(space=STACK, baseline=STACK.default())
    searcher = PassesSearcher(problem, PassesPlan(kind="tiers"), lambda each: create("random", each), patience=9)
    assert searcher.describe() == (
        "searching in passes, one target after the other: db (2 knobs), app (1 knob), web (2 knobs); again until a round "
        "brings nothing"
    )
    searcher.ask()
    assert searcher.news() == ["pass 1: 2 knobs (db)"]
