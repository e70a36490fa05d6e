"""ObserveRun: a server's counters, second by second, as a load that runs in the background."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import LoadError
from trimtab.measure import Buckets, Latencies, SecondLog
from trimtab.workload.base import Frame
from trimtab.workload.observe.counters import Counted, Counters
from trimtab.workload.server import Session

__all__ = ["ObserveRun"]

_MAX_ERRORS = 100
_JOIN_S = 5.0
_LONGEST_US = 3_600_000_000
_EARLY_S = 0.01
"""So long before the end of a second a look may have been made that is the one at its end."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Look:
    """What was counted between the first look and this one, seconds after it."""

    at_s: float
    n: float


class ObserveRun:
    """Looks at the counters once a second until `duration_s` is over or `stop`.

    A look that fails is an error of its second, and the next one connects again: a server that a config has ended shows as
    a load that fails.

    Args:
        connect: opens a session to the server.
        counters: what is read.
        clients: for the log's `users`.
        duration_s: of the run.
        clock: seconds, monotonic.

    Raises:
        LoadError: the first look fails.
    """

    def __init__(
        self,
        connect: Callable[[], Session],
        counters: Counters,
        *,
        clients: int,
        duration_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connect, self._counters, self._clients = connect, counters, clients
        self._duration_s, self._clock = duration_s, clock
        self._session: Session | None = connect()
        try:
            self._last = counters.read(self._session)
        except LoadError:
            self._close()
            raise
        self._started = clock()
        self._looks = [_Look(0.0, 0.0)]
        self._rows: list[tuple[int, int, int, int]] = []
        self._spare: Counter[int] = Counter()
        self._latencies: Latencies = "each" if self._last.by_us else "means"
        if self._last.busy_s is None:
            self._latencies = "none"
        self._failed: list[int] = []
        self._errors: list[str] = []
        self._ended_s: float | None = None
        self._seconds = 0
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._loop, name="observe", daemon=True)
        self._thread.start()

    # --- the thread ---

    def _loop(self) -> None:
        second = 0
        try:
            while not self._stop.is_set() and second < self._duration_s:
                second += 1
                self._stop.wait(max(0.0, min(second, self._duration_s) - self._now()))
                if not self._stop.is_set():
                    self._look()
                second = max(second, math.floor(self._now()))
        finally:
            self._ended_s = self._now()
            self._close()

    def _look(self) -> None:
        try:
            if self._session is None:
                self._session = self._connect()
            counted = self._counters.read(self._session)
        except LoadError as error:
            self._close()
            with self._lock:
                self._failed.append(self._second_of(self._now()))
                if len(self._errors) < _MAX_ERRORS:
                    self._errors.append(f"observe: {error.message}")
            return
        at_s = self._now()
        with self._lock:
            self._add(at_s, counted)

    def _add(self, at_s: float, counted: Counted) -> None:
        """One more look. Counters that fell were reset (a restart, or by hand): nothing is known of the time since the last. Of
        those whose time alone fell, since the server has forgotten a long statement, it is not known how long the others took."""
        last, self._last = self._last, counted
        n = max(0.0, counted.n - last.n)
        self._looks.append(_Look(at_s, self._looks[-1].n + n))
        second = self._second_of(at_s)
        if counted.by_us:
            self._add_distribution(
                second, round(n), {us: count - last.by_us.get(us, 0) for us, count in counted.by_us.items()}
            )
        elif round(n):
            busy_s = 0.0 if counted.busy_s is None or last.busy_s is None else counted.busy_s - last.busy_s
            if busy_s >= 0:
                self._rows.append((second, 0, min(_LONGEST_US, max(1, round(busy_s / n * 1e6))), round(n)))

    def _add_distribution(self, second: int, n: int, by_us: dict[int, int]) -> None:
        """The slowest n: what a distribution holds besides, as parts of procedures and pings, takes less than a statement. It is
        read after the number: what ran in between is counted by the next look only, which finds it among the spare."""
        self._spare.update({us: count for us, count in by_us.items() if count > 0})
        for source in (by_us, dict(self._spare)):
            for us, count in sorted(source.items(), reverse=True):
                if (taken := min(n, count, self._spare[us])) > 0:
                    self._rows.append((second, 0, us, taken))
                    self._spare[us] -= taken
                    n -= taken

    def _second_of(self, at_s: float) -> int:
        """The second that a look at its end tells of."""
        return max(0, math.ceil(at_s - 0.5) - 1)

    def _close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.__exit__(None, None, None)

    # --- as `LoadRun` ---

    def _now(self) -> float:
        return self._clock() - self._started

    @property
    def is_done(self) -> bool:
        """Whether no look follows any more."""
        return not self._thread.is_alive()

    def frame(self, timeout_s: float) -> Frame | None:
        """The next second, once a look has seen all of it: one that is slow may end in the middle of the next."""
        second, until = self._seconds, self._clock() + timeout_s
        while True:
            is_done = self.is_done
            with self._lock:
                looks, failed = list(self._looks), list(self._failed)
                mean_us = _mean_us(self._rows, second)
            seen_s = looks[-1].at_s - second
            if seen_s >= (0.5 if is_done else 1 - _EARLY_S) or (failed and failed[-1] >= second):
                break
            if is_done or self._clock() > until:
                return None
            self._thread.join(0.02)
        self._seconds += 1
        per_s = _per_second(looks, second + 1)
        # Rounded so that the seconds add up to no more than was counted.
        n_ok = round(per_s.sum()) - round(per_s[:second].sum())
        n_error = failed.count(second)
        return Frame(second, n_ok, n_error, float(per_s[second]), is_observed=True, response_mean_us=mean_us)

    def log(self) -> SecondLog:
        """Everything so far."""
        with self._lock:
            looks, rows, failed = list(self._looks), list(self._rows), list(self._failed)
            errors = tuple(self._errors)
        duration_s = self._ended_s if self._ended_s is not None else self._now()
        k = max(1, math.ceil(min(duration_s, self._duration_s) - 1e-3), *(row[0] + 1 for row in rows))
        counts, zeros = np.zeros(k, dtype=np.int64), np.zeros(k)
        failures = [(min(k - 1, second), 0, 1, 1) for second in failed]
        return SecondLog(
            labels=(self._counters.what,),
            duration_s=max(duration_s, 1e-6),
            credited=_per_second(looks, k),
            response=Buckets.of(rows),
            error=Buckets.of(failures),
            offered=counts,
            shed=counts,
            timed_out=counts,
            client_cpu_s=zeros,
            steal_s=zeros,
            users=self._clients,
            is_observed=True,
            error_classes={"observe": len(failed)} if failed else {},
            errors=errors,
            latencies=self._latencies,
        )

    def stop(self) -> SecondLog:
        """Ends the looks, and returns the whole log. Idempotent."""
        self._stop.set()
        self._thread.join(_JOIN_S)
        return self.log()


def _mean_us(rows: Sequence[tuple[int, int, int, int]], second: int) -> float:
    """Of what was timed in the second, one of the last; 0 for nothing."""
    timed = [(us, n) for at, _, us, n in takewhile(lambda row: row[0] >= second, reversed(rows)) if at == second]
    return sum(us * n for us, n in timed) / sum(n for _, n in timed) if timed else 0.0


def _per_second(looks: Sequence[_Look], k: int) -> Floats:
    """(k,) of what was counted in each second: between two looks, evenly."""
    at_s = np.array([look.at_s for look in looks])
    total = np.array([look.n for look in looks])
    return np.asarray(np.maximum(0.0, np.diff(np.interp(np.arange(k + 1), at_s, total))))
