"""Whether a MySQL server is down by somebody's will: seen from its pid file, also while it is just ending."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trimtab.systems.mysql import undo
from trimtab.systems.mysql.change import OptionFile


class Reach:
    """A server that ends at the `n`-th look; its pid file is gone already when it was stopped."""

    no_restart = ""

    def __init__(self, pid_file: Path, n: int) -> None:
        self.pid_file, self.n = pid_file, n

    def is_up(self) -> bool:
        self.n -= 1
        return self.n > 0


def was_stopped(reach: Reach) -> bool:
    found: Any = OptionFile.__new__(OptionFile)
    found._reach, found._is_as_left = reach, False
    return bool(found._was_stopped(was_up=False))


def test_one_that_is_just_ending_was_stopped(tmp_path: Path) -> None:
    assert was_stopped(Reach(tmp_path / "pid", n=5))


def test_one_that_died_left_its_pid_file(tmp_path: Path) -> None:
    (tmp_path / "pid").write_text("1")
    assert not was_stopped(Reach(tmp_path / "pid", n=0))


def test_one_that_runs_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pid").write_text("1")
    monkeypatch.setattr(undo.time, "sleep", None)
    assert not was_stopped(Reach(tmp_path / "pid", n=100))


def test_the_wait_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undo, "_STOP_S", 0.05)
    assert not was_stopped(Reach(tmp_path / "pid", n=10**9))
