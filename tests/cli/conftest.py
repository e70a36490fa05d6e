"""The fake study and a way to run commands on it, for tests of this room."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fakes import FakeStudy, fake
from trimtab.cli import main

__all__ = ["Ran", "Run", "fake", "run", "study"]


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TRIMTAB_STATE", str(tmp_path / "state"))

    def run(*arguments: str) -> Ran:
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        captured = capsys.readouterr()
        return Ran(int(ended.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture
def study(fake: FakeStudy) -> FakeStudy:
    (fake.path / "study.toml").write_text(fake.text, encoding="utf-8")
    return fake
