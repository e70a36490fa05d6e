"""The conformance suite of searchers: a plug-in author subclasses it, names the class, and pytest runs every check.

    class TestMySearcher(SearcherSuite):
        searcher_class = MySearcher

Every check drives the searcher the way a study does: it asks, answers with trials, and sometimes answers late, twice,
or with failures. `PROBLEMS` are the spaces it is driven on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pytest

from trimtab.errors import SpaceError, UsageError
from trimtab.records import Context, Role, Status, Trial
from trimtab.search import Searcher, SearchProblem
from trimtab.space import Config, Constraint, Knob, KnobKind, RestartClass, Space

__all__ = ["PROBLEMS", "SearcherSuite", "measured", "mixed_knobs"]

CONTEXT = Context(workload="conformance suite", clients=1)
_SE = 0.02


def mixed_knobs(n: int) -> list[Knob]:
    """`n` knobs of every kind, some on a log scale, with a step, with special values, or needing a restart."""
    kinds: list[Mapping[str, Any]] = [
        {
            "kind": KnobKind.INTEGER,
            "low": 16,
            "high": 16384,
            "log": True,
            "default": 128,
            "restart": RestartClass.RESTART,
        },
        {"kind": KnobKind.INTEGER, "low": 1, "high": 64, "default": 8},
        {"kind": KnobKind.REAL, "low": 0.5, "high": 8.0, "default": 4.0},
        {"kind": KnobKind.BOOLEAN, "default": True},
        {"kind": KnobKind.INTEGER, "low": 10, "high": 1000, "default": 0, "special": (0, -1)},
        {"kind": KnobKind.CHOICE, "choices": ("none", "some", "all"), "default": "some"},
        {"kind": KnobKind.INTEGER, "low": 0, "high": 960, "step": 32, "default": 64},
        {"kind": KnobKind.ORDINAL, "choices": ("low", "mid", "high"), "default": "low"},
    ]
    return [Knob(name=f"knob_{i:02d}", **kinds[i % len(kinds)]) for i in range(n)]


@cache
def _mixed() -> Space:
    return Space(mixed_knobs(8))


@cache
def _constrained() -> Space:
    return Space(
        mixed_knobs(9), [Constraint("knob_00 + knob_08 <= 1000", name="budget"), Constraint("knob_01 >= knob_02")]
    )


@cache
def _conditional() -> Space:
    inner = Knob(name="depth", kind=KnobKind.INTEGER, low=1, high=50, default=10, condition="mode == 'deep'")
    mode = Knob(name="mode", kind=KnobKind.CHOICE, choices=("flat", "deep"), default="flat")
    return Space([mode, inner, *mixed_knobs(3)])


@cache
def _tiny() -> Space:
    on = Knob(name="on", kind=KnobKind.BOOLEAN, default=False)
    return Space([on, Knob(name="level", kind=KnobKind.INTEGER, low=1, high=3, default=1)])


@cache
def _single() -> Space:
    return Space([Knob(name="fixed", kind=KnobKind.INTEGER, low=5, high=5, default=5)])


@cache
def _empty() -> Space:
    return Space([])


PROBLEMS: Mapping[str, Callable[[], Space]] = {
    "mixed": _mixed,
    "constrained": _constrained,
    "conditional": _conditional,
    "tiny": _tiny,
    "single": _single,
    "empty": _empty,
}
"""Name -> factory of the space; "tiny" has six configs, "single" one, and "empty" has no knobs, so one config as well.
Each is made once and shared: a space is immutable."""


def measured(space: Space, config: Config, number: int, **changes: Any) -> Trial:
    """An ok trial whose loss is smooth in the config's features, with a little noise that depends on `number` only."""
    features = space.features([config])[0]
    noise = float(np.random.default_rng([7, number]).normal(0.0, _SE))
    loss = float(((features - 0.7) ** 2).sum()) + noise
    values: dict[str, Any] = {"status": Status.OK, "loss": loss, "loss_se": _SE, **changes}
    return Trial(number=number, role=Role.SEARCH, config=config, context=CONTEXT, **values)


def failed(space: Space, config: Config, number: int) -> Trial:
    """A trial with which the target did not start."""
    return measured(space, config, number, status=Status.CRASHED, loss=None, loss_se=None)


def some_fail(space: Space, config: Config, number: int) -> Trial:
    """Every fifth trial fails, the others are measured."""
    return failed(space, config, number) if number % 5 == 4 else measured(space, config, number)


Answer = Callable[[Space, Config, int], Trial]

_usual: dict[tuple[type, int], tuple[Space, list[Config]]] = {}
"""See `SearcherSuite.usual`; each entry keeps its space, so that the key stays its own."""


class SearcherSuite:
    """What every searcher promises (`trimtab.search.Searcher`), as tests.

    Attributes:
        searcher_class: the class under test, constructed as `searcher_class(problem)`.
        options: options that every instance gets.
        n_trials: how many trials a check drives it through, mostly; fewer where an ask takes long, 8 at least.
    """

    searcher_class: ClassVar[Callable[[SearchProblem], Searcher]]
    options: ClassVar[Mapping[str, Any]] = {}
    n_trials: ClassVar[int] = 16

    @pytest.fixture(params=sorted(PROBLEMS))
    def space(self, request: pytest.FixtureRequest) -> Space:
        """Each of the spaces in turn."""
        return PROBLEMS[request.param]()

    def problem(self, space: Space, seed: int = 1, budget: int | None = None) -> SearchProblem:
        """A problem on `space` with one piece of advice."""
        baseline = space.repair(space.default())
        advice = tuple(space.sample(1, np.random.default_rng(11)))
        return SearchProblem(
            space=space, baseline=baseline, advice=advice, seed=seed, budget_trials=budget, options=self.options
        )

    def make(self, space: Space, **changes: Any) -> Searcher:
        """A fresh searcher on `space`."""
        return type(self).searcher_class(self.problem(space, **changes))

    def drive(
        self, searcher: Searcher, space: Space, n: int, answer: Answer = measured, start: int = 0
    ) -> list[Config]:
        """Asks and answers `n` times, one at a time; the configs asked."""
        asked = []
        for number in range(start, start + n):
            config = searcher.ask()[0]
            searcher.tell(answer(space, config, number))
            asked.append(config)
        return asked

    def usual(self, space: Space) -> list[Config]:
        """What a fresh searcher asks in `n_trials` measured trials; driven once in a process, and compared with later drives."""
        key = type(self), id(space)
        if key not in _usual:
            _usual[key] = space, self.drive(self.make(space), space, self.n_trials)
        return _usual[key][1]

    def check(self, space: Space, configs: list[Config]) -> None:
        """All `configs` are valid, canonical and feasible."""
        for config in configs:
            assert space.validate(config) == config
            assert space.canonical(config) == config
            assert space.is_feasible(config), space.violations(config)

    def test_follows_protocol(self, space: Space) -> None:
        searcher = self.make(space)
        assert isinstance(searcher, Searcher)
        assert searcher.best() is None
        assert searcher.is_converged in (True, False)
        assert searcher.is_exhausted in (True, False)

    def test_asks_feasible(self, space: Space) -> None:
        self.check(space, self.usual(space))

    def test_asks_within_short_budget(self, space: Space) -> None:
        self.check(space, self.drive(self.make(space, budget=6), space, 8))

    def test_is_deterministic(self, space: Space) -> None:
        assert self.drive(self.make(space), space, self.n_trials) == self.usual(space)

    def test_seed_matters(self) -> None:
        space = _mixed()
        assert self.drive(self.make(space, seed=2), space, self.n_trials) != self.usual(space)

    def test_batch_differs_and_is_feasible(self, space: Space) -> None:
        searcher = self.make(space)
        self.drive(searcher, space, 3)
        configs = searcher.ask(5)
        assert len(configs) == 5
        self.check(space, configs)
        assert len(set(configs)) == min(5, _n_feasible(space))

    def test_pending_are_not_asked_again(self, space: Space) -> None:
        searcher = self.make(space)
        pending = [searcher.ask()[0] for _ in range(4)]
        assert len(set(pending)) == min(4, _n_feasible(space))

    def test_pending_are_not_asked_while_others_are_told(self) -> None:
        """Trials of other configs, and the wait, do not make a searcher forget what it asked for."""
        space = _mixed()
        searcher = self.make(space)
        self.drive(searcher, space, 4)
        pending = searcher.ask(3)
        for number in range(4, self.n_trials):
            config = searcher.ask()[0]
            assert config not in pending
            searcher.tell(measured(space, config, number))

    def test_batches_go_on(self, space: Space) -> None:
        """Batch after batch, each answered as a whole and backwards: feasible, and different while there is a choice."""
        searcher = self.make(space)
        for start in range(0, self.n_trials, 4):
            configs = searcher.ask(4)
            self.check(space, configs)
            assert len(set(configs)) == min(4, _n_feasible(space))
            for place, config in reversed(list(enumerate(configs))):
                searcher.tell(some_fail(space, config, start + place))

    def test_answers_out_of_order(self, space: Space) -> None:
        searcher = self.make(space)
        waiting = searcher.ask(4)
        for number in range(self.n_trials):
            searcher.tell(measured(space, waiting.pop(number % len(waiting)), number))
            waiting += searcher.ask()
        self.check(space, waiting)

    def test_survives_when_everything_crashes(self, space: Space) -> None:
        searcher = self.make(space)
        self.check(space, self.drive(searcher, space, self.n_trials, failed))
        assert searcher.best() is None

    def test_survives_every_other_crash(self, space: Space) -> None:
        searcher = self.make(space)

        def answer(space: Space, config: Config, number: int) -> Trial:
            return failed(space, config, number) if number % 2 else measured(space, config, number)

        self.check(space, self.drive(searcher, space, self.n_trials, answer))
        self.check(space, searcher.ask(2))

    @pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf, None])
    def test_no_finite_loss_is_a_failure(self, loss: float | None) -> None:
        space = _mixed()
        searcher = self.make(space)

        def answer(space: Space, config: Config, number: int) -> Trial:
            return measured(space, config, number, loss=loss) if number % 3 else measured(space, config, number)

        self.check(space, self.drive(searcher, space, self.n_trials, answer))
        best = searcher.best()
        assert best is not None
        assert best.loss is not None
        assert math.isfinite(best.loss)

    def test_infrastructure_teaches_nothing(self) -> None:
        space = _mixed()
        searcher = self.make(space)

        def answer(space: Space, config: Config, number: int) -> Trial:
            return measured(space, config, number, status=Status.INFRASTRUCTURE, loss=-99.0)

        self.check(space, self.drive(searcher, space, 6, answer))
        assert searcher.best() is None

    def test_resumes_after_a_replay(self) -> None:
        """A fresh instance with the same asks and answers goes on with the same next config, failures included.

        After any number of trials: the replay compares what is asked after each of them. All that is asked is feasible.
        """
        space = _constrained()
        whole = self.drive(self.make(space), space, self.n_trials + 1, some_fail)
        self.check(space, whole)
        resumed = self.make(space)
        assert self.drive(resumed, space, self.n_trials, some_fail) == whole[:-1]
        assert resumed.ask() == [whole[-1]]

    def test_resumes_in_the_middle_of_a_batch(self) -> None:
        """What was asked and not told when the study died is pending again after the same asks."""
        space = _constrained()

        def until_it_died() -> tuple[Searcher, list[Config]]:
            searcher = self.make(space)
            asked = self.drive(searcher, space, 5)
            waiting = searcher.ask(4)
            for number, config in enumerate(waiting[::2], start=5):
                searcher.tell(measured(space, config, number))
            return searcher, asked + waiting

        first, asked = until_it_died()
        second, asked_again = until_it_died()
        assert asked_again == asked
        assert second.ask(3) == first.ask(3)

    def test_the_same_trial_told_twice_changes_nothing(self) -> None:
        space = _mixed()

        def twice(space: Space, searcher: Searcher) -> list[Config]:
            asked = []
            for number in range(self.n_trials):
                asked += searcher.ask()
                for _ in range(2):
                    searcher.tell(measured(space, asked[-1], number))
            return asked

        assert twice(space, self.make(space)) == self.usual(space)

    def test_learns_from_configs_never_asked(self, space: Space) -> None:
        searcher = self.make(space)
        strangers = space.sample(6, np.random.default_rng(5))
        for number, config in enumerate(strangers):
            searcher.tell(measured(space, config, number, loss=-5.0 - number))
        best = searcher.best()
        assert best is not None
        assert best.config == space.canonical(best.config)
        assert best.config in strangers
        self.check(space, self.drive(searcher, space, 4, start=10))

    def test_ignores_what_is_no_config_of_the_space(self) -> None:
        space = _mixed()
        searcher = self.make(space)
        foreign = Config({**space.default(), "knob_01": 10_000_000})
        searcher.tell(
            Trial(number=0, role=Role.SEARCH, config=foreign, context=CONTEXT, status=Status.OK, loss=-9.0, loss_se=_SE)
        )
        assert searcher.best() is None
        self.check(space, self.drive(searcher, space, 4, start=1))

    def test_best_averages_repeats(self) -> None:
        """A lucky measurement loses its place when repeats show that it was luck."""
        space = _mixed()
        searcher = self.make(space)
        lucky, solid = space.sample(2, np.random.default_rng(3))
        searcher.tell(measured(space, lucky, 0, loss=-1.0))
        searcher.tell(measured(space, solid, 1, loss=-0.8))
        first = searcher.best()
        assert first is not None
        assert first.config == lucky
        for number in (2, 3):
            searcher.tell(measured(space, lucky, number, loss=-0.5))
        last = searcher.best()
        assert last is not None
        assert last.config == solid

    def test_best_meets_constraints_of_the_objective(self) -> None:
        space = _mixed()
        searcher = self.make(space)
        fast, safe = space.sample(2, np.random.default_rng(3))
        searcher.tell(measured(space, fast, 0, loss=-2.0, excess=0.3))
        assert searcher.best() is None
        searcher.tell(measured(space, safe, 1, loss=0.5))
        best = searcher.best()
        assert best is not None
        assert best.config == safe
        self.check(space, self.drive(searcher, space, 6, start=2))

    def test_runs_dry_without_failing(self) -> None:
        """Every config of a small space gets asked, and asking goes on to work."""
        space = _tiny()
        searcher = self.make(space)
        asked = self.drive(searcher, space, 20)
        assert len(set(asked)) == 6
        assert searcher.is_exhausted

    @pytest.mark.parametrize("name", ["single", "empty"])
    def test_one_config_is_asked_and_then_nothing_is_left(self, name: str) -> None:
        space = PROBLEMS[name]()
        searcher = self.make(space)
        assert set(self.drive(searcher, space, 3)) == {space.default()}
        assert searcher.is_exhausted
        best = searcher.best()
        assert best is not None
        assert best.config == space.default()

    def test_contradictory_constraints_are_named(self) -> None:
        """Not later than with the first ask."""
        space = Space(mixed_knobs(3), [Constraint("knob_01 >= 40", name="floor"), Constraint("knob_01 <= 20")])
        problem = SearchProblem(space=space, baseline=space.default(), options=self.options)
        with pytest.raises(SpaceError, match=r"contradict each other: floor \(knob_01 >= 40\); knob_01 <= 20"):
            type(self).searcher_class(problem).ask()

    def test_unknown_option_is_named(self) -> None:
        problem = self.problem(_mixed())
        options = {**problem.options, "no_such_option": 1}
        wrong = SearchProblem(space=problem.space, baseline=problem.baseline, options=options)
        with pytest.raises(UsageError, match="unknown option no_such_option=1") as caught:
            type(self).searcher_class(wrong)
        known = getattr(type(self).searcher_class, "OPTIONS")  # noqa: B009
        assert all(name in str(caught.value.hint) for name in known)

    def test_options_are_described(self) -> None:
        known = getattr(type(self).searcher_class, "OPTIONS")  # noqa: B009
        for name, (_, text) in known.items():
            assert text, f"option {name} has no help"
            assert "\n" not in text


def _n_feasible(space: Space) -> float:
    """How many configs a small space has; infinite for others."""
    return space.size() if space.size() <= 6 else math.inf
