"""The order of plays: by what they promise, and by what their run costs where a restart costs much."""

from __future__ import annotations

from trimtab.flow import Budget, Task
from trimtab.flow.plays import planned
from trimtab.flow.score import Scorer
from trimtab.records import Context, Objective, Play
from trimtab.search import RestartCost
from trimtab.space import Knob, KnobKind, RestartClass, Space

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
