"""Plays as they can be tried: their order by what they promise and cost, and none of which a setting would have no effect."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trimtab.flow import Budget, Task
from trimtab.flow.bundles import Bundles
from trimtab.flow.play_fit import fitting, on_top, plan_of
from trimtab.flow.plays import planned
from trimtab.flow.score import Scorer
from trimtab.records import Context, Objective, Play, Role, Status, Trial
from trimtab.search import RestartCost
from trimtab.space import Config, Knob, KnobKind, RestartClass, Space

SPACE = Space(
    [
        Knob(name=name, kind=KnobKind.BOOLEAN, default=False, restart=restart)
        for name, restart in (
            ("web.keep", RestartClass.RELOAD), ("app.heap", RestartClass.RESTART), ("app.pool", RestartClass.RESTART),
        )
    ]
)  # fmt: skip
PLAYS = [
    Play(name=name, settings={knob: True}, reason="An expert would try it.", worth=worth)
    for name, knob, worth in (("pool", "app.pool", 0.5), ("heap", "app.heap", 0.3), ("keep", "web.keep", 0.2))
]


def order(*restarts: RestartCost) -> list[str]:
    task = Task(
        space=SPACE, baseline=SPACE.default(), advice=SPACE.default(), objective=Objective("throughput"),
        budget=Budget(trials=40), context=Context(workload="w", clients=1), restarts=restarts,
    )  # fmt: skip
    return [play.name for play in planned(task, PLAYS, Scorer(task)).plan]


def test_the_most_promising_comes_first() -> None:
    assert order() == ["pool", "heap", "keep"]


def test_a_play_that_restarts_a_slow_tier_must_promise_more() -> None:
    assert order(RestartCost(frozenset({"app.heap", "app.pool"}), 1.0)) == ["pool", "keep", "heap"]
    assert order(RestartCost(frozenset({"app.heap", "app.pool"}), 2.0)) == ["keep", "pool", "heap"]


SIGNED = [replace(PLAYS[0], sign="pool.waits > 0.01 * pool.uses"), PLAYS[1]]


@pytest.mark.parametrize(
    ("before", "after", "is_tried"),
    [
        ({"pool.waits": 7, "pool.uses": 100}, {"pool.waits": 9, "pool.uses": 200}, True),
        ({"pool.waits": 7, "pool.uses": 100}, {"pool.waits": 7, "pool.uses": 200}, False),
        ({"pool.waits": 7, "pool.uses": 100}, {"pool.waits": 0, "pool.uses": 200}, True),  # reset: nothing is known
        ({"pool.uses": 100}, {"pool.waits": 0, "pool.uses": 200}, True),
        ({}, {}, True),
    ],
)
def test_a_play_of_which_the_server_shows_no_sign_is_not_tried(
    before: dict[str, float], after: dict[str, float], is_tried: bool
) -> None:
    task = Task(
        space=SPACE, baseline=SPACE.default(), advice=SPACE.default(), objective=Objective("throughput"),
        budget=Budget(trials=40), context=Context(workload="w", clients=1),
    )  # fmt: skip
    scorer = Scorer(task)
    scorer.trials += [
        Trial(
            number=i, role=role, config=task.baseline, context=task.context, status=Status.OK,
            counters_before=before, counters_after=grown,
        )
        for i, (role, grown) in enumerate(((Role.BASELINE, after), (Role.SEARCH, {"pool.waits": 99, "pool.uses": 100})))
    ]  # fmt: skip
    phase = planned(task, SIGNED, scorer)
    assert [play.name for play in phase.plan] == (["pool", "heap"] if is_tried else ["heap"])
    why = "the baseline's runs do not show what it needs: pool.waits > 0.01 * pool.uses"
    assert phase.left_out == ({} if is_tried else {"pool": why})


GATED = Space(
    [
        Knob(name="workers", kind=KnobKind.INTEGER, low=0, high=8, default=2),
        Knob(name="start_cost", kind=KnobKind.INTEGER, low=1, high=100, default=10, condition="workers > 0"),
        Knob(name="pages", kind=KnobKind.INTEGER, low=1, high=100, default=10),
    ]
)
OFF, CHEAP, MIXED = (
    Play(name=name, settings=settings, reason="An expert would try it.")
    for name, settings in (
        ("off", {"workers": 0}), ("cheap", {"start_cost": 1}), ("mixed", {"start_cost": 1, "pages": 50}),
    )
)  # fmt: skip


def gated() -> Task:
    return Task(
        space=GATED, baseline=GATED.default(), advice=GATED.default(), objective=Objective("throughput"),
        budget=Budget(trials=40), context=Context(workload="w", clients=1),
    )  # fmt: skip


def test_a_play_of_which_a_setting_has_no_effect_is_not_tried() -> None:
    task = gated()
    without, _ = on_top(task, task.baseline, OFF)
    assert without is not None
    for play in (CHEAP, MIXED):
        assert on_top(task, task.baseline, play)[0] is not None
        why = "start_cost: without effect with the other settings"
        assert on_top(task, without, play) == (None, why)
        assert fitting(task, without, play) == (play, None, why), "nor is a part of it"


def test_a_play_goes_without_the_settings_that_have_no_effect_whatever_is_tuned() -> None:
    task = replace(
        gated(), space=GATED.subspace(["pages"]), baseline=Config({"pages": 10}), unfelt=frozenset({"start_cost"})
    )
    plan, left_out = plan_of(task, [MIXED, CHEAP, OFF])
    assert [(play.name, play.settings) for play in plan] == [("mixed", {"pages": 50})]
    assert left_out == {
        "cheap": "its settings have no effect here",
        "off": "it sets what is not among the study's knobs: workers",
    }


def test_plays_that_undo_each_other_are_not_on_together() -> None:
    """Whichever promises more comes first; a run would be credited to both."""
    task = gated()
    bundles = Bundles(plays=(OFF, CHEAP, MIXED), start=task.baseline)
    assert bundles._legal(task, {"off": 2.0, "cheap": 1.0}).plays == {"off"}
    assert bundles._legal(task, {"off": 1.0, "cheap": 2.0}).plays == {"cheap"}
    assert bundles._legal(task, {"cheap": 2.0}).plays == {"cheap"}
