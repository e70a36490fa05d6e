"""The fake study, for tests of this room."""

from tests.fakes import equal_costs, fake, rough_ranks

__all__ = ["equal_costs", "fake", "rough_ranks"]
