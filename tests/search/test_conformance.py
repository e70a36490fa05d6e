"""Every registered searcher keeps the promises of the public conformance suite."""

from __future__ import annotations

from typing import ClassVar

from tests.needs import IS_FULL
from trimtab.search import SearcherBase
from trimtab.search.engine import BayesianSearcher
from trimtab.search.gp import GaussianProcessSearcher
from trimtab.search.nelder_mead import NelderMeadSearcher
from trimtab.search.projection import ProjectionSearcher
from trimtab.testing.searcher_suite import SearcherSuite

from .registered import runnable

_OF_A_MODEL = 16 if IS_FULL else 12
"""Trials where a model is fitted for each ask: six come after the design, which is more than `auto` has members."""


def _n_trials(made_by: type[SearcherBase]) -> int:
    if made_by.__name__ == "SmacSearcher":
        return 8  # half a second for an ask
    return _OF_A_MODEL if issubclass(made_by, BayesianSearcher | ProjectionSearcher) else SearcherSuite.n_trials


def _options(made_by: type[SearcherBase]) -> dict[str, int]:
    """In the quick form few candidates are scored for an ask: how good it is, is not asked here."""
    return {"candidates": 100} if "candidates" in made_by.OPTIONS and not IS_FULL else {}


# One class for each, made here so that a searcher is covered by being registered.
for _class in runnable().values():
    _title, _own = f"Test{_class.__name__}", {"searcher_class": _class, "n_trials": _n_trials(_class)}
    globals()[_title] = type(_title, (SearcherSuite,), {**_own, "options": _options(_class), "__module__": __name__})


class TestNelderMeadFromRandomSimplex(SearcherSuite):
    searcher_class = NelderMeadSearcher
    options: ClassVar = {"init": "random", "probes": 2, "radius": 0.6}


class TestGaussianProcessWithoutDesign(SearcherSuite):
    searcher_class = GaussianProcessSearcher
    n_trials = _OF_A_MODEL
    options: ClassVar = {"initial": 1, "candidates": 100, "cap": 10}
