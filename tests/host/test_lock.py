"""A file lock has one holder, whose death frees it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from trimtab.host import FileLock


def test_the_second_is_refused_and_sees_the_first(tmp_path: Path) -> None:
    first, second = FileLock(tmp_path / "a/lock"), FileLock(tmp_path / "a/lock")
    assert first.acquire("study=one")
    assert not second.acquire("study=two")
    assert second.holder() == "study=one"
    first.describe("study=three")
    assert second.holder() == "study=three"
    first.release()
    first.release()
    assert second.acquire("study=two")
    assert second.is_held
    second.release()


def test_taking_it_twice_is_fine(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "lock")
    assert lock.acquire("a")
    assert lock.acquire("b")
    lock.release()
    assert not lock.is_held


def test_nobody_holds_a_missing_file(tmp_path: Path) -> None:
    assert FileLock(tmp_path / "none").holder() == ""


def test_the_holders_death_frees_it(tmp_path: Path) -> None:
    script = (
        "import sys,time; from pathlib import Path; from trimtab.host import FileLock;"
        f"lock = FileLock(Path({str(tmp_path / 'lock')!r})); lock.acquire('dead');"
        "print('held', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        lock = FileLock(tmp_path / "lock")
        assert not lock.acquire("me")
        process.kill()
        process.wait()
    assert lock.acquire("me")
    lock.release()
