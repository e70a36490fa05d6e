"""The winner's settings as files: which are written, and what becomes of those that are there."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trimtab.records import Verdict
from trimtab.study.fragments import with_files

STACK: Any = SimpleNamespace(
    fragments=lambda config: {"db": "a = 2\n"}, is_one=True, tiers=(SimpleNamespace(name="db"),)
)


@pytest.mark.parametrize(
    ("result", "text"), [("better", "a = 2\n"), ("no_improvement", "a = 1\n"), ("interrupted", "a = 1\n")]
)
def test_only_a_proven_config_takes_the_place_of_an_earlier_winner(tmp_path: Path, result: str, text: str) -> None:
    """A server may include that file: a config that its proof has refused must not stand there."""
    file = tmp_path / "results" / "s.conf"
    file.parent.mkdir()
    file.write_text("a = 1\n")
    said: list[str] = []
    verdict = with_files(Verdict(result=result, fragment="a = 2\n"), STACK, tmp_path, "s", said.append)
    assert file.read_text() == text
    told = f"note: file={str(file)!r} still has the settings of an earlier winner of this study, not of this result"
    assert said == ([] if result == "better" else [told])
    assert verdict.fragment_path == (str(file) if result == "better" else "")
    assert list(file.parent.iterdir()) == [file]


def test_the_file_of_a_tier_of_which_nothing_is_set_any_more_is_named(tmp_path: Path) -> None:
    """The server of that tier may include it: it would run half of one winner with half of another."""
    tiers = (SimpleNamespace(name="web"), SimpleNamespace(name="db"))
    stack: Any = SimpleNamespace(fragments=lambda config: {"db": "a = 2\n"}, is_one=False, tiers=tiers)
    (tmp_path / "results").mkdir()
    old = tmp_path / "results" / "s.web.conf"
    old.write_text("b = 1\n")
    said: list[str] = []
    verdict = with_files(Verdict(result="better", fragment="a = 2\n"), stack, tmp_path, "s", said.append)
    assert verdict.fragment_path == str(tmp_path / "results" / "s.db.conf")
    assert [line.partition(" still ")[0] for line in said] == [f"note: file={str(old)!r}"]


def test_a_folder_that_cannot_be_written_loses_no_verdict(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("in the way")
    said: list[str] = []
    verdict = with_files(Verdict(result="better", fragment="a = 2\n"), STACK, tmp_path, "s", said.append)
    assert (verdict.result, verdict.fragment_path) == ("better", "")
    (line,) = said
    assert line.startswith(f"the settings cannot be written to folder='{tmp_path / 'results'}': ")
