"""The fake study, for tests of this room."""

from tests.fakes import fake

__all__ = ["fake"]
