"""The fake study, for tests of this room. In the quick form most of them take nothing needless out of a winner, a third of their
runs: those that ask for `ablated` do, and so does the long form."""

from __future__ import annotations

import pytest

from tests.fakes import FakeStudy, equal_costs, rough_ranks
from tests.fakes import fake as whole
from tests.needs import IS_FULL

__all__ = ["ablated", "equal_costs", "fake", "rough_ranks", "whole"]


@pytest.fixture
def fake(whole: FakeStudy) -> FakeStudy:
    whole.is_ablated = IS_FULL
    return whole


@pytest.fixture
def ablated(fake: FakeStudy) -> None:
    """From the whole winner to the smallest config that does as well."""
    fake.is_ablated = True
