"""Program: a command line with places for knobs, run once for a config, and what of it is measured."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from trimtab.errors import UsageError
from trimtab.space import Config, Value

__all__ = ["MEASURES", "Outcome", "Program"]

MEASURES = ("wall", "user", "system", "output")
"""Seconds on the clock, of the processor in the program, in the kernel; or the last number that it prints."""

_PLACE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_.-]*)\}")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_KEPT = 1 << 16
"""Bytes of the end of what the program prints that are looked at."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run gave: a value, or why there is none, with a status that a trial may have."""

    value: float | None
    reason: str = ""
    status: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program and how it is measured.

    Attributes:
        command: its words; `{knob}` in them stands for a value. It is run without a shell.
        measure: one of MEASURES.
        timeout_s: after which it is killed, with all its children.
        true, false: how booleans are written.
    """

    command: tuple[str, ...]
    measure: str = "wall"
    timeout_s: float = 3600.0
    true: str = "true"
    false: str = "false"

    def check(self, knobs: Sequence[str]) -> None:
        """Raises UsageError unless there is such a program, every knob has a place, and every place like a knob's is one.

        Before a session is begun: one that could not run anything would keep its name from the next try.
        """
        if not self.command:
            raise UsageError(
                "no program is given", hint="write it behind --, as in: trimtab exec … -- program --level {level}"
            )
        if not _PLACE.search(self.command[0]) and shutil.which(self.command[0]) is None:
            raise _no_program(self.command[0], "No such file or directory, or it may not be run")
        places = {name for word in self.command for name in _PLACE.findall(word)}
        lacking = [name for name in knobs if name not in places]
        if lacking:
            raise UsageError(
                f"knob={lacking[0]!r} has no place in the command",
                hint=f"write {{{lacking[0]}}} where its value belongs",
            )
        foreign = sorted(places - set(knobs))
        if foreign:
            raise UsageError(
                f"{{{foreign[0]}}} in the command is not a knob", hint=f"define it, as in --int {foreign[0]}=1:9"
            )

    def words(self, config: Config) -> list[str]:
        """The command with the values of `config`."""
        return [_PLACE.sub(lambda match: self._text(config[match[1]]), word) for word in self.command]

    def _text(self, value: Value) -> str:
        return (self.true if value else self.false) if isinstance(value, bool) else str(value)

    def run(self, config: Config) -> Outcome:
        """Runs it once.

        Raises:
            UsageError: there is no such program, or it may not be run.
        """
        words = self.words(config)
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        try:
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise _no_program(words[0], str(error.strerror)) from error
        is_late, printed = self._wait(process)
        seconds = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if is_late:
            return Outcome(None, f"not done after {self.timeout_s:g} s", "timed_out")
        if process.returncode != 0:
            last = printed.decode(errors="replace").strip().splitlines()[-5:]
            ended = (
                f"exit code {process.returncode}"
                if process.returncode > 0
                else f"killed by signal {-process.returncode}"
            )
            return Outcome(None, "\n".join([ended, *last]), "crashed")
        if self.measure == "output":
            return _printed(printed)
        spent = {"wall": seconds, "user": after.ru_utime - before.ru_utime, "system": after.ru_stime - before.ru_stime}
        # A figure of 0 is one that the system's clock is too coarse for.
        return Outcome(max(spent[self.measure], 1e-6))

    def _wait(self, process: subprocess.Popen[bytes]) -> tuple[bool, bytes]:
        """Whether it had to be killed, and the end of what it printed."""
        try:
            printed, _ = process.communicate(timeout=self.timeout_s)
        except subprocess.TimeoutExpired:
            _kill(process)
            return True, b""
        except BaseException:
            _kill(process)
            raise
        return False, printed[-_KEPT:]


def _kill(process: subprocess.Popen[bytes]) -> None:
    """With everything that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    stream: IO[bytes] | None = process.stdout
    if stream is not None:
        stream.close()
    process.wait()


def _printed(printed: bytes) -> Outcome:
    text = printed.decode(errors="replace").strip()
    numbers = _NUMBER.findall(text.splitlines()[-1]) if text else []
    if not numbers:
        return Outcome(None, "the last line that it printed holds no number", "failed_load")
    value = float(numbers[-1])
    if not value > 0 or value == float("inf"):
        return Outcome(None, f"it printed {value:g}, which is not above 0", "failed_load")
    return Outcome(value)


def _no_program(name: str, why: str) -> UsageError:
    return UsageError(f"the program {name!r} cannot be run: {why}", hint="give its path, or one that is in PATH")
