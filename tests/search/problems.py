"""Small spaces, trials and problems for the tests of this room."""

from __future__ import annotations

from typing import Any

from trimtab.records import Context, Role, Status, Trial
from trimtab.search import SearchProblem
from trimtab.space import Config, Constraint, Knob, KnobKind, RestartClass, Space

CONTEXT = Context(workload="test", clients=1)


def integer(name: str, high: int = 100, **changes: Any) -> Knob:
    return Knob(**{"name": name, "kind": KnobKind.INTEGER, "low": 0, "high": high, "default": 0, **changes})


def grid(n: int = 2, high: int = 100, *constraints: str) -> Space:
    """n integer knobs a, b, c, ... from 0 to `high`; every second one needs a restart."""
    classes = (RestartClass.RELOAD, RestartClass.RESTART)
    knobs = [integer("abcdefghij"[i], high, restart=classes[i % 2]) for i in range(n)]
    return Space(knobs, [Constraint(text) for text in constraints])


def trial(config: Config, number: int = 0, loss: float | None = 0.0, **changes: Any) -> Trial:
    values: dict[str, Any] = {"role": Role.SEARCH, "context": CONTEXT, "status": Status.OK, "loss_se": 0.03, **changes}
    return Trial(number=number, config=config, loss=loss, **values)


def crash(config: Config, number: int = 0) -> Trial:
    return trial(config, number, None, status=Status.CRASHED, loss_se=None)


def problem(space: Space, *advice: Config, seed: int = 1, budget: int | None = None, **options: Any) -> SearchProblem:
    return SearchProblem(
        space=space, baseline=space.default(), advice=advice, seed=seed, budget_trials=budget, options=options
    )
