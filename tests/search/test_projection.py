"""The projection: where the baseline lies, what special values get, what the inner searcher hears."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from trimtab.errors import UsageError
from trimtab.records import KnobPrior, Prior
from trimtab.search import PastStudy
from trimtab.search.gp import GaussianProcessSearcher
from trimtab.search.projection import ProjectionSearcher
from trimtab.space import Config, Knob, KnobKind, Space

from .problems import grid, integer, problem, trial


def hybrids(n: int) -> Space:
    """Knobs from 10 to 1000 with two special values, the baseline in the range."""
    return Space(
        [
            Knob(name=f"k{i:02d}", kind=KnobKind.INTEGER, low=10, high=1000, default=300, special=(0, -1))
            for i in range(n)
        ]
    )


def test_special_values_get_their_share() -> None:
    space = hybrids(60)
    for share in (0.05, 0.5):
        searcher = ProjectionSearcher(problem(space, inner="random", special_share=share))
        configs = searcher.ask(60)
        found = np.mean([value in (0, -1) for config in configs for value in config.values()])
        # The baseline lies above the share, so half of every dimension leads through the special values.
        assert abs(found - 0.5 * share / (share + (1 - share) * 0.3)) < 0.12


def test_knobs_of_one_dimension_move_together() -> None:
    space = Space([integer(f"k{i}", 1000, default=500) for i in range(8)])
    searcher = ProjectionSearcher(problem(space, inner="random", dimensions=2))
    asked = np.array([list(config.values()) for config in searcher.ask(40)], dtype=float) - 500
    assert np.linalg.matrix_rank(asked, tol=20.0) <= 2


def test_advice_comes_first_and_counts_for_best() -> None:
    advice = Config({"a": 60, "b": 60, "c": 60})
    searcher = ProjectionSearcher(problem(grid(3), advice))
    assert searcher.ask() == [advice]
    searcher.tell(trial(advice, 0, -1.0))
    best = searcher.best()
    assert best is not None
    assert best.config == advice


@pytest.mark.slow
def test_what_is_said_in_knobs_stays_outside() -> None:
    """Starts, past studies and a prior speak of knobs, of which the inner searcher has none."""
    space = grid(4)
    start, past = Config(dict.fromkeys(space.knobs, 60)), Config(dict.fromkeys(space.knobs, 40))
    outer = replace(
        problem(space, dimensions=2), starts=(start,), prior=Prior(knobs={"a": KnobPrior(at=70, width=0.1)}),
        past=(PastStudy(name="before", nearness=1.0, configs=(start, past), losses=(-1.0, 0.0)),),
    )  # fmt: skip
    searcher = ProjectionSearcher(outer)
    inner = searcher._inner
    assert isinstance(inner, GaussianProcessSearcher)
    told = inner.problem
    assert (told.starts, told.past, told.advice, inner.belief) == ((), (), (), None)
    assert searcher.ask()[0] == start


@pytest.mark.slow
def test_learns_through_the_projection() -> None:
    """Forty knobs that all help in one direction: the inner searcher climbs; median of three seeds against random."""
    space = Space([integer(f"k{i:02d}", 100, default=50) for i in range(40)])
    found = []
    for inner in ("gp", "random"):
        bests = []
        for seed in range(3):
            searcher = ProjectionSearcher(problem(space, seed=seed, inner=inner, dimensions=5))
            for number in range(25):
                config = searcher.ask()[0]
                loss = sum(abs(float(value) - 70) for value in config.values()) / 1000
                searcher.tell(trial(config, number, loss, loss_se=0.01))
            best = searcher.best()
            assert best is not None
            bests.append(best.loss)
        found.append(float(np.median(np.array(bests, dtype=float))))
    assert found[0] < found[1] - 0.02


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("dimensions", 0, "dimensions must be 1 or more"),
        ("special_share", 1.0, "special_share must be 0 or more and less than 1"),
        ("buckets", 1, "buckets must be 2 or more"),
        ("inner", "projection", "inner must be another searcher"),
    ],
)
def test_options_are_checked(name: str, value: object, rule: str) -> None:
    with pytest.raises(UsageError) as caught:
        ProjectionSearcher(problem(grid(), **{name: value}))
    assert caught.value.hint == rule


def test_an_unknown_inner_searcher_is_named() -> None:
    with pytest.raises(UsageError, match="no plug-in 'nonesuch' in searchers"):
        ProjectionSearcher(problem(grid(), inner="nonesuch"))
