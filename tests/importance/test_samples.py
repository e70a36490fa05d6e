"""Bad input: what cannot be ranked is refused in words, what can be left out is left out and said."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.importance.problems import flat_space, sampled
from trimtab.errors import UsageError
from trimtab.importance import RankProblem, make_design, rank_knobs, top_pairs
from trimtab.importance.samples import samples_of
from trimtab.importance.sard import SardRanker
from trimtab.importance.surrogate import cross_validate
from trimtab.records import Status
from trimtab.space import Config, Space
from trimtab.testing.ranker_suite import planted_problem

PROBLEM = sampled(lambda config: float(config["a"]), runs=20)


def refusal(problem: RankProblem) -> UsageError:
    with pytest.raises(UsageError) as caught:
        samples_of(problem)
    return caught.value


def test_no_trials() -> None:
    error = refusal(replace(PROBLEM, trials=[]))
    assert error.message == "no trials to rank knobs from: n_trials=0"
    assert "--design lhs" in (error.hint or "")


def test_too_few_trials() -> None:
    error = refusal(replace(PROBLEM, trials=PROBLEM.trials[:7]))
    assert (
        error.message == "n_configs=7 different measured configs are too few to rank n_knobs=6: at least 8 are needed"
    )
    assert len(samples_of(replace(PROBLEM, trials=PROBLEM.trials[:8]))) == 8


def test_all_failed() -> None:
    failed = [replace(t, status=Status.CRASHED if t.number else Status.TIMED_OUT, loss=None) for t in PROBLEM.trials]
    error = refusal(replace(PROBLEM, trials=failed))
    assert error.message == "none of n_trials=20 has a finite loss (crashed=19, timed_out=1)"
    assert "see why they failed" in (error.hint or "")


def test_mixed_studies() -> None:
    foreign = replace(PROBLEM.trials[3], number=77, config=Config({"a": 0.5, "z": 1}))
    error = refusal(replace(PROBLEM, trials=[*PROBLEM.trials, foreign]))
    assert error.message == "trial number=77 is of another space: unknown=z, missing=b, c, d, e, f"
    assert "ranks of another study can be checked" in (error.hint or "")


def test_nothing_varies() -> None:
    space = flat_space(2)
    only_a = [replace(t, config=Config({"a": 0.2, "b": t.config["b"]})) for t in PROBLEM.trials]
    one = Space([space.knobs["a"]])
    assert samples_of(replace(PROBLEM, space=space, baseline=space.default(), trials=only_a)).varied.tolist() == [
        False,
        True,
    ]
    same = [replace(t, config=Config({"a": 0.2})) for t in PROBLEM.trials]
    assert (
        "n_configs=1 different measured configs are too few"
        in refusal(replace(PROBLEM, space=one, trials=same)).message
    )


def test_no_knobs() -> None:
    assert refusal(replace(PROBLEM, space=Space([]))).message == "the space has no knobs to rank"


def test_losses_that_are_no_numbers_are_left_out() -> None:
    trials = [replace(t, loss=[math.nan, math.inf, None][i]) if i < 3 else t for i, t in enumerate(PROBLEM.trials)]
    found = samples_of(replace(PROBLEM, trials=trials))
    assert len(found) == 17
    assert "Left out, without a finite loss: 3 measured trials." in found.notes


def test_values_outside_the_ranges_are_left_out() -> None:
    trials = [replace(t, config=t.config.replace({"a": 7.0})) if t.number < 2 else t for t in PROBLEM.trials]
    found = samples_of(replace(PROBLEM, trials=trials))
    assert len(found) == 18
    assert "Left out, with values outside the space's ranges: 2 trials." in found.notes


def test_repeats_are_averaged_and_copies_dropped() -> None:
    first = PROBLEM.trials[0]
    assert first.loss is not None
    again = replace(first, number=99, loss=first.loss + 1.0)
    found = samples_of(replace(PROBLEM, trials=[*PROBLEM.trials, again, first]))
    assert found.n_trials == 21
    assert len(found) == 20
    assert found.losses[found.configs.index(first.config)] == pytest.approx(first.loss + 0.5)
    assert found.weights.max() == 2.0
    assert "1 trial given twice: counted once." in found.notes
    assert "Averaged with the first run of their config: 1 repeat." in found.notes


def test_many_runs_of_one_config_hide_no_other() -> None:
    """As those of the baseline and of a winner in a study that was proven: all are in its mean, and three count."""
    often = PROBLEM.trials[0]
    assert often.loss is not None
    more = [replace(often, number=100 + i, loss=often.loss + 0.1) for i in range(19)]
    found = samples_of(replace(PROBLEM, trials=[*PROBLEM.trials, *more]))
    place = found.configs.index(often.config)
    assert found.losses[place] == pytest.approx(often.loss + 0.095)
    assert found.weights[place] == 3.0
    assert set(np.delete(found.weights, place)) == {1.0}
    assert found.n_trials == 39


def test_a_disaster_does_not_outweigh_everything() -> None:
    trials = [replace(t, loss=50.0) if t.number == 0 else t for t in PROBLEM.trials]
    found = samples_of(replace(PROBLEM, trials=trials))
    assert found.losses.max() == 50.0
    assert found.y.max() < 5.0
    ordinary = found.losses < 1.5
    assert (found.y[ordinary] == found.losses[ordinary]).all()


@pytest.mark.parametrize("seed", [9, 23])
def test_a_model_that_is_the_mean_predicts_no_better_than_the_mean(seed: int) -> None:
    """By its small ridge it did: by a five-millionth of the variance, and surely."""
    fit = cross_validate(samples_of(sampled(lambda c: 0.0, flat_space(2), runs=16, noise=0.05, seed=seed)), 1)
    assert (abs(fit.r2) < 1e-3, fit.is_better) == (True, False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "loss", [lambda c: 0.1, lambda c: 0.0, lambda c: 2e-16 * (float(c["a"]) > 0.5)], ids=["tenth", "none", "rounding"]
)
def test_losses_that_are_all_the_same_rank_nothing(loss: Callable[[Config], float]) -> None:
    """The rounding of their mean was explained, and surely: five knobs were worth tuning, by r2 = 1."""
    problem = sampled(loss, runs=30, noise=0.0)
    found = rank_knobs(replace(problem, n_bootstrap=10))
    assert found.verdict.startswith("not enough data to tell: a model of the 30 measured configs does not predict")
    assert (found.knee, found.r2, [entry.score for entry in found.knobs]) == (0, 0.0, [0.0] * 6)
    assert top_pairs(problem) == ()


def test_what_rounding_makes_is_no_effect_of_a_design() -> None:
    space = flat_space(3)
    configs = make_design("sard", space, space.default()).configs
    problem = planted_problem(space, configs, lambda _, config: 2e-16 * (float(config["a"]) > 0.5), noise=0.0)
    assert SardRanker().rank(problem).verdict == "not enough data to tell: no knob shows any effect"


def test_a_line_is_predicted_better_than_by_the_mean() -> None:
    assert cross_validate(samples_of(sampled(lambda c: float(c["a"]), flat_space(2), runs=12, noise=0.01)), 1).is_better
