"""CommandRun: one command run again and again in the background, and the log of its runs."""

from __future__ import annotations

import math
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import IO

import numpy as np

from trimtab.errors import LoadError
from trimtab.host import kill_group, stolen_cpu_s
from trimtab.measure import Buckets, Outcome, QueryLog, SecondLog
from trimtab.redact import redact
from trimtab.workload.base import Frame
from trimtab.workload.command.figure import Figure, FigureError

__all__ = ["CommandRun", "tail"]

_MAX_ERRORS = 100
_ERROR_PAUSE_S = 0.05
"""After a run that failed: one that fails at once would fill the log with thousands."""

_HANGS = 2.0
"""A run that is cut off after so many times the longest successful one hangs: nothing is known of it but that it takes longer."""

_OUTPUT_BYTES = 1 << 20
_KILL_S = 10.0
"""How long a killed command may take to end; one that waits for a disk that does not answer never does."""
_LONGEST_US = 3_600_000_000


@dataclass(frozen=True, slots=True)
class _Done:
    """One run of the command: seconds since the start, how it ended, and its figure (0 when it has none)."""

    start_s: float
    end_s: float
    outcome: Outcome
    figure: float


class CommandRun:
    """Runs the command until `duration_s` is over or `stop`; one run follows the other.

    Args:
        argv: filled in.
        env: of the command.
        folder: where it runs.
        figure: what is read of each run.
        timeout_s: of one run.
        duration_s: of all of them.
    """

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        folder: Path,
        figure: Figure,
        *,
        timeout_s: float,
        duration_s: float,
    ) -> None:
        self._argv, self._env, self._folder, self._figure = list(argv), dict(env), folder, figure
        self._timeout_s, self._duration_s = timeout_s, duration_s
        self._started = time.monotonic()
        self._ended_s: float | None = None
        self._runs: list[_Done] = []
        self._errors: list[str] = []
        self._classes: dict[str, int] = {}
        self._taken_s = [stolen_cpu_s()]
        """What the hypervisor has taken, at the start and at each frame."""
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._loop, name="command", daemon=True)
        self._thread.start()

    # --- the thread ---

    def _loop(self) -> None:
        while not self._stop.is_set() and self._now() < self._duration_s:
            done = self._once()
            with self._lock:
                self._runs.append(done)
            if done.outcome not in (Outcome.OK, Outcome.CANCELLED):
                self._stop.wait(_ERROR_PAUSE_S)

    def _once(self) -> _Done:
        """One run; one that `stop` has cut off took at least that long."""
        start_s = self._now()
        try:
            with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
                code, end_s = self._waited(out, err), self._now()
                return self._judged(code, start_s, end_s, tail(out), tail(err))
        except OSError as error:
            return self._failed(start_s, "start", f"cannot run {self._argv[0]!r}: {error.strerror}")

    def _judged(self, code: int | None, start_s: float, end_s: float, out: str, err: str) -> _Done:
        if self._stop.is_set():
            return _Done(start_s, max(start_s, min(end_s, self._ended_s or end_s)), Outcome.CANCELLED, 0.0)
        if code is None:
            text = f"it did not end within timeout={self._timeout_s:g}s"
            return self._failed(start_s, "timeout", text, Outcome.TIMED_OUT)
        if code != 0:
            last = (err or out).strip().splitlines()[-1:]
            return self._failed(start_s, f"exit_{code}", f"exit_code={code}: {' '.join(last)}")
        return self._read(start_s, end_s, out, err)

    def _read(self, start_s: float, end_s: float, out: str, err: str) -> _Done:
        if self._figure.kind == "wall":
            return _Done(start_s, end_s, Outcome.OK, end_s - start_s)
        try:
            return _Done(start_s, end_s, Outcome.OK, self._figure.read(out if self._figure.path else f"{out}\n{err}"))
        except FigureError as error:
            return self._failed(start_s, "figure", str(error))

    def _failed(self, start_s: float, kind: str, text: str, outcome: Outcome = Outcome.ERROR) -> _Done:
        with self._lock:
            self._classes[kind] = self._classes.get(kind, 0) + 1
            if len(self._errors) < _MAX_ERRORS:
                self._errors.append(redact(f"command: {text}"))
        return _Done(start_s, self._now(), outcome, 0.0)

    def _waited(self, out: IO[bytes], err: IO[bytes]) -> int | None:
        """Its exit code; None when its time was over."""
        child = subprocess.Popen(
            self._argv,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            cwd=self._folder,
            env=self._env,
            start_new_session=True,
        )
        with self._lock:
            self._child = child
        if self._stop.is_set():  # between its start and here
            self._kill()
        try:
            code: int = child.wait(self._timeout_s)
            return code
        except subprocess.TimeoutExpired:
            self._kill()
            child.wait()
            return None
        finally:
            with self._lock:
                self._child = None

    def _kill(self) -> bool:
        """The command with everything that it has started; False when it may not be killed."""
        with self._lock:
            return self._child is None or self._child.returncode is not None or kill_group(self._child)

    # --- as `LoadRun` ---

    def _now(self) -> float:
        return time.monotonic() - self._started

    @property
    def is_done(self) -> bool:
        """Whether no run follows any more."""
        return not self._thread.is_alive()

    def frame(self, timeout_s: float) -> Frame | None:
        """The next second; a run that is not over yet is credited as the last one, for as long as the longest one took."""
        second = len(self._taken_s) - 1
        self._thread.join(min(timeout_s, max(0.0, second + 1 - self._now())))
        if self._now() < second + 1:
            return None
        self._taken_s.append(stolen_cpu_s())
        runs = self._known()
        inside = [run for run in runs if second <= run.end_s < second + 1]
        return Frame(
            second,
            sum(run.outcome is Outcome.OK for run in inside),
            sum(run.outcome is Outcome.ERROR for run in inside),
            float(_rates(runs, second + 1, self._now(), is_rate=self._figure.kind == "rate")[second]),
            sum(run.outcome is Outcome.TIMED_OUT for run in inside),
            steal_s=self._steal_s()[second],
        )

    def log(self) -> QueryLog | SecondLog:
        """Everything so far."""
        runs, errors = self._known(), tuple(self._errors)
        duration_s = self._ended_s if self._ended_s is not None else self._now()
        if self._figure.kind == "wall":
            is_known = self._taken_s[0] is not None
            return replace(_query_log(runs, errors, duration_s), steal_s=sum(self._steal_s()) if is_known else None)
        log = _second_log(runs, errors, dict(self._classes), duration_s, self._figure.kind)
        steal_s = np.zeros(len(log.steal_s))
        known = self._steal_s()[: len(steal_s)]
        steal_s[: len(known)] = known
        return replace(log, steal_s=steal_s)

    def _steal_s(self) -> list[float]:
        """What the hypervisor took in each second whose frame was asked for; 0 where nothing says so."""
        return [max(0.0, (after or 0.0) - (before or 0.0)) for before, after in pairwise(self._taken_s)]

    def stop(self) -> QueryLog | SecondLog:
        """Ends the run in flight, and returns the whole log. Idempotent. One that may not be killed is waited for.

        Raises:
            LoadError: it goes on for longer than a run may take.
        """
        if self._ended_s is None:
            self._ended_s = self._now()
        self._stop.set()
        self._thread.join(_KILL_S if self._kill() else self._timeout_s)
        child = self._child
        if child is not None:  # beside it, nothing else can be measured
            raise LoadError(
                f"[workload] command={self._argv[0]!r} goes on after its trial, and cannot be killed: pid={child.pid}",
                hint="a command of another user's (sudo) must end within timeout by itself: let it run for a shorter time, or run"
                " Trimtab as root or as that user",
            )
        return self.log()

    def _known(self) -> list[_Done]:
        with self._lock:
            return list(self._runs)


def tail(file: IO[bytes]) -> str:
    """The last of what was printed."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _OUTPUT_BYTES))
    return file.read().decode(errors="replace")


def _rates(
    runs: Sequence[_Done], n_seconds: int, until_s: float, *, is_rate: bool
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """(n_seconds,) figures as a rate: of each run over the time that it took. The run that has not ended by `until_s` counts as
    the last success, for as long as the longest one took; when it hangs, as nothing.

    A wall time or a time t is a rate of 1 / t.
    """
    rates = np.zeros(n_seconds)
    last_rate, covered_s = 0.0, 0.0
    for run in _ended(runs):
        rate = 0.0
        if run.outcome is Outcome.OK:
            rate = last_rate = run.figure if is_rate else 1.0 / run.figure
        _spread(rates, covered_s, run.end_s, rate)
        covered_s = run.end_s
    if not _hangs(runs, covered_s, until_s):
        _spread(rates, covered_s, covered_s + _longest_s(runs), last_rate)
    return rates


def _ended(runs: Sequence[_Done]) -> list[_Done]:
    """Without the one that was cut off."""
    return [run for run in runs if run.outcome is not Outcome.CANCELLED]


def _longest_s(runs: Sequence[_Done]) -> float:
    return max((run.end_s - run.start_s for run in runs if run.outcome is Outcome.OK), default=0.0)


def _hangs(runs: Sequence[_Done], start_s: float, until_s: float) -> bool:
    return until_s - start_s > _HANGS * _longest_s(runs)


def _spread(rates: np.ndarray[tuple[int], np.dtype[np.float64]], start_s: float, end_s: float, rate: float) -> None:
    """Adds `rate` to each second, by the share of it between start and end."""
    for second in range(max(0, math.floor(start_s)), min(len(rates), math.ceil(end_s))):
        rates[second] += rate * max(0.0, min(end_s, second + 1) - max(start_s, second))


def _query_log(runs: Sequence[_Done], errors: tuple[str, ...], duration_s: float) -> QueryLog:
    n = len(runs)
    return QueryLog(
        labels=("command",),
        stream=np.zeros(n, dtype=np.int32),
        label=np.zeros(n, dtype=np.int32),
        start_s=np.array([run.start_s for run in runs], dtype=np.float64),
        end_s=np.array([run.end_s for run in runs], dtype=np.float64),
        rows=np.ones(n, dtype=np.int64),
        outcome=np.array([run.outcome for run in runs], dtype=np.uint8),
        errors=errors,
        duration_s=duration_s,
    )


def _second_log(
    runs: Sequence[_Done], errors: tuple[str, ...], classes: Mapping[str, int], duration_s: float, kind: str
) -> SecondLog:
    k = max(1, math.ceil(duration_s))
    ended = _ended(runs)
    cut = [run for run in runs if run.outcome is Outcome.CANCELLED and _hangs(runs, run.start_s, run.end_s)]
    late = [run for run in runs if run.outcome is Outcome.TIMED_OUT]

    def took_us(run: _Done) -> int:
        took_s = run.figure if kind == "time" and run.outcome is Outcome.OK else run.end_s - run.start_s
        return min(_LONGEST_US, max(1, round(took_s * 1e6)))

    def buckets(some: Sequence[_Done]) -> Buckets:
        return Buckets.of([(min(k - 1, int(run.end_s)), 0, took_us(run), 1) for run in some])

    zeros, counts = np.zeros(k), np.zeros(k, dtype=np.int64)
    timed_out = counts.copy()
    for run in late:
        timed_out[min(k - 1, int(run.end_s))] += 1
    return SecondLog(
        labels=("command",),
        duration_s=duration_s,
        credited=_rates(runs, k, duration_s, is_rate=kind == "rate"),
        response=buckets([run for run in ended if run.outcome is Outcome.OK]),
        error=buckets([run for run in ended if run.outcome is not Outcome.OK]),
        unfinished=buckets(cut),
        offered=counts,
        shed=counts,
        timed_out=timed_out,
        client_cpu_s=zeros,
        steal_s=zeros,
        error_classes=classes,
        errors=errors,
    )
