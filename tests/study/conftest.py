"""The fake study, for tests of this room."""

from tests.fakes import fake, rough_ranks

__all__ = ["fake", "rough_ranks"]
