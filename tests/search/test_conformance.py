"""Every built-in searcher keeps the promises of the public conformance suite."""

from __future__ import annotations

from typing import ClassVar

from trimtab.search.auto import AutoSearcher
from trimtab.search.gp import GaussianProcessSearcher
from trimtab.search.lhs import LatinHypercubeSearcher
from trimtab.search.nelder_mead import NelderMeadSearcher
from trimtab.search.random import RandomSearcher
from trimtab.testing.searcher_suite import SearcherSuite


class TestRandom(SearcherSuite):
    searcher_class = RandomSearcher


class TestLatinHypercube(SearcherSuite):
    searcher_class = LatinHypercubeSearcher


class TestNelderMead(SearcherSuite):
    searcher_class = NelderMeadSearcher


class TestNelderMeadFromRandomSimplex(SearcherSuite):
    searcher_class = NelderMeadSearcher
    options: ClassVar = {"init": "random", "probes": 2, "radius": 0.6}


class TestGaussianProcess(SearcherSuite):
    searcher_class = GaussianProcessSearcher


class TestGaussianProcessWithoutDesign(SearcherSuite):
    searcher_class = GaussianProcessSearcher
    options: ClassVar = {"initial": 1, "candidates": 100, "cap": 10}


class TestAuto(SearcherSuite):
    searcher_class = AutoSearcher
