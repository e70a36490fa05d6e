"""The suite on machines that are not as its authors' are: a private umask, no home, small memory, a path with spaces."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import fetch_servers
from tests.commands import without_spaces
from tests.servers import run

ROOT = Path(__file__).parents[1]
SUITE = """
import os
from pathlib import Path
from tests.servers import new_folder, run_folder, template
from trimtab.systems.account import cache_root

def test_folders():
    folders = [new_folder(), template("t", lambda folder: None), run_folder()]
    assert [folder.stat().st_mode & 0o777 for folder in folders] == [0o755] * 3
    assert cache_root() == run_folder() / "cache"
"""


@pytest.mark.slow
def test_servers_users_enter_what_tests_make_and_the_users_own_cache_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(SUITE)
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_configure as pytest_configure\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"], cwd=tmp_path, umask=0o077,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("free", "flags", "is_taken"), [(8 << 30, 0, True), (64 << 20, 0, False), (8 << 30, os.ST_NOEXEC, False)]
)
def test_memory_that_is_small_or_takes_no_programs_holds_no_run(
    monkeypatch: pytest.MonkeyPatch, free: int, flags: int, is_taken: bool
) -> None:
    found = SimpleNamespace(f_bavail=free // 4096, f_frsize=4096, f_flag=flags)
    monkeypatch.setattr(os, "access", lambda path, mode: True)
    monkeypatch.setattr(os, "statvfs", lambda path: found)
    assert run._memory() == (Path("/dev/shm") if is_taken else None)


def test_a_home_that_may_not_be_looked_into_holds_no_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """As root's after `su` without a dash."""
    stat = os.stat

    def refused(path: Any, **more: Any) -> os.stat_result:
        if str(path).startswith("/locked/"):
            raise PermissionError(13, "Permission denied")
        return stat(path, **more)

    for name in ("HOME", "PROGRAMS", "APPLICATIONS"):
        monkeypatch.setattr(fetch_servers, name, Path("/locked/home"))
    monkeypatch.setattr(os, "stat", refused)
    assert fetch_servers.server_program(fetch_servers.MYSQL_8_0) is None
    assert not fetch_servers.has_applications()
    assert not fetch_servers.has_program("cassandra")


def test_an_interpreter_in_a_path_with_spaces_is_one_word_of_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.commands.run_folder", lambda: tmp_path)
    assert without_spaces("/a/.venv/bin/python3") == "/a/.venv/bin/python3"
    program = tmp_path / "my work" / ".venv" / "bin" / "python3"
    program.parent.mkdir(parents=True)
    program.symlink_to(sys.executable)
    for _ in range(2):
        word = without_spaces(str(program))
        assert shlex.split(word) == [word]
        assert Path(word).samefile(program)


def test_an_environment_that_was_made_in_part_is_made_again(tmp_path: Path) -> None:
    """Without python3-venv Debian's Python makes one that has no pip, and says which package to install."""
    python, venv = tmp_path / "python", tmp_path / ".venv"
    half = f"mkdir -p {venv}/bin; touch {venv}/bin/python; echo 'apt install python3-venv'; exit 1"
    python.write_text(f'#!/bin/sh\ntest "$1" = -c || {{ {half}; }}\n')
    python.chmod(0o755)
    for _ in range(2):
        done = subprocess.run(
            ["make", "-f", ROOT / "Makefile", f"PYTHON={python}", ".venv/bin/python"], cwd=tmp_path, capture_output=True,
            text=True, check=False, env={"PATH": os.environ["PATH"]},
        )  # fmt: skip
        assert done.returncode == 2
        assert "apt install python3-venv" in done.stdout
        assert not venv.exists()
