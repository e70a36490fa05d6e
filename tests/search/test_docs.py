"""The reference page names every searcher and every option with its default."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.search import SearcherBase
from trimtab.search.auto import AutoSearcher
from trimtab.search.gp import GaussianProcessSearcher
from trimtab.search.lhs import LatinHypercubeSearcher
from trimtab.search.nelder_mead import NelderMeadSearcher
from trimtab.search.random import RandomSearcher

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "searchers.md"
CLASSES = (AutoSearcher, GaussianProcessSearcher, LatinHypercubeSearcher, NelderMeadSearcher, RandomSearcher)


@pytest.mark.parametrize("searcher_class", CLASSES)
def test_every_option_is_documented_with_its_default(searcher_class: type[SearcherBase]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert f"`{searcher_class.NAME}`" in text
    for name, (default, _) in searcher_class.OPTIONS.items():
        rows = [line for line in text.splitlines() if line.startswith(f"| `{name}` |")]
        shown = f'"{default}"' if isinstance(default, str) else str(default)
        assert any(shown in row.split("|")[2] for row in rows), f"{searcher_class.NAME}: {name} = {shown}"


def test_no_option_is_documented_that_does_not_exist() -> None:
    known = {name for searcher_class in CLASSES for name in searcher_class.OPTIONS}
    names = {searcher_class.NAME for searcher_class in CLASSES}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            assert line.split("`")[1] in known | names, line
