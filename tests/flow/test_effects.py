"""What runs of several plays say of each: all effects at once, each better known than by a run to itself."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trimtab.flow.effects import Run, effects_of
from trimtab.records import Play

SD = 0.05
NAMES = tuple("abcdefg")
PLAYS = [Play(name=name, settings={name: True}, worth=0.1, chance=0.3) for name in NAMES]
HADAMARD = np.array([[(-1) ** bin(i & j).count("1") for j in range(8)] for i in range(8)])[:, 1:]
"""Eight runs in which each of seven plays is on half of the time, and each pair a quarter."""


def runs_of(truth: dict[str, float], rng: np.random.Generator, n_blocks: int) -> list[Run]:
    on = [frozenset(name for name, sign in zip(NAMES, row, strict=True) if sign > 0) for row in HADAMARD]
    return [
        Run(plays=plays, gain=sum(truth[name] for name in plays) + rng.normal(0.0, SD), se=SD)
        for _ in range(n_blocks)
        for plays in on
    ]


def test_effects_are_found() -> None:
    truth = dict(zip(NAMES, (0.4, -0.3, 0.1, 0.0, 0.05, -0.05, 0.0), strict=True))
    effects = effects_of(PLAYS, runs_of(truth, np.random.default_rng(1), 20), 0.01, 4.0)
    for name, effect in truth.items():
        mean, sd = effects.of(name)
        assert abs(mean - effect) < 4 * sd
        assert sd < 2 * SD / math.sqrt(160) * 1.3


def test_each_is_known_better_than_by_runs_of_its_own() -> None:
    """Seven plays, eight runs: one by one each difference would be known to 1.4 times the noise."""
    effects = effects_of(PLAYS, runs_of(dict.fromkeys(NAMES, 0.0), np.random.default_rng(2), 1), SD / math.sqrt(3), 2.0)
    assert max(effects.of(name)[1] for name in NAMES) < 0.8 * SD < math.sqrt(2) * SD


def test_before_any_run_a_play_is_worth_what_it_promises() -> None:
    effects = effects_of([Play(name="a", settings={"a": 1}, worth=0.4, chance=0.5)], [], 0.0, 2.0)
    assert effects.of("a") == (pytest.approx(0.2), pytest.approx(0.4))


def test_a_run_that_gave_no_value_speaks_against_all_that_were_on() -> None:
    effects = effects_of(PLAYS, [Run(plays={"a", "b"}, gain=None, se=SD)], 0.01, 1e6)
    before = effects_of(PLAYS, [], 0.01, 2.0)
    assert effects.of("a")[0] < before.of("a")[0]
    assert effects.of("b")[0] < before.of("b")[0]
    assert effects.of("c")[0] == pytest.approx(before.of("c")[0])


def test_draws_have_the_mean_and_the_spread() -> None:
    effects = effects_of(PLAYS, [Run(plays={"a"}, gain=0.3, se=SD)], 0.01, 1e6)
    rng = np.random.default_rng(3)
    drawn = np.array([list(effects.drawn(rng).values()) for _ in range(4000)])
    assert np.allclose(drawn.mean(axis=0), effects.mean, atol=0.01)
    assert np.allclose(np.cov(drawn.T), effects.cov, atol=0.001)


def test_what_the_baseline_is_wrong_by_is_no_play_s_effect() -> None:
    """All runs are better by a tenth, whatever was on: the baseline was unlucky."""
    runs = [
        Run(plays=run.plays, gain=0.1, se=SD) for run in runs_of(dict.fromkeys(NAMES, 0.0), np.random.default_rng(4), 5)
    ]
    effects = effects_of([Play(name=n, settings={n: 1}, worth=0.1, chance=0.01) for n in NAMES], runs, 0.1, 2.0)
    assert max(abs(effects.of(name)[0]) for name in NAMES) < 0.03


@pytest.mark.parametrize("told", [0.3, 3.0])
def test_the_runs_say_how_noisy_they_are(told: float) -> None:
    """Two or three runs of the baseline say little of the noise: forty that fit well or badly say more."""
    rng = np.random.default_rng(5)
    runs = [Run(plays=run.plays, gain=run.gain, se=told * SD) for run in runs_of(dict.fromkeys(NAMES, 0.0), rng, 5)]
    effects = effects_of(PLAYS, runs, 0.01, 2.0)
    assert 30 < effects.df < 42
    assert 0.6 < told * math.sqrt(effects.scatter) < 1.6


def test_failures_do_not_change_how_noisy_the_others_are_thought() -> None:
    """Two plays that fail only together fit no sum of effects."""
    runs = runs_of(dict.fromkeys(NAMES, 0.0), np.random.default_rng(6), 2)
    failed = [Run(plays={"a", "b"}, gain=None, se=SD)] * 4
    effects, with_failures = (effects_of(PLAYS, each, 0.01, 2.0) for each in (runs, [*runs, *failed]))
    assert with_failures.df == pytest.approx(effects.df, abs=1.0)
    assert with_failures.scatter == pytest.approx(effects.scatter, rel=0.2)
    assert with_failures.of("g")[1] == pytest.approx(effects.of("g")[1], rel=0.2)
