"""The winner's settings as files: which are written, and what becomes of those that are there."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trimtab.records import Verdict
from trimtab.study.fragments import with_files

STACK: Any = SimpleNamespace(fragments=lambda config: {"db": "a = 2\n"}, is_one=True)


@pytest.mark.parametrize(
    ("result", "text"), [("better", "a = 2\n"), ("no_improvement", "a = 1\n"), ("interrupted", "a = 1\n")]
)
def test_only_a_proven_config_takes_the_place_of_an_earlier_winner(tmp_path: Path, result: str, text: str) -> None:
    """A server may include that file: a config that its proof has refused must not stand there."""
    file = tmp_path / "results" / "s.conf"
    file.parent.mkdir()
    file.write_text("a = 1\n")
    verdict = with_files(Verdict(result=result, fragment="a = 2\n"), STACK, tmp_path, "s", lambda line: None)
    assert file.read_text() == text
    assert verdict.fragment_path == (str(file) if result == "better" else "")
    assert list(file.parent.iterdir()) == [file]


def test_a_folder_that_cannot_be_written_loses_no_verdict(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("in the way")
    said: list[str] = []
    verdict = with_files(Verdict(result="better", fragment="a = 2\n"), STACK, tmp_path, "s", said.append)
    assert (verdict.result, verdict.fragment_path) == ("better", "")
    (line,) = said
    assert line.startswith(f"the settings cannot be written to folder='{tmp_path / 'results'}': ")
