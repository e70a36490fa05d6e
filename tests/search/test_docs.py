"""The reference page names every searcher and every option with its default."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .registered import registered

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "searchers.md"


@pytest.mark.parametrize("name", sorted(registered()))
def test_every_option_is_documented_with_its_default(name: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert any(f"`{name}`" in line for line in text.splitlines() if line.startswith("## ")), f"no section on {name}"
    assert any(line.startswith(f"| `{name}` |") for line in text.splitlines()), f"{name} is not in the list"
    for option, (default, _) in registered()[name].OPTIONS.items():
        rows = [line for line in text.splitlines() if line.startswith(f"| `{option}` |")]
        shown = json.dumps(default)
        assert any(shown in row.split("|")[2] for row in rows), f"{name}: {option} = {shown}"


@pytest.mark.parametrize("name", sorted(registered()))
def test_a_searcher_is_registered_under_its_own_name(name: str) -> None:
    assert name == registered()[name].NAME


def test_no_option_is_documented_that_does_not_exist() -> None:
    known = {option for searcher_class in registered().values() for option in searcher_class.OPTIONS}
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    documented = {line.split("`")[1] for line in lines if line.startswith("| `")}
    assert documented == known | set(registered())
