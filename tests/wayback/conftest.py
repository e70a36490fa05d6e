"""The servers of these tests are templates, made once per session."""

from tests.wayback.fixtures import templates, zygote

__all__ = ["templates", "zygote"]
