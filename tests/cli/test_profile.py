"""`trimtab profile` looks at what could stand in the way of its files before it watches, and keeps their secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from trimtab.errors import LoadError
from trimtab.study import profile as profiling
from trimtab.workload.sql.profile import Profile

TEXT = """
[study]
name = "s"

[target.db]
kind = "postgresql"
url = "postgresql://u:secret@h/d"

[workload]
kind = "ycsb"
workload = "a"
records = 1000
"""


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds of each watch; nothing is asked."""
    seconds: list[float] = []

    def profile(*args: Any, window_s: float, **options: Any) -> dict[str, Profile]:
        seconds.append(window_s)
        return {"db": Profile(database="d", window_s=window_s, proposals=(), left_out=())}

    monkeypatch.setattr(profiling, "profile", profile)
    return seconds


def test_paths_that_cannot_be_rewritten_are_told_before_the_watch(
    run: Run, tmp_path: Path, watched: list[float]
) -> None:
    table = 'target = { db = { kind = "postgresql", url = "host=h", data_dir = "data" } }\n'
    (tmp_path / "study.toml").write_text(
        table + TEXT.replace('[target.db]\nkind = "postgresql"\nurl = "postgresql://u:secret@h/d"', "")
    )
    ran = run("profile", "study.toml", "--seconds", "600")
    assert (ran.code, watched) == (2, [])
    assert "has relative paths that cannot be rewritten" in ran.err
    assert not (tmp_path / "profile").exists()


@pytest.mark.parametrize("option", ["--seconds", "--coverage"])
def test_what_is_no_number_is_outside_of_every_range(
    run: Run, tmp_path: Path, watched: list[float], option: str
) -> None:
    (tmp_path / "study.toml").write_text(TEXT)
    ran = run("profile", "study.toml", option, "nan")
    assert (ran.code, watched) == (2, [])
    assert "'nan' is not a number" in ran.err


def test_a_folder_that_cannot_be_made_is_told_before_the_watch(run: Run, tmp_path: Path, watched: list[float]) -> None:
    (tmp_path / "study.toml").write_text(TEXT)
    ran = run("profile", "study.toml", "--seconds", "600", "--output", "study.toml/new")
    assert (ran.code, watched) == (2, [])
    assert "cannot make folder='study.toml/new'" in ran.err


@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_the_copy_of_a_study_file_may_be_read_by_nobody_else(
    run: Run, tmp_path: Path, watched: list[float], mode: int
) -> None:
    (tmp_path / "study.toml").write_text(TEXT)
    (tmp_path / "study.toml").chmod(mode)
    assert run("profile", "study.toml").code == 0
    written = tmp_path / "profile" / "study.toml"
    assert "secret" in written.read_text()
    assert written.stat().st_mode & 0o777 == mode


def test_it_says_that_its_study_file_is_for_the_server_that_was_watched(
    run: Run, tmp_path: Path, watched: list[float]
) -> None:
    """The next command that it prints would load that server, which has users."""
    (tmp_path / "study.toml").write_text(TEXT)
    ran = run("profile", "study.toml", "--seconds", "600")
    assert watched == [600]
    assert (
        "wrote profile/study.toml\nits [target] is still the server that was watched: name a test server there first, "
        "or this load is added to that of its users\nnext: trimtab bench profile/study.toml\n"
    ) in ran.out


def test_a_watch_that_saw_nothing_leaves_no_folder(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def blind(*args: Any, **options: Any) -> dict[str, Profile]:
        raise LoadError("saw no statement", hint="watch longer")

    monkeypatch.setattr(profiling, "profile", blind)
    (tmp_path / "study.toml").write_text(TEXT)
    assert run("profile", "study.toml").code == 4
    assert not (tmp_path / "profile").exists()
