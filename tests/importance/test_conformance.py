"""Every registered ranker keeps the promises of the public suite."""

from __future__ import annotations

import pytest

from trimtab import plugins
from trimtab.importance.fanova import FanovaRanker
from trimtab.importance.forest import ForestRanker
from trimtab.importance.lasso import LassoRanker
from trimtab.importance.permutation import PermutationRanker
from trimtab.importance.sard import SardRanker
from trimtab.importance.shapley import ShapleyRanker
from trimtab.testing.ranker_suite import RankerSuite

pytestmark = pytest.mark.slow


class TestSard(RankerSuite):
    ranker_class = SardRanker
    design = "sard"
    runs = None


class TestForest(RankerSuite):
    ranker_class = ForestRanker


class TestPermutation(RankerSuite):
    ranker_class = PermutationRanker


class TestLasso(RankerSuite):
    ranker_class = LassoRanker


class TestFanova(RankerSuite):
    ranker_class = FanovaRanker


class TestShapley(RankerSuite):
    ranker_class = ShapleyRanker


def test_every_registered_ranker_is_tested() -> None:
    """One of a plug-in's is registered under the name that it goes by."""
    suites = {suite.ranker_class for suite in RankerSuite.__subclasses__()}
    registered = {name: plugins.load("rankers", name) for name in plugins.names("rankers")}
    assert set(registered.values()) <= suites
    assert {name: found.name for name, found in registered.items()} == {name: name for name in registered}
