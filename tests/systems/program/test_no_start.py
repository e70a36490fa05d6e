"""Starts after which no program is there: what is said of them, and how long it is waited for one."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.systems.program.conftest import made
from tests.systems.program.test_process import commanded
from trimtab.errors import TargetError
from trimtab.systems import user_lifecycle
from trimtab.systems.program import ProgramTarget

__all__ = ["commanded"]


def test_one_of_which_nothing_comes_is_not_waited_for_to_the_end(
    folder: Path, commanded: Callable[[str], ProgramTarget], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a service whose program dies at once: `systemctl restart` has ended well by then."""
    monkeypatch.setattr(user_lifecycle, "_ABSENT_S", 0.2)
    monkeypatch.setattr(user_lifecycle, "_TIMES_AWAY", 0)
    reach = commanded(f"test ! -e {folder}/dead || {{ kill $(cat {folder}/pid); exit 0; }}")._reach
    reach.restart()
    (folder / "dead").touch()
    began = time.monotonic()
    with pytest.raises(TargetError, match="the program is down"):
        reach.restart()
    assert time.monotonic() - began < 8, "restart_timeout_s is 10"
    (folder / "dead").unlink()
    reach.ensure_up()


def test_a_program_that_goes_into_the_background_is_told_to_stay(folder: Path) -> None:
    """As redis-server does with the file of Debian's package, `daemonize yes`: it ran on, and "the program is down"."""
    target = made(folder, run="sh -c 'sleep 0.5 & true'", health="sleep 0.4")
    with pytest.raises(TargetError, match="the command ended with exit_code=0, and left no program") as caught:
        target.open()
    assert "in the foreground" in (caught.value.hint or "")
    target.close()
