"""A scratch folder goes with its process; what a killed one has left is swept, and a living one's is not."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from trimtab.host import scratch_folder, sweep_scratch

HOLDS = """
import time
from trimtab.host import scratch_folder
with scratch_folder() as folder:
    (folder / "copy").write_text("secret")
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this process and its children make temporary files."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


@contextmanager
def holder() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process that holds a folder, and the folder."""
    with subprocess.Popen([sys.executable, "-c", HOLDS], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


def test_a_folder_is_gone_after_its_use(temporary: Path) -> None:
    with scratch_folder() as folder:
        assert folder.parent == temporary
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "copy").write_text("secret")
        sweep_scratch()
        assert (folder / "copy").exists()
    assert list(temporary.iterdir()) == []


def test_what_a_killed_process_has_left_is_swept_and_what_a_living_one_holds_is_not(temporary: Path) -> None:
    with holder() as (process, folder):
        sweep_scratch()
        assert (folder / "copy").exists()
        process.kill()
        process.wait()
        assert (folder / "copy").exists()
        sweep_scratch()
        assert not folder.exists()


def test_the_next_check_sweeps_too(temporary: Path) -> None:
    with holder() as (process, left):
        process.kill()
        process.wait()
        with scratch_folder() as folder:
            assert list(temporary.iterdir()) == [folder]
        assert not left.exists()


def test_an_empty_folder_may_be_one_that_is_just_being_made(temporary: Path) -> None:
    new, old = temporary / "trimtab-check-new", temporary / "trimtab-check-old"
    new.mkdir()
    old.mkdir()
    hour_ago = time.time() - 3600
    os.utime(old, (hour_ago, hour_ago))
    sweep_scratch()
    assert new.exists()
    assert not old.exists()


def test_a_link_is_not_followed(temporary: Path) -> None:
    kept = temporary / "kept"
    kept.mkdir()
    (kept / "file").touch()
    (temporary / "trimtab-check-link").symlink_to(kept)
    (temporary / "trimtab-check-file").touch()
    sweep_scratch()
    assert (kept / "file").exists()
    assert (temporary / "trimtab-check-file").exists()
