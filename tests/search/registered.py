"""The searchers that are registered, so that no test has to list them."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

from trimtab import plugins
from trimtab.search import SearcherBase

__all__ = ["registered", "runnable"]

_OF_AN_EXTRA = {"optuna": "optuna", "smac": "smac"}
"""Searchers that need a library which is not always there, and its module."""


@cache
def registered() -> dict[str, type[SearcherBase]]:
    """Name -> class of all; those of an extra import their library only when they are made."""
    return {name: plugins.load("searchers", name) for name in plugins.names("searchers")}


def runnable() -> dict[str, type[SearcherBase]]:
    """Name -> class of those whose library is here."""
    missing = {name for name, module in _OF_AN_EXTRA.items() if find_spec(module) is None}
    return {name: found for name, found in registered().items() if name not in missing}
