"""Every registered searcher keeps the promises of the public conformance suite."""

from __future__ import annotations

from typing import ClassVar

from trimtab.search.gp import GaussianProcessSearcher
from trimtab.search.nelder_mead import NelderMeadSearcher
from trimtab.testing.searcher_suite import SearcherSuite

from .registered import runnable

# One class for each, made here so that a searcher is covered by being registered.
for _class in runnable().values():
    _title = f"Test{_class.__name__}"
    _more = {"n_trials": 8} if _class.__name__ == "SmacSearcher" else {}  # half a second for an ask
    globals()[_title] = type(_title, (SearcherSuite,), {"searcher_class": _class, "__module__": __name__, **_more})


class TestNelderMeadFromRandomSimplex(SearcherSuite):
    searcher_class = NelderMeadSearcher
    options: ClassVar = {"init": "random", "probes": 2, "radius": 0.6}


class TestGaussianProcessWithoutDesign(SearcherSuite):
    searcher_class = GaussianProcessSearcher
    options: ClassVar = {"initial": 1, "candidates": 100, "cap": 10}
