"""Whether a process lives, ends or is gone."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from trimtab.host import (
    is_ending,
    is_running,
    process_mark,
    process_name,
    process_numbers,
    process_ticks,
    process_title,
)
from trimtab.systems.process import await_end


def test_a_living_process_is_not_ending() -> None:
    assert is_running(os.getpid())
    assert not is_ending(os.getpid())
    before = time.monotonic()
    await_end(os.getpid)
    assert time.monotonic() - before < 5


def test_a_killed_process_is_ending_until_it_is_reaped() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    child.kill()
    until = time.monotonic() + 30
    while not is_ending(child.pid) and time.monotonic() < until:
        time.sleep(0.01)
    assert is_ending(child.pid)
    await_end(lambda: child.pid if child.poll() is None else None)
    assert child.returncode == -9
    assert not is_ending(child.pid)
    await_end(lambda: None)


def test_a_process_has_a_title_and_uses_processor_time() -> None:
    assert "python" in process_title(os.getpid())
    assert process_ticks(os.getpid()) > 0


def test_a_process_that_is_gone_has_neither() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert (process_title(child.pid), process_ticks(child.pid)) == ("", 0)


def test_a_name_that_the_kernel_has_cut_off_in_the_middle_of_a_letter() -> None:
    """As that of a program with 14 letters before an umlaut: its bytes are no text."""
    child = subprocess.Popen(["sh", "-c", r"printf 'seven (7)\303' > /proc/self/comm; echo; read end"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
    try:
        assert child.stdout is not None
        child.stdout.readline()
        assert process_name(child.pid) == "seven (7)\N{REPLACEMENT CHARACTER}"
        assert process_numbers(child.pid)[0] == child.pid
        assert process_mark(child.pid)
        assert is_running(child.pid)
    finally:
        child.kill()
        child.communicate()
