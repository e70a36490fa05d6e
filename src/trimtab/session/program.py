"""Program: a command line with places for knobs, run once for a config, and what of it is measured."""

from __future__ import annotations

import errno
import os
import re
import resource
import select
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO

from trimtab.errors import InternalError, UsageError
from trimtab.host import kill_group
from trimtab.redact import redact
from trimtab.session.deadman import dies_with_us
from trimtab.session.point import LEAST, MOST
from trimtab.space import Config, Value
from trimtab.trial.signals import signals_wait
from trimtab.units import format_duration

__all__ = ["MEASURES", "OneUnit", "Outcome", "Program"]

MEASURES = ("wall", "user", "system", "output")
"""Seconds on the clock, of the processor in the program, in the kernel; or the last number that it prints."""

_PLACE = re.compile(r"(?<!\$)\{([A-Za-z_][A-Za-z0-9_.-]*)\}")
"""`${NAME}` is none: it is a variable of a shell that the command starts, and `$9` would be another one."""
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_AFTER_COMMA = re.compile(r"\d+(?:[eE].*)?|\d{3}\.\d*")
"""What may be the rest of a number that a comma divides: "5" of "1,5", "234.5" of "1,234.5"."""
_PARTS = re.compile(
    r"(?<![\w.])(?:\d+:(?:\d\d:)?\d\d(?:\.\d*)?(?!\d)|(?:\d+h)?\d+m\d+(?:\.\d*)?s(?!\w)|\d{1,3}(?:[_'’]\d{3})+(?:\.\d*)?(?!\w))"
)
"""One figure of several numbers: a time as Python, `time` and shells print it ("0:01:02.5", "1m2.5s"), or "1_234_567"."""
_SPREAD = re.compile(r"(?:±|\+/?-)\s*(?:\d+\.?\d*|\.\d+)")
"""How far a figure may be off: "± 0.2", "+- 0.24", as `perf stat -r` prints it behind the figure."""
_UNIT = re.compile(
    r"\s?((?:[kKMGTP]i?)?[Bb](?:its?|ytes?|ps)?(?:/s(?:ec)?)?|[nuµμm]?s(?:ec)?|min|h|[kKMGTP])(?![A-Za-z])"
)
"""Behind a figure, of those that programs choose by its size: `dd` prints "950 MB/s" and "1.2 GB/s"."""
_COLOUR = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
"""What steers a terminal: the digits in it are no figure."""
_KEPT = 1 << 16
"""Bytes of the end of what the program prints that are looked at."""

_HELD = ": it has ended, but what it has started in the background holds its output open; let that print elsewhere"

_OF_A_NAME = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ENOEXEC, errno.ELOOP, errno.ENAMETOOLONG)
"""Why there is no program of a name; for anything else, such as want of memory, no config is to blame."""

_LONGEST_POLL_S = 3600.0
"""The system takes no more than 24 days at once."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run gave: a value, or why there is none, with a status that a trial may have; `unit`: one that is printed in several
    sizes ("GB/s"), "" for any other."""

    value: float | None
    reason: str = ""
    status: str = ""
    unit: str = field(default="", compare=False)


class OneUnit:
    """Lets the figures of one unit pass, that of the first: only they can be compared."""

    def __init__(self) -> None:
        self._unit: str | None = None

    def checked(self, outcome: Outcome) -> Outcome:
        """`outcome`, or a failure where its figure has another unit."""
        if outcome.value is None:
            return outcome
        if self._unit is None:
            self._unit = outcome.unit
        if outcome.unit == self._unit:
            return outcome
        now, before = outcome.unit or "no unit", self._unit or "no unit"
        why = f"it printed its figure with {now}, and before with {before}: let it print the same unit each time"
        return Outcome(None, why, "failed_load")


_STOPPED = Outcome(None, "Trimtab was stopped while it ran (Ctrl-Z?): how long it took is not known", "infrastructure")


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program and how it is measured.

    Attributes:
        command: its words; `{knob}` in them stands for a value, `${name}` does not. It is run without a shell.
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
        odd = [name for name in knobs if not _PLACE.fullmatch(f"{{{name}}}")]
        if odd:
            raise UsageError(
                f"a knob cannot be called {odd[0]!r}",
                hint="letters, digits and . _ - are allowed, the first a letter or _",
            )
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
        """Runs it once; when this is interrupted, or ends by kill -9, the program and all its children are killed.

        Raises:
            UsageError: there is no such program, or it may not be run, whatever the config; or it goes on and may not be killed.
        """
        with dies_with_us() as told:
            return self._run(self.words(config), told)

    def _run(self, words: list[str], told: Callable[[int], None]) -> Outcome:
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        with _stops_seen() as was_stopped:
            try:
                code, printed = self._ended(words, told)
            except TimeoutError as error:
                late = Outcome(None, f"not done after {format_duration(self.timeout_s)}{error}", "timed_out")
                return _STOPPED if was_stopped() else late
            except OSError as error:
                cannot = _no_program(words[0], str(error.strerror))
                if error.errno not in _OF_A_NAME or not _PLACE.search(self.command[0]):
                    raise cannot from error
                # A value has named it: those of other configs may be there.
                return Outcome(None, cannot.message, "crashed")
            seconds = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if code != 0:
            last = _text_of(printed).splitlines()[-5:]
            ended = f"exit code {code}" if code > 0 else f"killed by signal {-code}"
            return Outcome(None, redact("\n".join([ended, *last])), "crashed")
        if self.measure == "output":
            return _printed(printed)
        if self.measure == "wall" and was_stopped():
            return _STOPPED
        spent = {"wall": seconds, "user": after.ru_utime - before.ru_utime, "system": after.ru_stime - before.ru_stime}
        # A figure of 0 is one that the system's clock is too coarse for.
        return Outcome(max(spent[self.measure], 1e-6))

    def _ended(self, words: list[str], told: Callable[[int], None]) -> tuple[int, bytes]:
        """Its exit code and the end of what it printed; `told` is given the group that it leads.

        Raises:
            TimeoutError: it took too long.
            OSError: it cannot be run.
            UsageError: it took too long and cannot be ended.
        """
        process: subprocess.Popen[bytes] | None = None
        try:
            with signals_wait():  # one that came before there is something to kill would leave it running
                process = _started(words)
                told(process.pid)
            return _followed(process, time.monotonic() + self.timeout_s)
        except BaseException:
            if process is not None:
                _kill(process)
            raise


@contextmanager
def _stops_seen() -> Iterator[Callable[[], bool]]:
    """Gives what says whether this process was stopped and went on inside (Ctrl-Z and fg): the program, which is not stopped with
    it, may have ended long before that is seen."""
    if threading.current_thread() is not threading.main_thread():  # which alone is told of signals
        yield lambda: False
        return
    came: list[int] = []
    before = signal.signal(signal.SIGCONT, lambda number, frame: came.append(number))
    try:
        yield lambda: bool(came)
    finally:
        signal.signal(signal.SIGCONT, before)


def _started(words: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _followed(process: subprocess.Popen[bytes], until: float) -> tuple[int, bytes]:
    """Reads along, however much it prints, until it has ended; raises TimeoutError when that is not so by `until`."""
    stream, tail = process.stdout, b""
    if stream is None:
        raise InternalError("a program was started without a pipe for what it prints")
    ready = select.poll()
    ready.register(stream, select.POLLIN)
    with stream:
        while True:
            left_s = until - time.monotonic()
            if left_s <= 0:
                raise TimeoutError(_HELD if _has_ended(process) else "")
            if not ready.poll(1000 * min(left_s, _LONGEST_POLL_S)):
                continue
            part = os.read(stream.fileno(), _KEPT)
            if not part:
                break
            tail = (tail + part)[-_KEPT:]
    try:
        return process.wait(max(0.0, until - time.monotonic())), tail
    except subprocess.TimeoutExpired:
        raise TimeoutError from None


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Without taking its exit code: its number is nobody else's until then, so its group can still be killed by it."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _kill(process: subprocess.Popen[bytes]) -> None:
    """With everything that it has started.

    Raises:
        UsageError: it is another user's, so it goes on, and another run beside it would measure both.
    """
    stream: IO[bytes] | None = process.stdout
    if stream is not None:
        stream.close()
    if not kill_group(process):
        raise UsageError(
            f"the program cannot be ended: pid={process.pid} is another user's, as what sudo starts is",
            hint="end it by hand, and run trimtab exec as the user who may end it",
        )
    process.wait()


def _text_of(printed: bytes) -> str:
    return _COLOUR.sub("", printed.decode(errors="replace")).strip()


def _printed(printed: bytes) -> Outcome:
    text = _text_of(printed)
    line = text.splitlines()[-1] if text else ""
    numbers = list(_NUMBER.finditer(line))
    if not numbers:
        return Outcome(None, "the last line that it printed holds no number", "failed_load")
    last = numbers[-1]
    why = _why_no_figure(line, last)
    if why:
        return Outcome(None, why, "failed_load")
    value = float(last[0])
    if not value > 0:
        return Outcome(None, f"it printed {value:g}, which is not above 0", "failed_load")
    if not LEAST <= value <= MOST:
        return Outcome(None, f"it printed {value:g}, which is not between {LEAST:g} and {MOST:g}", "failed_load")
    unit = _UNIT.match(line, last.end())
    return Outcome(value, unit=unit[1] if unit else "")


def _why_no_figure(line: str, last: re.Match[str]) -> str:
    """Why the last number of a line is not the figure, or a part of it only; "" where it may be the figure."""
    whole = _around(_PARTS, line, last)
    if whole:
        return f"it printed {whole!r}, of which only the last number would count: let it print seconds, or plain digits"
    spread = _around(_SPREAD, line, last)
    if spread:
        return f"it printed {spread!r}, which says how far a figure may be off: let it print the figure alone"
    head = re.search(r"[\d.,]*\d,$", line[: last.start()])
    if head and _AFTER_COMMA.fullmatch(last[0]):
        whole = head[0] + last[0]
        return f"it printed {whole!r}: thousands, decimals or two numbers? Let it print the figure alone, with a point"
    return ""


def _around(pattern: re.Pattern[str], line: str, last: re.Match[str]) -> str:
    """What of that pattern the number stands in; "" for nothing."""
    return next((each[0] for each in pattern.finditer(line) if each.start() <= last.start() < each.end()), "")


def _no_program(name: str, why: str) -> UsageError:
    return UsageError(f"the program {name!r} cannot be run: {why}", hint="give its path, or one that is in PATH")
