"""The default searcher against its parts, a textbook Gaussian process and chance, on surfaces on which nothing was chosen.

Surfaces are compared in pairs, for the night. What stands in docs/measurements/search-tried.md was measured on more of them
(benchmarks/search). That the default searches well is shown in every run by tests/search/test_gp.py, which finds the bottom of a
bowl with it, and by the studies of tests/study, which prove planted gains.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy import stats

from trimtab.search import SearcherBase
from trimtab.search.auto import AutoSearcher
from trimtab.search.gp import GaussianProcessSearcher
from trimtab.search.random import RandomSearcher
from trimtab.search.trust_region import TrustRegionSearcher
from trimtab.testing.rugged import make_rugged
from trimtab.testing.surfaces import make_surface, run
from trimtab.testing.textbook import TextbookSearcher

RUGGED = range(300, 312)
SMOOTH = range(200, 204)
"""Surfaces on which no constant was chosen: those are numbered from 0."""

N_TRIALS = 25
LEVEL = 0.05

OTHERS = (GaussianProcessSearcher, TrustRegionSearcher, TextbookSearcher, RandomSearcher)


@cache
def shares(searcher_class: type[SearcherBase], *, is_rugged: bool, seeds: range) -> np.ndarray:
    """True share of the reachable gain after `N_TRIALS`, one for each surface; without advice."""
    found = []
    for seed in seeds:
        surface = make_rugged(seed) if is_rugged else make_surface(20, seed)
        problem = surface.problem(seed + 50, N_TRIALS, is_advised=False)
        found.append(run(surface, searcher_class(problem), N_TRIALS, seed)[-1])
    return np.array(found)


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize(("is_rugged", "seeds"), [(True, RUGGED), (False, SMOOTH)])
def test_the_default_is_not_behind(other: type[SearcherBase], is_rugged: bool, seeds: range) -> None:
    """By a one-sided paired test; of so few surfaces it shows large losses only."""
    ours = shares(AutoSearcher, is_rugged=is_rugged, seeds=seeds)
    theirs = shares(other, is_rugged=is_rugged, seeds=seeds)
    assert stats.ttest_rel(ours, theirs, alternative="less").pvalue > LEVEL, f"{ours} against {theirs}"


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("is_rugged", [True, False])
def test_the_default_beats_random(is_rugged: bool) -> None:
    """By a one-sided paired test over sixteen surfaces."""
    seeds = range(300, 316)
    ours, random = (shares(each, is_rugged=is_rugged, seeds=seeds) for each in (AutoSearcher, RandomSearcher))
    assert stats.ttest_rel(ours, random, alternative="greater").pvalue < LEVEL
    assert ours.mean() > random.mean() + 0.05


@pytest.mark.slow
@pytest.mark.parametrize("is_rugged", [True, False])
def test_surfaces_are_what_they_claim(is_rugged: bool) -> None:
    """The baseline gains nothing, the advice (where there is one) part of what there is, and some configs crash."""
    for seed in range(300, 302):
        surface = make_rugged(seed) if is_rugged else make_surface(20, seed)
        assert surface.gain_share(surface.baseline) == 0
        assert all(0.05 < surface.gain_share(config) < 0.8 for config in surface.advice)
        assert bool(surface.advice) is not is_rugged
        losses = [surface.loss(config) for config in surface.space.sample(200, np.random.default_rng(seed))]
        assert 0.02 < np.isinf(losses).mean() < 0.4
        assert min(losses) > surface.optimum
