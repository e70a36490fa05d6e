"""A bug is reported in a line even where no file about it can be written; one of a plug-in is told as its own."""

from __future__ import annotations

import tempfile

import pytest

from trimtab import plugins
from trimtab.cli import _report_bug
from trimtab.cli.plugins_command import _describe


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


def test_a_plug_in_whose_code_is_broken_is_listed_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(group: str, name: str) -> None:
        raise SyntaxError("invalid syntax")

    monkeypatch.setattr(plugins, "load", broken)
    assert _describe("searchers", "own")["problem"] == "its import fails: SyntaxError: invalid syntax"
