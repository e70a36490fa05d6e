"""The dead-man seen from the tuner: it runs before the first change, and what it did is noticed."""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
import sys
import threading
import time
from importlib import import_module
from pathlib import Path

import pytest

from tests.commands import PYTHON
from trimtab.errors import RestoreError, TargetError
from trimtab.host import read_state_file
from trimtab.systems import Snapshot
from trimtab.trial import DeadMan, Journal, deadman_process, signals_wait, take_news
from trimtab.trial.deadman import relieved, silence_s
from trimtab.trial.journal import Entry
from trimtab.trial.undo import tell_later


@pytest.fixture
def entry(tmp_path: Path) -> Entry:
    snapshot = Snapshot(target="db", kind="fake", reach={})
    return Journal(tmp_path).begin(snapshot, study="s", purpose="tune")


def test_it_ends_when_the_entry_is_closed(entry: Entry) -> None:
    deadman = DeadMan.start(entry)
    deadman.wait_ready()
    assert os.getsid(deadman.pid) == deadman.pid
    entry.close("restored")
    deadman.stop()
    deadman.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(deadman.pid, 0)


def test_no_change_is_made_without_it_and_a_restore_is(entry: Entry) -> None:
    deadman = DeadMan.start(entry)
    deadman.wait_ready()
    os.kill(deadman.pid, signal.SIGKILL)
    os.waitid(os.P_PID, deadman.pid, os.WEXITED | os.WNOWAIT)
    done: list[str] = []
    with pytest.raises(TargetError, match="the dead-man process does not run: exit_code=-9") as caught:
        deadman.guard(lambda: done.append("change"))
    assert str(caught.value.hint).startswith("nothing was changed by this step")
    deadman.guard(lambda: done.append("restore"), even_alone=True)
    assert done == ["restore"]
    deadman.stop()


def test_it_does_not_end_by_signals_and_what_it_starts_does(entry: Entry) -> None:
    """A signal that it ignored would be ignored by every server that it starts."""
    deadman = DeadMan.start(entry)
    deadman.wait_ready()
    words = dict(line.split(":\t", 1) for line in Path(f"/proc/{deadman.pid}/status").read_text().splitlines())
    ignored, caught = int(words["SigIgn"], 16), int(words["SigCgt"], 16)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        assert not ignored & 1 << number - 1
        assert caught & 1 << number - 1
    entry.close("restored")
    deadman.stop()


def test_what_it_starts_is_taken_as_early_as_before_when_memory_runs_out() -> None:
    code = f"""
import runpy, sys, types
def score(*_, **__):
    print(open("/proc/self/oom_score_adj").read().strip())
    return True
sys.modules["trimtab.trial.deadman"] = types.SimpleNamespace(undo_for_tuner=score)
process = runpy.run_path({deadman_process.__file__!r})
score()
found = process["_set_oom_score"]("900")
score()
process["_undo"]("entry", b"", found, is_tuner_gone=True, why="dead")
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert told == [told[0], "900", told[0]]


def test_what_it_starts_has_the_tuners_environment(entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart command may start a program in Python, which must not find Trimtab's modules before its own."""
    monkeypatch.setenv("PYTHONPATH", "/of/the/user")
    deadman = DeadMan.start(entry)
    deadman.wait_ready()
    words = Path(f"/proc/{deadman.pid}/environ").read_bytes().split(b"\0")
    found = dict(word.split(b"=", 1) for word in words if word)
    # Where a module of this process has loaded readline, that has set these two, and Python does not know of it.
    by_readline = {name: found[name] for name in (b"LINES", b"COLUMNS") if name in found}
    assert found == by_readline | dict(os.environb)
    entry.close("restored")
    deadman.stop()


@pytest.mark.parametrize(
    "error", [PermissionError(1, "Operation not permitted"), OSError(38, "Function not implemented")]
)
def test_a_kernel_or_container_without_handles_of_processes_has_the_pipe(
    monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    def refuse(pid: int) -> int:
        raise error

    monkeypatch.setattr(os, "pidfd_open", refuse)
    ours, theirs = os.pipe()
    tuner = deadman_process._Tuner(os.getpid(), ours)
    assert not tuner.listen(0.0)
    assert not tuner.is_dead
    os.close(theirs)
    tuner.listen(1.0)
    assert tuner.is_dead
    os.close(ours)


def test_a_wait_for_its_restore_that_a_signal_cuts_off_goes_on_before_ours(entry: Entry) -> None:
    """Two would restore at once: Ctrl-C twice, just after a tuner that was stopped goes on."""
    deadman = DeadMan.start(entry)
    deadman.wait_ready()
    (status_in, status_out), before = os.pipe(), deadman._status
    deadman._status = status_in
    os.write(status_out, b"R")
    done: list[str] = []

    def ends() -> None:
        done.append("its restore")
        os.write(status_out, b"D")

    threading.Timer(0.05, signal.pthread_kill, (threading.get_ident(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        deadman.settle()
    threading.Timer(0.05, ends).start()
    deadman.guard(lambda: done.append("our restore"), even_alone=True)
    assert done == ["its restore", "our restore"]
    assert deadman.has_fired()
    deadman._status = before
    os.close(status_in)
    os.close(status_out)
    entry.close("restored")
    deadman.stop()


@pytest.mark.parametrize(
    ("error", "is_closed", "goes_on"),
    [
        (KeyboardInterrupt(), False, True),
        (KeyError("a bug"), False, True),
        (KeyboardInterrupt(), True, False),
        (RestoreError("it is said what to do"), False, False),
    ],
)
def test_it_goes_on_where_the_way_back_was_cut_off(
    entry: Entry, error: BaseException, is_closed: bool, goes_on: bool
) -> None:
    deadman = DeadMan.start(entry)
    deadman.wait_ready()
    if is_closed:
        entry.close("restored")
    with pytest.raises(type(error)), relieved(deadman, entry):
        raise error
    assert (deadman._process.poll() is None) is goes_on
    deadman.stop()


def test_it_cannot_be_started(entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_process(*args: object, **options: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", no_process)
    with pytest.raises(
        TargetError, match="cannot start the dead-man process: Resource temporarily unavailable"
    ) as caught:
        DeadMan.start(entry)
    assert str(caught.value.hint).startswith("nothing was changed")


def wait_for_word(deadman: DeadMan) -> None:
    """Until the process has written something that nobody has read."""
    ready, _, _ = select.select([deadman._status], [], [], 20)
    assert ready


def test_its_first_word_counts_whoever_reads_it(entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trial room asks what it has done before it waits for it: the word that it watches must not be lost there."""
    monkeypatch.setattr("trimtab.trial.deadman._READY_S", 0.5)
    deadman = DeadMan.start(entry)
    try:
        wait_for_word(deadman)
        assert not deadman.settle()
        deadman.wait_ready()
        assert deadman.guard(lambda: "changed") == "changed"
    finally:
        entry.close("restored")
        deadman.stop()


def test_no_change_is_made_before_it_watches(entry: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go, slow = tmp_path / "go", tmp_path / "slow-python"
    slow.write_text(f'#!/bin/sh\nwhile [ ! -e {go} ]; do sleep 0.02; done\nexec {PYTHON} "$@"\n')
    slow.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", str(slow))
        deadman = DeadMan.start(entry)
    monkeypatch.setattr("trimtab.trial.deadman._READY_S", 0.3)
    done: list[str] = []
    try:
        with pytest.raises(TargetError, match="the dead-man process is not ready after 0.3 s"):
            deadman.guard(lambda: done.append("too early"))
        assert done == []
        go.touch()
        wait_for_word(deadman)
        deadman.guard(lambda: done.append("watched"))
        assert done == ["watched"]
    finally:
        entry.close("restored")
        deadman.stop()


@pytest.mark.parametrize("is_waited_for", [True, False])
def test_told_to_stand_down_it_restores_nothing(entry: Entry, tmp_path: Path, is_waited_for: bool) -> None:
    """After a restore that failed the entry is still open: it is for `recover`, which can tell the user what to do."""
    deadman = DeadMan.start(entry)
    if is_waited_for:
        deadman.wait_ready()
    deadman.stop()
    assert deadman._process.returncode == 0
    assert [each.path for each in Journal(tmp_path).open_entries()] == [entry.path]
    assert entry.steps() == []
    assert take_news(tmp_path) == ()


@pytest.mark.slow
def test_when_it_was_stopped_as_well_the_tuner_gets_its_time_again(
    entry: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the sleep of a machine both go on at once, and whichever comes first must not take the other for gone."""
    monkeypatch.setenv("TRIMTAB_DEADMAN", "1")
    deadman = DeadMan.start(entry)
    try:
        deadman.wait_ready()
        deadman._heart.stop()
        os.kill(deadman.pid, signal.SIGSTOP)
        time.sleep(1.2)
        os.kill(deadman.pid, signal.SIGCONT)
        assert select.select([deadman._status], [], [], 0.5)[0] == []
        wait_for_word(deadman)  # it was silent for a second of its own: now it is taken for gone
        assert deadman._read(0) == b"R"
    finally:
        entry.close("restored")
        deadman.stop()


def fake_words(deadman: DeadMan, monkeypatch: pytest.MonkeyPatch, words: list[bytes]) -> None:
    monkeypatch.setattr(deadman, "_read", lambda timeout_s: words.pop(0) if words else b"")


def test_a_change_that_it_undid_is_made_again(entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    deadman = DeadMan.start(entry)
    deadman.wait_ready()
    fake_words(deadman, monkeypatch, [b"", b"R", b"D"])
    n_made: list[int] = []
    deadman.guard(lambda: n_made.append(1))
    assert len(n_made) == 2
    assert deadman.has_fired()
    assert not deadman.has_fired()
    fake_words(deadman, monkeypatch, [b"", *[b"R", b"D", b"", b""] * 3])
    with pytest.raises(TargetError, match="was suspended several times for more than 30s") as caught:
        deadman.guard(lambda: None)
    assert "TRIMTAB_DEADMAN" in str(caught.value.hint)
    fake_words(deadman, monkeypatch, [b"R", b"F"])
    with pytest.raises(RestoreError, match="the dead-man could not put the server back") as failed:
        deadman.settle()
    assert str(failed.value.hint).startswith("run `trimtab recover`")
    deadman.stop()


def test_a_restore_makes_up_for_one_that_it_could_not_make(entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    """It fires in the middle of the tuner's own restore, and fails; then that is made again, and is all that counts."""
    deadman = DeadMan.start(entry)
    deadman.wait_ready()
    fake_words(deadman, monkeypatch, [b"", b"R", b"F"])
    n_made: list[int] = []
    deadman.guard(lambda: n_made.append(1), even_alone=True)
    assert len(n_made) == 2
    deadman.stop()


def test_its_death_is_no_pause_of_the_tuner(entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials would be repeated for a suspended machine, and the study ended for that."""
    monkeypatch.setenv("TRIMTAB_DEADMAN", "1")
    monkeypatch.setattr("trimtab.trial.deadman._PAUSE_S", 1.0)
    deadman = DeadMan.start(entry)
    deadman.wait_ready()
    os.kill(deadman.pid, signal.SIGKILL)
    os.waitid(os.P_PID, deadman.pid, os.WEXITED | os.WNOWAIT)
    deadman.paused_s()
    time.sleep(1.6)
    assert deadman.paused_s() == 0.0
    deadman.stop()


@pytest.mark.parametrize("text", ["soon", "0.5", "1e9", "nan", ""])
def test_its_time_must_be_a_number_of_seconds(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIMTAB_DEADMAN", text)
    with pytest.raises(TargetError, match="is not a number of seconds") as caught:
        silence_s()
    assert caught.value.hint == "give 1 to 3600; 30 is the default"


def test_news_are_told_once(tmp_path: Path, entry: Entry) -> None:
    tell_later(tmp_path, "study s: put back")
    assert take_news(tmp_path) == ("study s: put back",)
    assert take_news(tmp_path) == ()


def test_news_that_another_command_has_just_taken_are_none(
    tmp_path: Path, entry: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell_later(tmp_path, "study s: put back")
    read = read_state_file

    def taken_first(path: Path) -> bytes:
        path.unlink()
        return read(path)

    monkeypatch.setattr(import_module("trimtab.trial.undo"), "read_state_file", taken_first)
    assert take_news(tmp_path) == ()


def test_signals_wait_and_are_not_lost() -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: came.append(number))
    try:
        with signals_wait():
            os.kill(os.getpid(), signal.SIGTERM)
            assert came == []
        assert came == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_news_that_cannot_be_removed_are_told_and_stop_no_command(
    tmp_path: Path, entry: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that has become read-only must not keep `recover` from its work."""
    tell_later(tmp_path, "study s: put back")

    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setattr(Path, "unlink", refuse)
    assert take_news(tmp_path) == take_news(tmp_path) == ("study s: put back",)
