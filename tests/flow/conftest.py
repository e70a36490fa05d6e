"""The fake study, for tests of this room, whose studies search roughly in the quick form; most of them with a forest."""

from __future__ import annotations

import pytest

from tests.fakes import fake, search_roughly
from tests.needs import IS_FULL
from trimtab.model.forest import Forest
from trimtab.search.forest import ForestSearcher

__all__ = ["fake"]


@pytest.fixture(autouse=True)
def _rough_search(monkeypatch: pytest.MonkeyPatch) -> None:
    if IS_FULL:
        return
    search_roughly(monkeypatch)
    monkeypatch.setitem(Forest.__init__.__kwdefaults__, "n_trees", 8)
    _, text = ForestSearcher.OPTIONS["candidates"]
    monkeypatch.setattr(ForestSearcher, "OPTIONS", {**ForestSearcher.OPTIONS, "candidates": (200, text)})
