"""The fake study and a way to run commands on it, for tests of this room."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fakes import FakeStudy, fake
from tests.needs import IS_FULL
from trimtab.cli import main

__all__ = ["Ran", "Run", "fake", "found_once", "run", "study", "tuned"]


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One name for the folders of all tests, each of which finds it empty: a study remembers where its file lay."""
    folder = tmp_path_factory.getbasetemp() / "cli"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


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
    fake.is_ablated = IS_FULL  # a third of its runs; tests/study has studies with an ablation
    (fake.path / "study.toml").write_text(fake.written, encoding="utf-8")
    return fake


def found_once(
    name: str, study: FakeStudy, tune: Callable[[], Ran], tmp_path_factory: pytest.TempPathFactory
) -> FakeStudy:
    """The study as `tune` leaves it, which each worker does once for each `name`: most of such a test's time is the study."""
    study.target.disk.identifier = "the server of all tests"
    kept = tmp_path_factory.getbasetemp() / f"found-{name}"
    if not kept.exists():
        assert tune().code == 0
        shutil.copytree(study.path, kept)
    shutil.copytree(kept, study.path, dirs_exist_ok=True)
    return study


@pytest.fixture
def tuned(run: Run, study: FakeStudy, tmp_path_factory: pytest.TempPathFactory) -> FakeStudy:
    """A study that has found a winner; the target is as it was."""
    return found_once("default", study, lambda: run("tune", "study.toml", "--quiet"), tmp_path_factory)
