"""DeadMan: a small process beside the tuner that puts the target back when the tuner dies or falls silent.

    deadman = DeadMan.start(entry)        # before the first change
    deadman.wait_ready()
    applied = deadman.guard(lambda: target.apply(config))
    ...
    entry.close("restored")
    deadman.stop()                        # it ends: nothing is open any more

A stopped tuner (SIGSTOP, a debugger) may go on later, while the dead-man restores or after: `guard` makes a change again
that the dead-man has undone meanwhile, and `paused_s` tells that what was measured since is not a measurement.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from trimtab.errors import RestoreError, TargetError, TrimtabError
from trimtab.systems.credentials import hand_over, receive
from trimtab.trial.command_line import command_at
from trimtab.trial.entry import Entry
from trimtab.trial.journal import Journal
from trimtab.trial.undo import as_target_error, tell_later, undo
from trimtab.units import format_duration

__all__ = ["DeadMan", "relieved", "silence_s", "undo_for_tuner"]

T = TypeVar("T")

_SILENCE_S = 30.0
_READY_S = 20.0
_RESTORE_S = 600.0
"""For each target: a server may have a log to replay."""
_END_S = 10.0
_GONE_S = 0.2
_CLAIM_S = 300.0
_MAX_REPEATS = 3
_PAUSE_S = 3.0
"""Between two beats, which are a second apart at most: a busy machine delays one by far less."""


def silence_s() -> float:
    """Seconds of silence after which the tuner counts as gone: TRIMTAB_DEADMAN, 1 to 3600, else 30.

    Raises:
        TargetError: the variable holds something else.
    """
    text = os.environ.get("TRIMTAB_DEADMAN")
    if text is None:
        return _SILENCE_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1.0 <= seconds <= 3600.0:
        raise TargetError(
            f"TRIMTAB_DEADMAN={text!r} is not a number of seconds", hint="give 1 to 3600; 30 is the default"
        )
    return seconds


class _Heart:
    """Beats into the pipe, and knows the longest time between two beats by a clock that a sleeping machine does not stop."""

    def __init__(self, beats: int, every_s: float) -> None:
        self._beats = beats
        self._every_s = every_s
        self._stopping = threading.Event()
        self._last = time.clock_gettime(time.CLOCK_BOOTTIME)
        self._longest_s = 0.0
        self._thread = threading.Thread(target=self._beat, name="trimtab-heart", daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        while not self._stopping.wait(self._every_s):
            self._look()
            with suppress(OSError):  # the dead-man is gone: that shows where it is asked, and is no pause of the tuner
                os.write(self._beats, b".")

    def _look(self) -> None:
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        self._longest_s = max(self._longest_s, now - self._last)
        self._last = now

    def take_longest_s(self) -> float:
        """The longest gap since the last call, or the one that is still going on."""
        since = time.clock_gettime(time.CLOCK_BOOTTIME) - self._last
        longest, self._longest_s = max(self._longest_s, since), 0.0
        return longest

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()


class DeadMan:
    """See the module. Made by `start`."""

    def __init__(
        self, process: subprocess.Popen[bytes], beats: int, status: int, silence: float, n_targets: int = 1
    ) -> None:
        self._process = process
        self._beats = beats
        self._status = status
        self._silence_s = silence
        self._patience_s = _RESTORE_S * n_targets
        self._heart = _Heart(beats, min(silence / 4, 1.0))
        self._is_ready = False
        self._is_restoring = self._has_fired = False

    @classmethod
    def start(cls, entry: Entry) -> DeadMan:
        """Starts the process for `entry`; it may not be ready yet.

        Raises:
            TargetError: no process can be started; nothing may be changed then.
        """
        silence = silence_s()
        (beats_in, beats_out), (status_in, status_out), (secrets_in, secrets_out) = os.pipe(), os.pipe(), os.pipe()
        program = Path(__file__).with_name("deadman_process.py")
        words = [str(entry.path), str(os.getpid()), f"{silence:g}", str(beats_in), str(status_out), str(secrets_in)]
        modules = os.pathsep.join(os.path.abspath(p) for p in sys.path if p)
        try:
            process = subprocess.Popen(
                # Our own path comes with it: what an interpreter does at its start to find one is a third of that start.
                [sys.executable, "-S", str(program), *words, modules],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # In the tuner's folder: PGPASSFILE and its like may be relative to it.
                start_new_session=True,  # a hang-up or Ctrl-C is for the tuner alone
                pass_fds=(beats_in, status_out, secrets_in),
            )
            with suppress(BrokenPipeError):  # it has ended: `wait_ready` says so
                os.write(secrets_out, hand_over())
        except OSError as error:
            os.close(beats_out)
            os.close(status_in)
            raise TargetError(
                f"cannot start the dead-man process: {error.strerror}",
                hint="nothing was changed; without it a kill of Trimtab could leave the server changed",
            ) from error
        finally:
            os.close(beats_in)
            os.close(status_out)
            os.close(secrets_in)
            os.close(secrets_out)
        return cls(process, beats_out, status_in, silence, len(entry.snapshots))

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def wait_ready(self) -> None:
        """Back when it watches.

        Raises:
            TargetError: it does not, or does no more; nothing may be changed then.
        """
        if not self._is_ready:
            self._is_ready = self._read(_READY_S) == b"r"
            if not self._is_ready:
                with suppress(subprocess.TimeoutExpired):  # its end of the pipe is closed a moment before it is gone
                    self._process.wait(_GONE_S)
        exit_code = self._process.poll()
        if exit_code is not None:
            raise TargetError(
                f"the dead-man process does not run: exit_code={exit_code}",
                hint="nothing was changed by this step; was it killed? Start the command again",
            )
        if not self._is_ready:
            raise TargetError(
                f"the dead-man process is not ready after {_READY_S:g} s",
                hint="nothing was changed by this step; is the machine overloaded? Start the command again",
            )

    def _read(self, timeout_s: float) -> bytes:
        """One word; b"" when none came, or the process is gone."""
        ready, _, _ = select.select([self._status], [], [], timeout_s)
        return os.read(self._status, 1) if ready else b""

    def settle(self) -> bool:
        """Whether it has restored the target since the last call; waits while it is at it.

        Raises:
            RestoreError: it could not put the target back.
        """
        has_fired = False
        # A wait that was cut off (Ctrl-C) goes on: two that restore at once would be in each other's way.
        while self._is_restoring or (word := self._read(0.0)):
            if not self._is_restoring:
                if word == b"r":  # asked for before anybody waited for it
                    self._is_ready = True
                if word != b"R":
                    continue
            has_fired = self._has_fired = self._is_restoring = True
            end = self._read(self._patience_s)
            self._is_restoring = False
            if end != b"D":
                raise RestoreError(
                    "Trimtab was stopped for too long, and the dead-man could not put the server back",
                    hint="run `trimtab recover`; it says how to do it by hand when it cannot either",
                )
        return has_fired

    def is_firing(self) -> bool:
        """Whether it has begun to restore the target since the last call of `settle`; does not wait for it.

        Takes no word away: `settle` still learns what has become of it.
        """
        ready, _, _ = select.select([self._status], [], [], 0.0)
        return bool(ready)

    def has_fired(self) -> bool:
        """Whether it has restored the target, or tried to, since the last call."""
        with suppress(RestoreError):
            self.settle()
        found, self._has_fired = self._has_fired, False
        return found

    def guard(self, change: Callable[[], T], *, even_alone: bool = False) -> T:
        """Makes a change, and again when the dead-man has interfered; `even_alone`: also when it runs no more (a restore).

        Raises:
            TargetError: the dead-man does not run (the change is not made), or interferes again and again.
            RestoreError: it has interfered, and failed; a restore is made again then, too.
        """
        settle = self._settle_for_restore if even_alone else self.settle
        for _ in range(_MAX_REPEATS):
            if not even_alone:
                self.wait_ready()
            settle()
            try:
                result = change()
            except TrimtabError:
                if settle():
                    continue
                raise
            if not settle():
                return result
        raise TargetError(
            f"Trimtab was suspended several times for more than {format_duration(self._silence_s)}",
            hint="is the machine overloaded or suspended? TRIMTAB_DEADMAN sets another time",
        )

    def _settle_for_restore(self) -> bool:
        """As `settle`, before or after a restore: that makes up for one that it could not make."""
        try:
            return self.settle()
        except RestoreError:
            return True

    def paused_s(self) -> float:
        """How long the tuner stood still since the last call, when that is too long for a measurement; else 0."""
        longest = self._heart.take_longest_s()
        return longest if longest > _PAUSE_S else 0.0

    def stop(self) -> None:
        """Lets it end without restoring: the entry is closed. Idempotent."""
        if self._beats < 0:
            return
        self._heart.stop()
        with suppress(OSError):  # it was killed
            os.write(self._beats, b"c")
        os.close(self._beats)
        os.close(self._status)
        self._beats = -1
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def relieved(deadman: DeadMan, entry: Entry) -> Iterator[None]:
    """Lets the dead-man of `entry` end after what is done inside: that is closed, or an error says what is left to the user.

    It goes on to watch when that was cut off (a signal, a bug): it makes the way back once this process has ended.
    """
    try:
        yield
    except TrimtabError:
        deadman.stop()
        raise
    except BaseException:
        if not entry.is_open:
            deadman.stop()
        raise
    deadman.stop()


def undo_for_tuner(path: str, *, is_tuner_gone: bool, why: str, secrets: bytes = b"") -> bool:
    """What the dead-man's process does: undoes the entry at `path`; whether its targets are well.

    `secrets` is what the tuner has handed over to log in with.

    The entry is closed when the tuner is gone, and stays open for a tuner that is only stopped. The outcome goes into
    the journal, the audit log, and to the next command.
    """
    receive(secrets)
    file = Path(path)
    try:
        entry = Journal(file.parent.parent).open_entry(file)
    except (TrimtabError, OSError) as error:
        found = as_target_error(error, f"entry={file.name} could not be read")
        with suppress(OSError):
            tell_later(file.parent.parent, f"Trimtab was {why}; the dead-man could not restore: {found.message}")
        return False
    if entry is None:
        return True
    with entry.claim(_CLAIM_S) as is_ours:
        if not is_ours:
            return True
        text = f"study {entry.study}: Trimtab (pid {entry.pid}) was {why}; the dead-man "
        try:
            entry.note_if_possible("deadman restores", {"why": why})
            done = undo(entry, holder=f"dead-man of {entry.study}", is_tuner_gone=is_tuner_gone)
        except (TrimtabError, OSError) as error:
            why = as_target_error(error, f"entry={file.name} could not be undone").message
            entry.note_if_possible("deadman failed", {"error": why})
            with suppress(OSError):
                way_out = command_at(entry.state_dir, "trimtab recover")
                tell_later(entry.state_dir, f"{text}could not restore it: {why}; run `{way_out}`")
            return False
        entry.note_if_possible("deadman restored", {"what": done})
        targets = ", ".join(snapshot.target for snapshot in entry.snapshots)
        with suppress(OSError):  # a full disk must not keep the entry open
            tell_later(entry.state_dir, f"{text}put target {targets} back: {done}")
        if is_tuner_gone:
            entry.close(f"Trimtab was {why}: {done}", by="dead-man")
        return True
