"""A private server after a power cut: the next study takes back what a killed one has set, also with another state directory."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.commands import start_trimtab
from tests.faults import killed_at
from tests.service.conftest import Place

pytestmark = pytest.mark.service

TARGET = 'embedded = "18"\nknobs = ["work_mem", "shared_buffers"]'
BENCH = ("bench", "study.toml", "--runs", "1", "--set", "work_mem=8MB")
APPLY = "trimtab.systems.postgresql.target:PostgresTarget.apply"


# The quick form of False: T8 of tests/faults/test_tuner_killed.py, with the same state directory.
@pytest.mark.parametrize("is_removed", [True, pytest.param(False, marks=pytest.mark.full)])
def test_what_a_killed_study_has_left_is_taken_back(place: Place, is_removed: bool) -> None:
    place.write(TARGET)
    killed = start_trimtab(
        [f"{APPLY}:after:1", "--", *BENCH, "--state", "first"], script=Path(killed_at.__file__), cwd=place.folder,
        env={**place.environment, "TT_KILL_DEADMAN": "1"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    _, err = killed.communicate(timeout=300)
    assert killed.returncode == -signal.SIGKILL, err
    assert b"work_mem" in place.auto_conf()
    if is_removed:
        shutil.rmtree(place.folder / "first")
    ran = place.run(*BENCH, "--state", "second")
    assert ran.code == 0, ran.err
    assert "a killed study='e2e' had left target='db' changed: restored as it was found" in ran.err
    assert b"work_mem" not in place.auto_conf()
    for state in ("first", "second"):
        assert place.run("recover", "--check", "--state", state).out == "nothing is open\n"
