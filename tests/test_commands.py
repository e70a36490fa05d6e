"""Commands that are forked from a loaded process are processes as those that start an interpreter are."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests import commands
from tests.commands import start_trimtab

pytestmark = pytest.mark.slow

PIPES: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
SCRIPT = """import json, os, signal, sys
print(json.dumps({
    "pid": os.getpid(), "session": os.getsid(0), "cwd": os.getcwd(), "mine": os.environ.get("MINE"), "words": sys.argv[1:],
    "stdin": sys.stdin.read(), "handler": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
    "files": sorted(int(name) for name in os.listdir("/proc/self/fd")),
}))
sys.stdout.flush()
if "wait" in sys.argv:
    signal.pause()
"""


@pytest.fixture(params=[True, False], ids=["forked", "started"])
def is_forked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(commands, "IS_FULL", False)
    return bool(request.param)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def test_a_command_says_and_returns_what_it_does_in_an_interpreter_of_its_own(tmp_path: Path, is_forked: bool) -> None:
    process = start_trimtab(["tune", "none.toml"], env=os.environ, cwd=tmp_path, is_forked=is_forked, **PIPES)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert err == "error: there is no study file='none.toml'\nhint: `trimtab init` writes one\n"


def test_a_command_has_a_process_of_its_own(tmp_path: Path, script: Path, is_forked: bool) -> None:
    own: dict[str, Any] = {"cwd": tmp_path, "start_new_session": True, "script": script, "is_forked": is_forked}
    process = start_trimtab(["a", "b c"], env={**os.environ, "MINE": "4"}, **own, **PIPES)
    found = json.loads(process.communicate(timeout=60)[0])
    assert found == {
        "pid": process.pid, "session": process.pid, "cwd": str(tmp_path), "mine": "4", "words": ["a", "b c"], "stdin": "",
        "handler": True, "files": [0, 1, 2, 3],
    }  # fmt: skip
    assert process.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_command_alone(tmp_path: Path, script: Path, is_forked: bool, number: int) -> None:
    own: dict[str, Any] = {"cwd": tmp_path, "script": script, "is_forked": is_forked}
    processes = [start_trimtab(["wait"], env=os.environ, **own, **PIPES) for _ in range(2)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline()
        assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        processes[0].wait(0.1)
    processes[0].send_signal(number)
    processes[0].communicate(timeout=30)
    assert processes[0].returncode == -number
    time.sleep(0.05)
    assert processes[1].poll() is None
    processes[1].kill()
    processes[1].communicate(timeout=30)
    assert processes[1].returncode == -signal.SIGKILL


def test_who_connects_and_does_not_ask_keeps_nobody_waiting(
    tmp_path: Path, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "IS_FULL", False)
    with commands._server():
        process = start_trimtab([], env=os.environ, cwd=tmp_path, script=script, **PIPES)
        found = json.loads(process.communicate(timeout=60)[0])
    assert (found["pid"], found["files"]) == (process.pid, [0, 1, 2, 3])


def test_what_only_an_interpreter_can_read_starts_one(tmp_path: Path, script: Path) -> None:
    environment = {**os.environ, "PYTHONUTF8": "1"}
    process = start_trimtab([], env=environment, cwd=tmp_path, script=script, is_forked=True, **PIPES)
    assert type(process) is subprocess.Popen
    process.communicate(timeout=60)


def test_what_a_fork_cannot_give_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"a forked command takes no \['uid'\]"):
        commands._Forked(["python", "-m", "trimtab"], env={}, cwd=tmp_path, user=0)
