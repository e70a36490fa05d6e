"""The conformance suite of rankers: a plug-in author subclasses it, names the class, and pytest runs every check.

    class TestMyRanker(RankerSuite):
        ranker_class = MyRanker

Trials come from a design (`design`) on a space of mixed knobs, in which one knob matters far more than another, which
matters more than the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from trimtab.errors import UsageError
from trimtab.importance import Ranker, Ranking, RankProblem, make_design
from trimtab.records import Context, Role, Status, Trial
from trimtab.space import Config, Constraint, Knob, KnobKind, Space

__all__ = ["RankerSuite", "mixed_space", "planted_loss", "planted_problem"]

CONTEXT = Context(workload="conformance suite", clients=1)
_NOISE = 0.03
_STRONG, _WEAK = "strong", "weak"


def mixed_space(constraints: Sequence[Constraint] = (), *, constant: bool = False) -> Space:
    """Eight knobs of every kind; with `constant`, a ninth that has one value only."""
    knobs = [
        Knob(name=_STRONG, kind=KnobKind.INTEGER, low=16, high=16384, log=True, default=128),
        Knob(name=_WEAK, kind=KnobKind.BOOLEAN, default=False),
        Knob(name="real", kind=KnobKind.REAL, low=0.5, high=8.0, default=4.0),
        Knob(name="special", kind=KnobKind.INTEGER, low=10, high=1000, default=100, special=(0, -1)),
        Knob(name="choice", kind=KnobKind.CHOICE, choices=("none", "some", "all"), default="some"),
        Knob(name="stepped", kind=KnobKind.INTEGER, low=0, high=960, step=32, default=64),
        Knob(name="ordinal", kind=KnobKind.ORDINAL, choices=("low", "mid", "high"), default="low"),
        Knob(name="deep", kind=KnobKind.INTEGER, low=1, high=50, default=10, condition="choice != 'none'"),
    ]
    one = [Knob(name="constant", kind=KnobKind.INTEGER, low=5, high=5, default=5)] if constant else []
    return Space([*knobs, *one], constraints)


def planted_loss(space: Space, config: Config) -> float:
    """Falls along `strong` by 0.9 from end to end, and by 0.25 where `weak` is on."""
    x = space.features([config])[0][space.feature_slices[_STRONG]][0]
    return -0.9 * float(x) - 0.25 * bool(config[_WEAK])


def planted_problem(
    space: Space,
    configs: Sequence[Config],
    loss: Callable[[Space, Config], float] = planted_loss,
    noise: float = _NOISE,
    seed: int = 1,
) -> RankProblem:
    """The configs measured once each, with noise."""
    rng = np.random.default_rng([seed, 61])
    trials = [
        Trial(
            number=i, role=Role.DESIGN, config=config, context=CONTEXT, status=Status.OK,
            loss=loss(space, config) + float(rng.normal(0.0, noise)), loss_se=noise,
        )
        for i, config in enumerate(configs)
    ]  # fmt: skip
    baseline = space.repair(space.default())
    return RankProblem(space=space, baseline=baseline, trials=trials, seed=seed, n_bootstrap=8)


_usual: dict[type, Ranking] = {}
"""See `RankerSuite.usual`."""


class RankerSuite:
    """What every ranker promises (`trimtab.importance.Ranker`), as tests.

    Attributes:
        ranker_class: the class under test, constructed without arguments.
        design: kind of the design that the trials come from (`make_design`).
        runs: of it; None: as many as it needs.
    """

    ranker_class: ClassVar[Callable[[], Ranker]]
    design: ClassVar[str] = "lhs"
    runs: ClassVar[int | None] = 60

    def problem(self, space: Space | None = None, seed: int = 1) -> RankProblem:
        """The planted problem on `space`."""
        space = mixed_space() if space is None else space
        baseline = space.repair(space.default())
        return planted_problem(space, make_design(self.design, space, baseline, self.runs, seed).configs, seed=seed)

    def rank(self, problem: RankProblem) -> Ranking:
        """What a fresh instance says."""
        return type(self).ranker_class().rank(problem)

    def usual(self) -> Ranking:
        """What a fresh instance says of the planted problem; asked once in a process, and compared with later answers."""
        if type(self) not in _usual:
            _usual[type(self)] = self.rank(self.problem())
        return _usual[type(self)]

    def check(self, problem: RankProblem, ranking: Ranking) -> None:
        """Every knob once, most important first, shares of 1, and intervals that hold their values."""
        assert sorted(ranking.names) == sorted(problem.space.knobs)
        assert [entry.rank for entry in ranking.knobs] == sorted(entry.rank for entry in ranking.knobs)
        total = sum(entry.score for entry in ranking.knobs)
        assert total == pytest.approx(1.0) or total == 0.0
        n = len(ranking.knobs)
        assert sum(entry.rank for entry in ranking.knobs) == pytest.approx(n * (n + 1) / 2)
        for entry in ranking.knobs:
            assert 0.0 <= entry.score_low <= entry.score <= entry.score_high <= 1.0
            assert 1.0 <= entry.rank_low <= entry.rank <= entry.rank_high <= n
        assert all(math.isfinite(value) for value in ranking.effects.values())

    def test_follows_protocol(self) -> None:
        ranker = type(self).ranker_class()
        assert isinstance(ranker, Ranker)
        assert ranker.name
        problem, ranking = self.problem(), self.usual()
        assert ranking.ranker == ranker.name
        assert ranking.n_trials == len(problem.trials)
        self.check(problem, ranking)

    def test_finds_what_was_planted(self) -> None:
        ranking = self.usual()
        assert ranking.names[:2] == (_STRONG, _WEAK)
        assert ranking.verdict == ""
        assert ranking.knobs[0].rank_high < ranking.knobs[-1].rank_low

    def test_is_deterministic_and_changes_nothing(self) -> None:
        problem = self.problem()
        before = tuple(problem.trials)
        assert self.rank(problem) == self.usual()
        assert tuple(problem.trials) == before

    def test_order_of_trials_does_not_matter(self) -> None:
        problem = self.problem()
        first, second = self.usual(), self.rank(replace(problem, trials=list(reversed(problem.trials))))
        assert {e.knob: e.score for e in second.knobs} == pytest.approx({e.knob: e.score for e in first.knobs})

    def test_ranks_constrained_space(self) -> None:
        problem = self.problem(mixed_space([Constraint("strong + special <= 12000", name="budget")]))
        self.check(problem, self.rank(problem))

    def test_constant_knob_scores_nothing(self) -> None:
        problem = self.problem(mixed_space(constant=True))
        ranking = self.rank(problem)
        self.check(problem, ranking)
        assert {e.knob: e.score for e in ranking.knobs}["constant"] == 0.0
        assert any("constant" in note for note in ranking.notes)

    def test_knob_never_varied_scores_nothing(self) -> None:
        problem = self.problem()
        own = problem.baseline["real"]
        held = replace(problem, trials=[replace(t, config=t.config.replace({"real": own})) for t in problem.trials])
        ranking = self.rank(held)
        self.check(held, ranking)
        assert {e.knob: e.score for e in ranking.knobs}["real"] == 0.0
        assert any("real" in note for note in ranking.notes)

    def test_failures_teach_nothing_of_the_objective(self) -> None:
        problem = self.problem()
        failed = [
            replace(trial, number=1000 + i, status=status, loss=-9.0)
            for i, (trial, status) in enumerate(
                zip(problem.trials, (Status.CRASHED, Status.INFRASTRUCTURE) * 4, strict=False)
            )
        ]
        first, second = self.usual(), self.rank(replace(problem, trials=[*failed, *problem.trials]))
        assert second.knobs == first.knobs
        assert any("8 of" in note and "failed" in note for note in second.notes)

    def test_stopped_early_counts(self) -> None:
        problem = self.problem()
        trials = [replace(t, status=Status.STOPPED_EARLY) if t.number % 3 else t for t in problem.trials]
        assert self.rank(replace(problem, trials=trials)).knobs == self.usual().knobs

    @pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf, None])
    def test_no_finite_loss_is_left_out(self, loss: float | None) -> None:
        problem = self.problem()
        strange = replace(problem.trials[0], number=1000, loss=loss)
        assert self.rank(replace(problem, trials=[strange, *problem.trials])).knobs == self.usual().knobs

    def test_the_same_trial_twice_counts_once(self) -> None:
        problem = self.problem()
        assert self.rank(replace(problem, trials=[*problem.trials, *problem.trials])).knobs == self.usual().knobs

    def test_noise_is_called_noise(self) -> None:
        """In most of three problems without any effect; a test at 95 % may be wrong once."""
        space, doubts = mixed_space(), 0
        for seed in range(1, 4):
            configs = make_design(self.design, space, space.default(), self.runs, seed).configs
            problem = planted_problem(space, configs, lambda _, __: 0.0, noise=0.05, seed=seed)
            doubts += self.rank(problem).verdict.startswith("not enough data to tell")
        assert doubts >= 2

    def test_all_alike_is_no_effect(self) -> None:
        problem = self.problem()
        ranking = self.rank(replace(problem, trials=[replace(t, loss=0.25) for t in problem.trials]))
        self.check(problem, ranking)
        assert ranking.verdict.startswith("not enough data to tell")
        assert all(entry.score == 0.0 for entry in ranking.knobs)

    def test_refuses_what_cannot_be_ranked(self) -> None:
        problem = self.problem()
        same = [replace(trial, config=problem.baseline) for trial in problem.trials]
        crashed = [replace(trial, status=Status.CRASHED, loss=None) for trial in problem.trials]
        foreign = replace(problem.trials[0], config=Config({"other": 1}))
        for trials in ([], problem.trials[:3], same, crashed, [*problem.trials, foreign]):
            with pytest.raises(UsageError):
                self.rank(replace(problem, trials=trials))
