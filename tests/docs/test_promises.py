"""The page of promises names tests that exist, and every promise has one or says that it is none yet."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "promises.md").read_text(encoding="utf-8")
NAMED = re.findall(r"^- `(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE, re.MULTILINE)


@pytest.mark.parametrize(("file", "test"), NAMED)
def test_named_test_exists(file: str, test: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    assert not test or f"def {test}(" in text


def test_every_promise_has_a_test_or_says_that_it_is_none_yet() -> None:
    promises = re.split(r"^## \d+\. ", PAGE.partition("## As measured")[0], flags=re.MULTILINE)[1:]
    assert len(promises) == 10
    assert [p.splitlines()[0] for p in promises if "\n- `tests/" not in p and "Not yet promised" not in p] == []
