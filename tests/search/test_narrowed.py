"""A search over some knobs: the others are held, and trials of other places are told with noise, or not at all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, cast

import pytest

from trimtab.records import Context, Role, Status, Trial
from trimtab.search import GuardedSearcher, Searcher, SearchProblem, create
from trimtab.search.narrowed import NarrowedSearcher
from trimtab.space import Config, Constraint, Knob, KnobKind, Space

NAMES = ("a", "b", "c", "d")
SPACE = Space(
    [Knob(name=name, kind=KnobKind.REAL, low=0.0, high=1.0, default=0.0) for name in NAMES],
    [Constraint("a + c <= 1.2")],
)
BASELINE = SPACE.default()
HELD = Config({"a": 0.0, "b": 0.0, "c": 0.7, "d": 0.3})


class Noted:
    """A searcher that notes what it is made with and told."""

    is_exhausted = is_converged = False
    made: ClassVar[list[Noted]] = []

    def __init__(self, problem: SearchProblem) -> None:
        self.problem, self.told = problem, list[Trial]()
        self.inner = create("random", replace(problem, options={}))
        Noted.made.append(self)

    def ask(self, n: int = 1) -> list[Config]:
        return self.inner.ask(n)

    def tell(self, trial: Trial) -> None:
        self.told.append(trial)
        self.inner.tell(trial)

    def best(self) -> Trial | None:
        return self.inner.best()


def narrowed(spread: float | None = None, **more: Any) -> tuple[NarrowedSearcher, Noted]:
    problem = SearchProblem(
        space=SPACE, baseline=BASELINE, advice=[Config({"a": 0.9, "b": 0.5, "c": 0.1, "d": 0.9})],
        options={"ranges": {"a": 1, "d": 2}, "levels": 3},
    )  # fmt: skip
    found = NarrowedSearcher(problem, ("a", "b"), HELD, Noted, budget_trials=7, spread=spread, **more)
    return found, Noted.made[-1]


def trial(config: Config, loss: float | None = -0.1, status: Status = Status.OK) -> Trial:
    return Trial(
        number=1, role=Role.SEARCH, config=config, context=Context("any", 1), status=status, loss=loss, loss_se=0.03
    )


def test_the_other_knobs_are_as_they_are_held_and_constraints_over_all_hold() -> None:
    searcher, _ = narrowed()
    asked = searcher.ask(40)
    assert all((config["c"], config["d"]) == (0.7, 0.3) for config in asked)
    assert all(SPACE.is_feasible(config) for config in asked)
    assert len({config["a"] for config in asked}) > 20
    assert max(float(config["a"]) for config in asked) <= 0.5


def test_a_held_knob_that_has_no_effect_with_what_is_asked_breaks_no_constraint() -> None:
    """Without its switch `part` is at its default of 0.9, and not at 0.1 as it is held."""
    space = Space(
        [
            Knob(name="on", kind=KnobKind.BOOLEAN, default=True),
            Knob(name="a", kind=KnobKind.REAL, low=0.0, high=1.0, default=0.0),
            Knob(name="part", kind=KnobKind.REAL, low=0.0, high=1.0, default=0.9, condition="on"),
        ],
        [Constraint("a + part <= 1.0")],
    )
    held = Config({"on": True, "a": 0.0, "part": 0.1})
    problem = SearchProblem(space=space, baseline=space.default())
    searcher = NarrowedSearcher(problem, ("on", "a"), held, Noted, budget_trials=9, spread=None)
    asked = searcher.ask(40)
    assert all(space.is_feasible(config) for config in asked)
    assert {config["on"] for config in asked} == {True, False}
    assert {each.status for each in Noted.made[-1].told} == {Status.INFEASIBLE}
    assert asked == NarrowedSearcher(problem, ("on", "a"), held, Noted, budget_trials=9, spread=None).ask(40)
    hopeless = replace(problem, space=Space(list(space.knobs.values()), [Constraint("part <= 0.5")]))
    only_off = NarrowedSearcher(hopeless, ("on",), held, Noted, budget_trials=9, spread=None)
    assert all(hopeless.space.is_feasible(config) for config in only_off.ask(3))
    waited_for = cast(GuardedSearcher, Noted.made[-1].inner).inner.pending  # type: ignore[attr-defined]
    assert set(waited_for) == {Config({"on": True})}, "what was refused is never measured"


def test_the_searcher_within_knows_only_its_own_part_of_the_problem() -> None:
    _, inner = narrowed()
    assert set(inner.problem.space.knobs) == {"a", "b"}
    assert inner.problem.baseline == Config({"a": 0.0, "b": 0.0})
    (advice,) = inner.problem.advice
    assert float(advice["a"]) <= 0.5
    assert advice["b"] == 0.5
    assert inner.problem.budget_trials == 7
    assert inner.problem.options == {"ranges": {"a": 1}, "levels": 3}


def test_a_trial_beside_the_held_knobs_is_told_as_it_is() -> None:
    searcher, inner = narrowed()
    searcher.tell(trial(HELD.replace({"a": 0.4})))
    (told,) = inner.told
    assert told.config == Config({"a": 0.4, "b": 0.0})
    assert (told.loss, told.loss_se) == (-0.1, 0.03)
    best = searcher.best()
    assert best is not None
    assert best.config == HELD.replace({"a": 0.4})


def test_a_trial_of_another_place_is_told_with_noise_or_not_at_all() -> None:
    elsewhere = HELD.replace({"a": 0.4, "d": 0.9})
    searcher, inner = narrowed(spread=0.04)
    searcher.tell(trial(HELD, 0.0))
    searcher.tell(trial(elsewhere))
    (_, told) = inner.told
    assert told.loss_se == pytest.approx(0.05)
    searcher.tell(trial(elsewhere, None, Status.CRASHED))
    assert len(inner.told) == 2  # who is to blame, the knobs inside or those outside, is not known
    silent, inner = narrowed()
    silent.tell(trial(elsewhere))
    assert inner.told == []


def test_a_constraint_that_other_values_of_the_held_knobs_meet_is_not_met() -> None:
    """What meets it may be a knob that is not searched: such trials are told after one beside the held knobs has met it."""
    elsewhere = HELD.replace({"a": 0.4, "d": 0.9})
    searcher, inner = narrowed(spread=0.04)
    searcher.tell(trial(elsewhere, -0.5))
    searcher.tell(replace(trial(HELD, 0.0), excess=0.2))
    assert [(told.loss, told.is_feasible) for told in inner.told] == [(0.0, False)]
    searcher.tell(trial(HELD.replace({"b": 0.6}), -0.2))
    searcher.tell(trial(elsewhere, -0.4))
    assert [told.loss for told in inner.told] == [0.0, -0.2, -0.5, -0.4]


def test_a_crash_in_the_searched_knobs_is_told() -> None:
    searcher, inner = narrowed()
    searcher.tell(trial(HELD.replace({"b": 0.9}), None, Status.CRASHED))
    assert [each.status for each in inner.told] == [Status.CRASHED]


def test_a_baseline_outside_the_space_counts_as_held_where_it_was_repaired() -> None:
    odd = HELD.replace({"d": 0.31})
    searcher, inner = narrowed(same_as_held=odd)
    searcher.tell(trial(odd, 0.0))
    assert [each.loss_se for each in inner.told] == [0.03]


def test_it_is_a_searcher() -> None:
    searcher, _ = narrowed()
    assert isinstance(searcher, Searcher)
    assert not searcher.is_exhausted
    assert not searcher.is_converged
