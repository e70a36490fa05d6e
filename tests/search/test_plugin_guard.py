"""A searcher that fails, or answers what is no config, does not end a study."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from trimtab.errors import InternalError, SpaceError
from trimtab.records import Context, Role, Status, Trial
from trimtab.search import FallbackSearcher
from trimtab.space import Config, Constraint, Knob, KnobKind, Space

SPACE = Space(
    [
        Knob(name="size", kind=KnobKind.INTEGER, low=1, high=1024, log=True, default=16),
        Knob(name="cost", kind=KnobKind.REAL, low=0.0, high=8.0, default=4.0),
        Knob(name="jit", kind=KnobKind.BOOLEAN, default=True),
        Knob(name="way", kind=KnobKind.CHOICE, choices=("a", "b"), default="a"),
    ],
    [Constraint("size <= 512", name="budget")],
)
BASE = SPACE.default()


class Scripted:
    """Answers what it is given; an exception is raised."""

    is_exhausted = False
    is_converged = False

    def __init__(self, answer: Callable[[int], Any]) -> None:
        self.answer, self.n_asked = answer, 0
        self.told: list[Trial] = []

    def ask(self, n: int = 1) -> list[Config]:
        self.n_asked += 1
        answer = self.answer(self.n_asked)
        if isinstance(answer, Exception):
            raise answer
        return [answer]

    def tell(self, trial: Trial) -> None:
        self.told.append(trial)

    def best(self) -> Trial | None:
        return None


def steady(answer: Callable[[int], Any], said: list[str] | None = None) -> FallbackSearcher:
    lines = [] if said is None else said
    return FallbackSearcher(Scripted(answer), space=SPACE, baseline=BASE, seed=1, say=lines.append)


def trial(config: Config, loss: float) -> Trial:
    return Trial(number=0, role=Role.SEARCH, config=config, context=Context("w", 1), status=Status.OK, loss=loss)


@pytest.mark.parametrize(
    "broken",
    [
        {"size": 10**30},
        {"size": -5},
        {"size": float("nan")},
        {"size": float("inf")},
        {"size": "4; DROP TABLE x"},
        {"cost": float("nan")},
        {"cost": -1e308},
        {"jit": 1},
        {"way": "c"},
        {"way": None},
        {"unknown": 1},
    ],
)
def test_senseless_values_are_brought_into_the_space(broken: dict[str, Any]) -> None:
    said: list[str] = []
    config = steady(lambda n: Config({**BASE, **broken}), said).ask()[0]
    assert SPACE.validate(config) == config
    assert SPACE.is_feasible(config)
    assert len(said) == 1
    assert "brought into the space" in said[0]


def test_missing_knobs_come_from_the_best_config() -> None:
    searcher = steady(lambda n: Config({"size": 64}))
    searcher.tell(trial(BASE.replace({"way": "b"}), -0.5))
    assert searcher.ask()[0] == BASE.replace({"size": 64, "way": "b"})


def test_a_config_out_of_range_goes_to_the_nearest_end() -> None:
    assert steady(lambda n: BASE.replace({"cost": 99.0})).ask()[0]["cost"] == 8.0


def test_a_good_answer_is_left_alone() -> None:
    said: list[str] = []
    wanted = BASE.replace({"size": 1024})  # infeasible: the trial room says so, and the searcher learns
    assert steady(lambda n: wanted, said).ask()[0] == wanted
    assert said == []


def test_after_three_failures_in_a_row_it_is_not_asked_any_more() -> None:
    said: list[str] = []
    inner = Scripted(lambda n: InternalError(f"searcher='x' failed in ask: number {n}"))
    searcher = FallbackSearcher(inner, space=SPACE, baseline=BASE, seed=1, say=said.append)
    configs = [searcher.ask()[0] for _ in range(10)]
    assert inner.n_asked == 3
    assert all(SPACE.is_feasible(config) for config in configs)
    assert len(set(configs)) >= 5
    assert said[-1] == "the searcher failed 3 times in a row: random configs near the best one from here on"
    assert not searcher.is_exhausted
    assert not searcher.is_converged


def test_what_is_drawn_lies_near_the_best_and_is_the_same_again() -> None:
    def drawn() -> list[Config]:
        searcher = steady(lambda n: InternalError("searcher='x' failed"))
        searcher.tell(trial(BASE.replace({"size": 256, "cost": 1.0}), -0.5))
        return [searcher.ask()[0] for _ in range(20)]

    configs = drawn()
    assert configs == drawn()
    assert all(abs(float(config["cost"]) - 1.0) < 4.0 for config in configs)


@pytest.mark.parametrize("is_told", [True, False])
def test_what_is_drawn_is_not_measured_again_where_knobs_are_switches(is_told: bool) -> None:
    """A tenth of a switch's range moves it in few draws of a hundred."""
    space = Space([Knob(name=f"on_{i}", kind=KnobKind.BOOLEAN, default=False) for i in range(5)])
    inner = Scripted(lambda n: InternalError("searcher='x' failed"))
    searcher = FallbackSearcher(inner, space=space, baseline=space.default(), seed=1, say=lambda line: None)
    asked = []
    for number in range(20):
        asked += searcher.ask()
        if is_told:
            searcher.tell(replace(trial(asked[-1], float(sum(map(bool, asked[-1].values())))), number=number))
    assert len(set(asked)) == 20
    assert all(space.is_feasible(config) for config in searcher.ask(20))  # twelve were left


def test_the_best_is_no_single_lucky_trial() -> None:
    """As every searcher it goes by the mean over repeats, and leaves out what failed as often as it ran."""
    searcher = steady(lambda n: InternalError("searcher='x' failed"))
    lucky, good, frail = (BASE.replace({"size": size}) for size in (32, 64, 128))
    for number, (config, loss) in enumerate([(lucky, -0.6), (lucky, 0.1), (lucky, 0.1), (good, -0.3), (frail, -0.9)]):
        searcher.tell(replace(trial(config, loss), number=number))
    searcher.tell(replace(trial(frail, 0.0), number=9, status=Status.CRASHED, loss=None))
    best = searcher.best()
    assert best is not None
    assert best.config == good
    assert steady(lambda n: BASE).best() is None


def test_a_best_or_baseline_outside_the_space_is_no_place_to_draw_near() -> None:
    """A space that was narrowed since: nothing of it may end the study."""
    searcher = FallbackSearcher(
        Scripted(lambda n: InternalError("searcher='x' failed")),
        space=SPACE,
        baseline=BASE.replace({"cost": 99.0, "way": "z"}),
        seed=1,
        say=lambda line: None,
    )
    searcher.tell(trial(BASE.replace({"size": 9999}), -0.5))
    assert all(SPACE.is_feasible(config) for config in searcher.ask(5))


def test_one_config_over_and_over_is_replaced() -> None:
    said: list[str] = []
    searcher = steady(lambda n: BASE, said)
    configs = [searcher.ask()[0] for _ in range(6)]
    assert configs[:3] == [BASE] * 3
    assert configs[4] != BASE
    assert len(said) == 1


def test_a_config_that_is_replaced_is_not_waited_for() -> None:
    searcher = steady(lambda n: BASE)
    configs = [searcher.ask()[0] for _ in range(5)]
    told = searcher._inner.told  # type: ignore[attr-defined]
    assert len(told) == sum(config != BASE for config in configs) > 0
    assert {(trial.config, trial.status) for trial in told} == {(BASE, Status.INFRASTRUCTURE)}


def test_the_same_config_for_one_workload_after_the_other_is_no_repetition() -> None:
    said: list[str] = []
    searcher = steady(lambda n: BASE, said)
    for _ in range(6):
        assert searcher.ask() == [BASE]
        searcher.changes_workload()
    assert said == []


def test_a_failure_between_good_answers_is_forgiven() -> None:
    searcher = steady(lambda n: InternalError("x") if n % 2 else BASE.replace({"size": n}))
    for _ in range(12):
        searcher.ask()
    assert searcher._inner.n_asked == 12  # type: ignore[attr-defined]


def test_a_value_of_its_own_that_the_space_refuses_is_a_failure_of_the_searcher() -> None:
    """A plug-in that lets the space check what it has made meets the error of a user who wrote it."""
    said: list[str] = []
    searcher = steady(lambda n: SpaceError("size=0 is out of range", hint="legal: 1 to 1024"), said)
    assert all(SPACE.is_feasible(searcher.ask()[0]) for _ in range(5))
    assert said[0] == ("the searcher failed: size=0 is out of range; the study goes on without what it would have said")
    assert len(said) == 2
    assert searcher._inner.n_asked == 3  # type: ignore[attr-defined]
