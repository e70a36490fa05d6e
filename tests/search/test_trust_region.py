"""The trust region: what makes it grow and shrink, where candidates lie, when it is given up."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from trimtab.errors import UsageError
from trimtab.search import Ledger
from trimtab.search.optimise import TrustRegion
from trimtab.search.trust_region import TrustRegionSearcher
from trimtab.space import Config, Knob, KnobKind, Space

from .problems import crash, grid, problem, trial

pytestmark = pytest.mark.slow


def bowl(config: Config) -> float:
    return sum(((float(config[name]) - 60) / 100) ** 2 for name in "ab")


def side(searcher: TrustRegionSearcher) -> float:
    region = searcher.members[0].region
    assert isinstance(region, TrustRegion)
    return region.side


def started(space: Space, **options: object) -> TrustRegionSearcher:
    """A searcher that has its design behind it, each config with a loss of 1."""
    searcher = TrustRegionSearcher(problem(space, initial=3, **options))
    for number in range(3):
        searcher.tell(trial(searcher.ask()[0], number, 1.0))
    return searcher


def test_successes_double_the_region() -> None:
    searcher = started(grid(4), successes=2)
    before = side(searcher)
    for number in range(2):
        searcher.tell(trial(searcher.ask()[0], 10 + number, 0.5 - 0.2 * number))
    assert side(searcher) == 2 * before


@pytest.mark.parametrize("is_crash", [True, False])
def test_failures_halve_the_region(is_crash: bool) -> None:
    searcher = started(grid(4), failures=3)
    before = side(searcher)
    for number in range(10, 13):
        config = searcher.ask()[0]
        searcher.tell(crash(config, number) if is_crash else trial(config, number, 2.0))
    assert side(searcher) == before / 2


def test_trials_of_others_leave_the_region_alone() -> None:
    searcher = started(grid(4), failures=1)
    before = side(searcher)
    for number, config in enumerate(grid(4).sample(5, np.random.default_rng(1)), start=10):
        searcher.tell(trial(config, number, 2.0))
    assert side(searcher) == before


def test_a_tiny_region_is_given_up_and_after_two_the_search_has_converged() -> None:
    searcher = started(grid(4, 10_000), failures=1, marginal=0.0)
    sides = []
    for number in range(10, 60):
        searcher.tell(trial(searcher.ask()[0], number, 2.0))
        sides.append(side(searcher))
        if searcher.is_converged:
            break
    assert searcher.is_converged
    assert min(sides) < 0.01
    assert sum(later > earlier for earlier, later in pairwise(sides)) == 2


def test_a_new_region_is_not_compared_with_the_last_trial_of_the_one_before() -> None:
    """That one lies beside the best of all, which the new region has to find its own way to."""
    space = grid(4, 10_000)
    first = Config(dict.fromkeys(space.knobs, 9))
    region = TrustRegion(space, successes=1, failures=1, sample=lambda number: [first])
    ledger = Ledger(space, space.default())

    def told(config: Config, loss: float) -> None:
        evidence = ledger.tell(trial(config, len(ledger), loss))
        assert evidence is not None
        region.told(evidence, is_own=len(ledger) > 1)

    at_end = space.sample(10, np.random.default_rng(1))
    for config in at_end[:9]:
        told(config, 0.0)
    assert (region.side, region.planned) == (0.8, [first])
    told(first, 0.6)
    told(at_end[9], 0.5)
    assert region.side == 1.6


def test_asks_stay_near_the_best_when_the_region_is_small() -> None:
    space = grid(6, 10_000)
    searcher = started(space, failures=1, repeats=1)
    best = Config(dict.fromkeys(space.knobs, 5000))
    searcher.tell(trial(best, 9, 0.0))
    for number in range(10, 15):
        searcher.tell(trial(searcher.ask()[0], number, 1.0))
    assert side(searcher) < 0.03
    asked = searcher.ask()[0]
    assert 0 < max(abs(float(asked[name]) - 5000) for name in space.knobs) <= 0.5 * 4 * 0.03 * 10_000


def test_choices_change_inside_a_small_region() -> None:
    mode = Knob(name="mode", kind=KnobKind.CHOICE, choices=("a", "b", "c"), default="a")
    space = Space([mode, *grid(3, 10_000).knobs.values()])
    searcher = started(space, failures=1, repeats=1)
    for number in range(10, 14):
        searcher.tell(trial(searcher.ask()[0], number, 2.0))
    assert side(searcher) <= 0.05
    assert len({config["mode"] for config in searcher.ask(12)}) > 1


@pytest.mark.full  # the quick form: auto, which a trust region is part of, in test_gp.py
@pytest.mark.parametrize("acquisition", ["ei", "thompson"])
def test_finds_the_bottom_of_a_bowl(acquisition: str) -> None:
    """Median of three seeds."""
    found = []
    for seed in range(3):
        searcher = TrustRegionSearcher(problem(grid(4), seed=seed, acquisition=acquisition))
        for number in range(25):
            config = searcher.ask()[0]
            searcher.tell(trial(config, number, bowl(config), loss_se=0.01))
        best = searcher.best()
        assert best is not None
        found.append(bowl(best.config))
    assert np.median(found) < 0.01


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("acquisition", "ucb", "acquisition must be 'ei' or 'thompson'"),
        ("successes", 0, "successes must be 1 or more"),
        ("failures", -1, "failures must be 0 or more"),
    ],
)
def test_options_are_checked(name: str, value: object, rule: str) -> None:
    with pytest.raises(UsageError) as caught:
        TrustRegionSearcher(problem(grid(), **{name: value}))
    assert caught.value.hint == rule
