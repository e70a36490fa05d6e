"""What each ranker computes, on problems whose answer is known exactly."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

from tests.importance.problems import flat_space, sampled
from trimtab.errors import UsageError
from trimtab.importance import RankProblem, sard_design
from trimtab.importance.fanova import FanovaRanker, _of_tree
from trimtab.importance.forest import ForestRanker
from trimtab.importance.lasso import LassoRanker
from trimtab.importance.permutation import PermutationRanker
from trimtab.importance.sard import SardRanker, has_two_levels
from trimtab.importance.shapley import ShapleyRanker, shapley_values
from trimtab.records import Role, Status
from trimtab.space import Config, Knob, KnobKind, Space
from trimtab.testing.ranker_suite import planted_problem

pytestmark = pytest.mark.slow

MODELS = (FanovaRanker, ForestRanker, LassoRanker, PermutationRanker)


def designed(loss, n: int = 7, noise: float = 0.0, fold_over: bool = True) -> RankProblem:
    """SARD's design of n reals, measured."""
    space = flat_space(n)
    configs = sard_design(space, space.default(), fold_over=fold_over).configs
    return planted_problem(space, configs, lambda _, config: loss(config), noise)


def test_sard_finds_effects_exactly_beside_interactions() -> None:
    problem = designed(lambda c: 0.5 * c["a"] - 0.2 * c["b"] + 0.3 * (c["c"] - 0.5) * (c["d"] - 0.5))
    ranking = SardRanker().rank(problem)
    assert ranking.effects == pytest.approx({"a": 0.5, "b": -0.2, "c": 0, "d": 0, "e": 0, "f": 0, "g": 0}, abs=1e-9)
    assert ranking.knobs[0].score == pytest.approx(0.25 / 0.29)
    assert "Main effects are free of two-factor interactions (fold-over)." in ranking.notes


def test_sard_without_fold_over_says_that_pairs_mix_in() -> None:
    problem = designed(lambda c: 0.5 * c["a"] + 0.3 * (c["c"] - 0.5) * (c["d"] - 0.5), fold_over=False)
    ranking = SardRanker().rank(problem)
    assert max(abs(ranking.effects[name]) for name in "befg") > 0.05
    assert any("aliased with two-factor interactions" in note for note in ranking.notes)


def test_sard_ranks_knobs_that_have_no_effect_under_some_levels_of_others() -> None:
    """In half of the runs `first` is at neither level, and in half of them `second`: the design is one all the same."""
    space = Space(
        [
            *flat_space(7).knobs.values(),
            Knob(name="gate", kind=KnobKind.BOOLEAN, default=True),
            Knob(name="other_gate", kind=KnobKind.BOOLEAN, default=True),
            Knob(name="first", kind=KnobKind.REAL, low=0.0, high=1.0, default=0.3, condition="gate"),
            Knob(name="second", kind=KnobKind.REAL, low=0.0, high=1.0, default=0.3, condition="other_gate"),
        ]
    )
    configs = sard_design(space, space.default()).configs

    def loss(_: Space, config: Config) -> float:
        return 0.5 * config["a"] + 0.3 * (config["first"] - 0.5) * config["gate"] + 0.2 * config["b"] * config["c"]

    problem = planted_problem(space, configs, loss, 0.0)
    assert has_two_levels(problem)
    ranking = SardRanker().rank(problem)
    but = "except for those of first, second, which some runs have at neither level."
    assert f"Main effects are free of two-factor interactions (fold-over), {but}" in ranking.notes
    assert not any("A constraint moved" in note for note in ranking.notes)
    assert ranking.effects["a"] == pytest.approx(0.5, abs=1e-9)
    assert ranking.effects["first"] == pytest.approx(0.3, abs=1e-9)
    assert ranking.effects["second"] == pytest.approx(0.0, abs=1e-9)


def test_sard_goes_on_when_runs_fail() -> None:
    problem = designed(lambda c: 0.5 * c["a"] - 0.2 * c["b"], noise=0.01)
    trials = [replace(t, status=Status.CRASHED, loss=None) if t.number == 3 else t for t in problem.trials]
    ranking = SardRanker().rank(replace(problem, trials=trials))
    assert ranking.names[:2] == ("a", "b")
    assert ranking.effects["a"] == pytest.approx(0.5, abs=0.05)
    assert any(note.startswith("1 of 16 trials failed") for note in ranking.notes)


@pytest.mark.parametrize("unknown", [None, math.nan, math.inf])
def test_sard_ranks_runs_whose_own_error_is_not_known(unknown: float | None) -> None:
    """As those of an imported study may be."""
    problem = designed(lambda c: 0.5 * c["a"] - 0.2 * c["b"], noise=0.001)
    trials = [replace(t, loss_se=unknown) if t.number == 3 else t for t in problem.trials]
    ranking = SardRanker().rank(replace(problem, trials=trials))
    assert (ranking.names[:2], ranking.verdict) == (("a", "b"), "")
    assert ranking.knobs[0].score_low > 0.5


def test_sard_takes_the_design_out_of_a_study() -> None:
    """Other trials are left alone, and levels that are not the ends of the ranges are recognised."""
    problem = designed(lambda c: 0.5 * c["a"] - 0.2 * c["b"], noise=0.001)
    others = [
        replace(t, number=100 + t.number, role=Role.SEARCH) for t in sampled(lambda c: 9.0, flat_space(7), 20).trials
    ]
    mixed = replace(problem, trials=[*problem.trials, *others])
    assert SardRanker().rank(mixed).effects["a"] == pytest.approx(0.5, abs=0.01)
    assert "Left out, no run of the two-level design: 20 measured trials." in SardRanker().rank(mixed).notes
    inner = [replace(t, config=Config({k: 0.3 + 0.4 * float(v) for k, v in t.config.items()})) for t in problem.trials]
    assert SardRanker().rank(replace(problem, trials=inner)).effects["a"] == pytest.approx(0.5, abs=0.01)


def test_sard_is_for_designs_only() -> None:
    switches = [Knob(name=f"s{i}", kind=KnobKind.BOOLEAN, default=False) for i in range(3)]
    space = Space([*flat_space(5).knobs.values(), *switches])
    problem = sampled(lambda c: float(c["a"]), space, 30)
    assert not has_two_levels(problem)
    assert has_two_levels(designed(lambda c: 0.0))
    with pytest.raises(UsageError, match="no two-level design among n_trials=30 measured trials"):
        SardRanker().rank(problem)


@pytest.mark.parametrize("ranker", MODELS)
def test_models_see_an_interaction_and_a_valley(ranker) -> None:
    """`a` and `b` only matter together, `c` is best in the middle: no line shows either."""
    problem = sampled(lambda c: 4 * (c["a"] - 0.5) * (c["b"] - 0.5) + 3 * (c["c"] - 0.5) ** 2, runs=120)
    ranking = ranker().rank(problem)
    assert set(ranking.names[:3]) == {"a", "b", "c"}


@pytest.mark.parametrize("ranker", MODELS)
def test_models_count_special_values_and_choices_to_their_knob(ranker) -> None:
    knobs = [
        Knob(name="off", kind=KnobKind.INTEGER, low=10, high=1000, default=100, special=(0,)),
        Knob(name="kind", kind=KnobKind.CHOICE, choices=("w", "x", "y", "z"), default="w"),
    ]
    space = Space([*flat_space(4).knobs.values(), *knobs])
    effect = {"w": 0.0, "x": 0.3, "y": -0.1, "z": 0.25}
    problem = sampled(lambda c: effect[c["kind"]] + 0.6 * (c["off"] == 0), space, 150)
    assert set(ranker().rank(problem).names[:2]) == {"off", "kind"}


def test_shapley_is_relative_to_the_baseline() -> None:
    """`b` moves the loss most, but the baseline has it right: `a` explains the gain."""
    problem = sampled(lambda c: 0.4 * c["a"] + 0.8 * c["b"], noise=0.01)
    problem = replace(problem, baseline=problem.baseline.replace({"a": 1.0, "b": 0.0}))
    ranking = ShapleyRanker().rank(problem)
    assert ranking.names[0] == "a"
    assert ranking.effects["a"] == pytest.approx(-0.4, abs=0.15)
    assert ranking.effects["b"] >= 0.0
    assert {e.knob: e.score for e in ranking.knobs}["b"] < 0.1
    assert PermutationRanker().rank(problem).names[0] == "b"


def test_shapley_adds_up_small_gains() -> None:
    """From the middle of its range each has 0.4 % to gain at most, and all together 1.6 %."""
    problem = sampled(lambda c: -0.008 * sum(c[name] for name in "abcd"), flat_space(4), 100, noise=0.0001)
    assert "better than the baseline" not in ShapleyRanker().rank(problem).verdict


def test_shapley_says_when_nothing_is_gained() -> None:
    problem = sampled(lambda c: 0.4 * c["a"] + 0.8 * c["b"], noise=0.01)
    best = problem.baseline.replace({"a": 0.0, "b": 0.0, "c": 0.0})
    ranking = ShapleyRanker().rank(replace(problem, baseline=best))
    assert ranking.verdict == "not enough data to tell: no config measured is expected to be better than the baseline"


@pytest.mark.parametrize("k", [1, 3, 6, 9])
def test_shapley_values_are_means_over_orders(k: int) -> None:
    """Exactly so for few parts; for many they still add up to the whole difference."""

    def predict(x: np.ndarray) -> np.ndarray:
        return np.asarray(x[:, 0] + 2 * x.prod(axis=1) + (x[:, -1] > 0.5) * x.sum(axis=1))

    start, end = np.zeros(k), np.ones(k)
    parts = [np.arange(k) == i for i in range(k)]
    found = shapley_values(predict, start, end, parts, np.random.default_rng(1))
    assert found.sum() == pytest.approx(float(predict(end[None])[0] - predict(start[None])[0]))
    if k <= 6:
        assert found == pytest.approx(_by_orders(predict, k))


def _by_orders(predict, k: int) -> np.ndarray:
    total = np.zeros(k)
    for order in permutations(range(k)):
        x = np.zeros(k)
        for i in order:
            before = predict(x[None])[0]
            x[i] = 1.0
            total[i] += predict(x[None])[0] - before
    return total / math.factorial(k)


def test_fanova_shares_are_those_of_the_function() -> None:
    """Of a + 2 b the variances are as 1 to 4."""
    ranking = FanovaRanker().rank(sampled(lambda c: c["a"] + 2 * c["b"], flat_space(3), 300, noise=0.0))
    scores = {entry.knob: entry.score for entry in ranking.knobs}
    assert scores["b"] == pytest.approx(0.8, abs=0.06)
    assert scores["a"] == pytest.approx(0.2, abs=0.06)


def test_fanova_leaves_out_what_three_knobs_do_together() -> None:
    """Main effects and pairs explain a part of the variance only; the rest is nobody's share."""
    grid = np.array(list(product((0.25, 0.75), repeat=3)))
    y = np.prod(grid - 0.5, axis=1) + 0.05 * (grid[:, 0] - 0.5)
    tree = DecisionTreeRegressor().fit(grid, y).tree_
    found = _of_tree(tree, 3)
    alone = 0.05**2 / 16
    whole = alone + 1 / 64**2
    assert found[0] == pytest.approx(alone / whole)
    assert found[1:] == pytest.approx([0, 0], abs=1e-12)


def test_intervals_narrow_with_more_data() -> None:
    widths = []
    for runs in (30, 300):
        knobs = LassoRanker().rank(sampled(lambda c: 0.3 * c["a"] + 0.2 * c["b"], runs=runs, noise=0.1)).knobs
        widths.append(sum(entry.rank_high - entry.rank_low for entry in knobs if entry.knob in "ab"))
    assert widths[1] < widths[0]


def test_a_sample_of_switches_and_few_numbers_is_no_design() -> None:
    """Four knobs of five are at an end in many configs of such a sample, all five hardly ever."""
    switches = [Knob(name=f"s{i}", kind=KnobKind.BOOLEAN, default=False) for i in range(4)]
    space = Space([*flat_space(1).knobs.values(), *switches])
    assert not has_two_levels(sampled(lambda c: float(c["a"]), space, 60))


def test_a_label_of_the_servers_own_makes_no_design() -> None:
    """A range of one choice, and another one that the server runs with: a sample has both, and nothing in it has two levels."""
    way = Knob(name="way", kind=KnobKind.CHOICE, choices=("lz4",), default="off")
    space = Space([way, *flat_space(3).knobs.values()])
    problem = sampled(lambda config: float(config["a"]), space, runs=12)
    assert {trial.config["way"] for trial in problem.trials} == {"lz4", "off"}
    assert {trial.role for trial in problem.trials} == {Role.DESIGN}
    assert not has_two_levels(problem)
