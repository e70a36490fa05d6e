"""The searchers without a model against random search: on a smooth bowl of four knobs, and on the twenty-knob surfaces."""

from __future__ import annotations

import numpy as np
import pytest

from tests.needs import IS_FULL
from trimtab.search import SearcherBase, SearchProblem
from trimtab.search.atunert import AtuneRTSearcher
from trimtab.search.bestconfig import BestConfigSearcher
from trimtab.search.differential_evolution import DifferentialEvolutionSearcher
from trimtab.search.ensemble import EnsembleSearcher
from trimtab.search.hill_climbing import HillClimbingSearcher
from trimtab.search.nelder_mead import NelderMeadSearcher
from trimtab.search.pattern_search import PatternSearcher
from trimtab.search.pro import ParallelRankOrderSearcher
from trimtab.search.random import RandomSearcher
from trimtab.space import Config, Constraint, Knob, KnobKind, Space
from trimtab.testing.surfaces import make_surface, run

from .problems import trial

pytestmark = pytest.mark.slow

N_TRIALS = 60
BOWLS = range(400, 416 if IS_FULL else 408)
SURFACES = range(500, 506)
"""Numbers on which no default was chosen."""

NOISE = 0.02


def bowl(seed: int) -> tuple[Space, np.ndarray, np.ndarray]:
    """A space of four knobs, the bottom of the bowl in its cube, and how steep it is along each knob."""
    rng = np.random.default_rng([seed, 5])
    knobs = [
        Knob(name="k0", kind=KnobKind.INTEGER, low=16, high=16384, log=True, default=64),
        Knob(name="k1", kind=KnobKind.REAL, low=0.5, high=8.0, default=2.0),
        Knob(name="k2", kind=KnobKind.INTEGER, low=1, high=64, default=8),
        Knob(name="k3", kind=KnobKind.INTEGER, low=0, high=960, step=32, default=64),
    ]
    return Space(knobs, [Constraint("k0 + k3 <= 12000")]), rng.uniform(0.3, 0.85, 4), rng.uniform(0.2, 0.8, 4)


def share_on_bowl(searcher_class: type[SearcherBase], seed: int) -> float:
    """True share of the reachable gain after `N_TRIALS` noisy trials."""
    space, bottom, steepness = bowl(seed)

    def loss(config: Config) -> float:
        return float((steepness * (space.encode(config) - bottom) ** 2).sum())

    baseline = space.default()
    searcher = searcher_class(SearchProblem(space=space, baseline=baseline, seed=seed, budget_trials=N_TRIALS))
    searcher.tell(trial(baseline, 0, 0.0, loss_se=NOISE))
    for number in range(1, N_TRIALS + 1):
        config = searcher.ask()[0]
        noise = np.random.default_rng([seed, number]).normal(0.0, NOISE)
        searcher.tell(trial(config, number, loss(config) - loss(baseline) + noise, loss_se=NOISE))
    best = searcher.best()
    assert best is not None
    return 1.0 - loss(best.config) / loss(baseline)


def share_on_surface(searcher_class: type[SearcherBase], seed: int) -> float:
    surface = make_surface(20, seed)
    return run(surface, searcher_class(surface.problem(seed + 50, N_TRIALS)), N_TRIALS, seed)[-1]


@pytest.fixture(scope="module")
def random_on_bowls() -> float:
    return float(np.median([share_on_bowl(RandomSearcher, seed) for seed in BOWLS]))


@pytest.fixture(scope="module")
def random_on_surfaces() -> float:
    return float(np.median([share_on_surface(RandomSearcher, seed) for seed in SURFACES]))


@pytest.mark.parametrize(
    ("searcher_class", "slack"),
    [
        (NelderMeadSearcher, 0.0),
        pytest.param(HillClimbingSearcher, 0.0, marks=pytest.mark.full),
        pytest.param(BestConfigSearcher, 0.03, marks=pytest.mark.full),
        pytest.param(ParallelRankOrderSearcher, 0.02, marks=pytest.mark.full),
        pytest.param(AtuneRTSearcher, 0.0, marks=pytest.mark.full),
        pytest.param(PatternSearcher, 0.0, marks=pytest.mark.full),
        pytest.param(DifferentialEvolutionSearcher, 0.0, marks=pytest.mark.full),
        pytest.param(EnsembleSearcher, 0.03, marks=pytest.mark.full),
    ],
)
def test_no_worse_than_random_where_it_is_smooth(
    searcher_class: type[SearcherBase], slack: float, random_on_bowls: float
) -> None:
    """With four knobs random search is hard to beat: those with slack are as good as it, within the noise of the bowls."""
    assert np.median([share_on_bowl(searcher_class, seed) for seed in BOWLS]) >= random_on_bowls - slack


# The quick form: on the bowls, with fewer knobs.
@pytest.mark.full
@pytest.mark.parametrize(
    "searcher_class",
    [PatternSearcher, DifferentialEvolutionSearcher, HillClimbingSearcher, BestConfigSearcher, EnsembleSearcher],
)
def test_no_worse_than_random_on_twenty_knobs(searcher_class: type[SearcherBase], random_on_surfaces: float) -> None:
    """The simplex searchers are left out: with twenty knobs sixty trials hardly build and move one simplex."""
    assert np.median([share_on_surface(searcher_class, seed) for seed in SURFACES]) >= random_on_surfaces
