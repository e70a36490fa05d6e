"""A bug is reported in a line even where no file about it can be written; one of a plug-in is told as its own."""

from __future__ import annotations

import os
import sys
import tempfile
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from trimtab import plugins
from trimtab.cli import _report_bug
from trimtab.cli.plugins_command import _describe
from trimtab.errors import UsageError


def test_without_a_file(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_get_default_tempdir", refuse)
    _report_bug(IndexError("list index out of range"))
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "error: a bug in Trimtab: IndexError: list index out of range",
        "hint: please report it; no file about it could be written: No usable temporary directory found in ['/tmp']",
    ]


def test_of_a_path_that_is_no_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("trimtab.cli._complain", lambda message, hint: None)  # stderr takes it; that of tests does not
    _report_bug(IndexError(os.fsdecode(b"no \xe4.toml")))
    (file,) = tmp_path.glob("trimtab-bug-*.txt")
    assert r"IndexError: no \udce4.toml" in file.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("class Own:\n  def", "SyntaxError("),
        ("1 / 0", "ZeroDivisionError('division by zero')"),
        ("", "has no attribute 'Own'"),
    ],
)
def test_a_plug_in_whose_code_is_broken_is_listed_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str, why: str
) -> None:
    (tmp_path / "own_searcher.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_searcher", raising=False)
    found = EntryPoints([EntryPoint("own", "own_searcher:Own", "trimtab.searchers")])
    monkeypatch.setattr(plugins, "_registered", lambda group: found)
    problem = _describe("searchers", "own")["problem"]
    assert problem.startswith("the plug-in 'own' of searchers cannot be loaded: ")
    assert why in problem
    assert problem.endswith("reinstall the package that provides 'own_searcher:Own'")
    with pytest.raises(UsageError, match="cannot be loaded"):  # as a study meets it
        plugins.load("searchers", "own")
