"""The dead-man's own process: waits for the tuner to fall silent, then undoes the journal entry it was given.

    python deadman_process.py ENTRY.open TUNER_PID SILENCE_S BEATS_FD STATUS_FD SECRETS_FD MODULES

It is started as a file, not as a module, so that while it waits it holds nothing but the interpreter: Trimtab is imported
when there is something to restore, from the folders MODULES. They are no PYTHONPATH: what it starts would have it too.

It is told by the tuner through BEATS_FD: "." I live, "c" the entry is closed; the end of the pipe, or of the process, is the
tuner's death. It tells the tuner through STATUS_FD: "r" ready, "R" restoring (the tuner fell silent), "D" done, "F" failed.
What it needs to log in to the target comes through SECRETS_FD at its start.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

_READY, _RESTORING, _DONE, _FAILED = b"r", b"R", b"D", b"F"
_OOM_SCORE = "-500"
"""While it waits: the kernel should take the tuner or the server first."""


class _Tuner:
    """What is known of the tuner, by its pipe and its process."""

    def __init__(self, pid: int, beats: int) -> None:
        self._beats = beats
        self._poll = select.poll()
        self._poll.register(beats, select.POLLIN)
        try:
            self._process = os.pidfd_open(pid)
            self._poll.register(self._process, select.POLLIN)
        except (OSError, AttributeError):
            # Gone before we came, or no such call: kernels before 5.3, containers that forbid it. The pipe says so too.
            self._process = -1
        self.is_dead = False
        self.has_closed = False

    def listen(self, timeout_s: float) -> bool:
        """Waits for a word; whether one came."""
        ready = [handle for handle, _ in self._poll.poll(max(0, int(timeout_s * 1000)))]
        if self._beats in ready:
            words = os.read(self._beats, 4096)
            self.has_closed = self.has_closed or b"c" in words
            if not words:
                self.is_dead = True
                self._poll.unregister(self._beats)
            return bool(words)
        self.is_dead = self.is_dead or self._process in ready
        return False


def watch(entry: str, pid: int, silence_s: float, beats: int, status: int, secrets: int, oom_score: str = "") -> int:
    """Until the entry is closed, or has been undone because the tuner died; undone with `oom_score`."""
    tuner = _Tuner(pid, beats)
    with os.fdopen(secrets, "rb") as pipe:
        handed = pipe.read()
    _tell(status, _READY)
    heard_at = time.monotonic()
    has_fired = False
    while not (tuner.has_closed or tuner.is_dead):
        asked_at = time.monotonic()
        step_s = min(silence_s / 4, 1.0)
        if tuner.listen(step_s):
            heard_at, has_fired = time.monotonic(), False
        elif time.monotonic() - asked_at > step_s + silence_s / 2:
            heard_at = time.monotonic()  # we were stopped as well (the machine slept): give the tuner its time again
        elif time.monotonic() - heard_at > silence_s and not (has_fired or tuner.is_dead):
            has_fired = True
            _tell(status, _RESTORING)
            is_done = _undo(entry, handed, oom_score, is_tuner_gone=False, why=f"silent for {silence_s:g}s")
            _tell(status, _DONE if is_done else _FAILED)
    if tuner.has_closed:
        return 0
    return 0 if _undo(entry, handed, oom_score, is_tuner_gone=True, why="dead") else 1


def _tell(status: int, word: bytes) -> None:
    try:
        os.write(status, word)
    except OSError:
        return  # nobody reads it any more


def _undo(entry: str, secrets: bytes, oom_score: str, *, is_tuner_gone: bool, why: str) -> bool:
    from trimtab.trial.deadman import undo_for_tuner

    if oom_score:  # a server that it restarts would have this one's
        _set_oom_score(oom_score)
    return undo_for_tuner(entry, is_tuner_gone=is_tuner_gone, why=why, secrets=secrets)


def _set_oom_score(score: str) -> str:
    """How late the kernel takes this process, and those that it starts, when memory runs out; what it was before.

    Only root may make it lower. "" where it cannot be known or set.
    """
    try:
        with open("/proc/self/oom_score_adj", "r+", encoding="ascii") as file:
            before = file.read().strip()
            file.seek(0)
            file.write(score)
        return before
    except OSError:
        return ""


def main(arguments: list[str]) -> int:
    """See the module."""
    entry, pid, silence_s, beats, status, secrets, modules = arguments
    # Without the folder of this file, whose modules would shadow some of the standard library.
    sys.path[:] = modules.split(os.pathsep)
    # Not SIG_IGN: what it starts would ignore them too, and a Java server that ignores SIGTERM cannot be stopped in order.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    oom_score = _set_oom_score(_OOM_SCORE)
    return watch(entry, int(pid), float(silence_s), int(beats), int(status), int(secrets), oom_score)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
