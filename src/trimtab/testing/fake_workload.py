"""FakeWorkload and FakeRatedWorkload: loads on a FakeTarget that take no time: seconds pass as fast as they are asked for.

Operations come at the rate that the target's speed allows, with noise from the seed and the run's number, so that the whole
way from frame to verdict is walked with known truth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from trimtab.errors import UsageError
from trimtab.measure import Buckets, Outcome, QueryLog, SecondLog
from trimtab.records import Context, Endpoint
from trimtab.workload import Frame, LoadRun, Preparation, StartState

__all__ = ["FakeRatedRun", "FakeRatedWorkload", "FakeRun", "FakeWorkload"]


@dataclass(slots=True)
class FakeRun:
    """One run: `rate_per_s` operations per second, of which `error_share` fail; ends after `lasts_s`."""

    rate_per_s: float
    lasts_s: int
    clients: int
    error_share: float = 0.0
    on_second: Callable[[int], None] = lambda second: None
    second: int = 0
    is_stopped: bool = False

    def frame(self, timeout_s: float) -> Frame | None:
        """The next second, at once."""
        if self.is_done:
            return None
        self.on_second(self.second)
        failed = self.rate_per_s * self.error_share
        frame = Frame(self.second, round(self.rate_per_s - failed), round(failed), self.rate_per_s - failed)
        self.second += 1
        return frame

    @property
    def is_done(self) -> bool:
        """Whether all seconds were asked for."""
        return self.is_stopped or self.second >= self.lasts_s

    def log(self) -> QueryLog:
        """Every client busy all the time, evenly."""
        n = max(1, round(self.rate_per_s * self.second))
        run_s = self.clients / self.rate_per_s
        # Clients are staggered, so that operations end at an even rate.
        end_s = (np.arange(n) + 1) / self.rate_per_s
        outcome = np.full(n, Outcome.OK, dtype=np.uint8)
        n_failed = round(n * self.error_share)
        if n_failed:
            outcome[np.linspace(0, n - 1, n_failed).astype(int)] = Outcome.ERROR
        return QueryLog(
            labels=("op",),
            stream=(np.arange(n) % self.clients).astype(np.int32),
            label=np.zeros(n, dtype=np.int32),
            start_s=np.maximum(end_s - run_s, 0.0),
            end_s=end_s,
            rows=np.ones(n, dtype=np.int64),
            outcome=outcome,
            errors=("op: 40001 made to fail",) if n_failed else (),
            duration_s=float(self.second),
            client_cpu_s=0.01 * self.second,
        )

    def stop(self) -> QueryLog:
        """Ends the run."""
        self.is_stopped = True
        return self.log()


@dataclass(slots=True)
class FakeWorkload:
    """See the module.

    Attributes:
        speed: operations per second that the target would give now, without noise.
        noise_sd: relative standard deviation from run to run.
        error_share: share of operations that fail.
        dies_after_s: the load ends by itself after so many seconds; None: it does not.
        on_second: called with each second's number; may raise, or change the target.
        seeds: of the runs so far.
    """

    kind: ClassVar[str] = "fake"
    protocols: ClassVar[tuple[str, ...]] = ("fake",)
    speed: Callable[[], float]
    noise_sd: float = 0.01
    error_share: float = 0.0
    dies_after_s: int | None = None
    on_second: Callable[[int], None] = lambda second: None
    seeds: list[int] = field(default_factory=list)

    @property
    def context(self) -> Context:
        """Four clients that read."""
        return Context(workload="fake", clients=4)

    def prepare(self, endpoint: Endpoint, report: Callable[[str], None]) -> Preparation:
        """Nothing to do."""
        report("the data is there already")
        return Preparation(0.0, 0, True)

    def start(self, endpoint: Endpoint, *, seed: int, duration_s: float) -> LoadRun:
        """A run at the target's present speed."""
        speed, lasts_s = self._drawn(seed, duration_s)
        return FakeRun(speed, lasts_s, 4, self.error_share, self.on_second)

    def _drawn(self, seed: int, duration_s: float) -> tuple[float, int]:
        """This run's speed, and how many seconds it lasts."""
        noise = np.random.default_rng([seed, len(self.seeds)]).normal(0.0, self.noise_sd)
        self.seeds.append(seed)
        lasts_s = int(duration_s) if self.dies_after_s is None else self.dies_after_s
        return self.speed() * float(np.exp(noise)), lasts_s


@dataclass(slots=True)
class FakeRatedRun:
    """One run of short operations on a server with one queue (M/M/1): response times are exponential with mean
    1 / (capacity - rate), every second alike; what comes above the capacity is shed.

    A rate of 0 is a closed loop that reaches 90 % of the capacity. `log_changes` replace columns of its log.
    """

    rate_per_s: float
    capacity_per_s: float
    lasts_s: int
    error_share: float = 0.0
    error_class: str = "other"
    on_second: Callable[[int], None] = lambda second: None
    log_changes: Mapping[str, Any] = field(default_factory=dict)
    second: int = 0
    is_stopped: bool = False

    @property
    def _n_offered(self) -> int:
        return round(self.rate_per_s or 0.9 * self.capacity_per_s)

    @property
    def _n_done(self) -> int:
        return min(self._n_offered, round(self.capacity_per_s))

    @property
    def _n_failed(self) -> int:
        return round(self._n_done * self.error_share)

    def _response_us(self, share: float | np.ndarray[Any, np.dtype[np.float64]]) -> Any:
        spare = max(self.capacity_per_s - self._n_offered, 0.1)
        return np.maximum(1, np.rint(-np.log1p(-np.asarray(share)) / spare * 1e6)).astype(np.int64)

    def frame(self, timeout_s: float) -> Frame | None:
        """The next second, at once."""
        if self.is_done:
            return None
        self.on_second(self.second)
        n_ok, n_failed = self._n_done - self._n_failed, self._n_failed
        p50, p95, p99 = (int(self._response_us(share)) for share in (0.5, 0.95, 0.99))
        n_shed = self._n_offered - self._n_done
        frame = Frame(self.second, n_ok, n_failed, float(n_ok), 0, n_shed, p50, p95, p99, 100, 0, 1e-5 * self._n_done)
        self.second += 1
        return frame

    @property
    def is_done(self) -> bool:
        """Whether all seconds were asked for."""
        return self.is_stopped or self.second >= self.lasts_s

    def log(self) -> SecondLog:
        """Nine reads to one update in each second."""
        k, n_ok, n_failed = self.second, self._n_done - self._n_failed, self._n_failed
        label = (np.arange(n_ok) % 10 == 9).astype(np.int64)
        rows = np.stack([label, self._response_us((np.arange(n_ok) + 0.5) / max(n_ok, 1))])
        values, count = np.unique(rows, axis=1, return_counts=True)
        m = values.shape[1]
        ok = Buckets(
            np.repeat(np.arange(k), m), np.tile(values[0], k), np.tile(values[1], k), np.tile(count.astype(np.int64), k)
        )
        columns: dict[str, Any] = {
            "labels": ("read", "update"),
            "duration_s": float(k),
            "credited": np.full(k, float(n_ok)),
            "response": ok,
            "service": ok,
            "error": Buckets.of([(second, 0, 1000, n_failed) for second in range(k) if n_failed]),
            "lateness": Buckets.of([(second, 0, 100, n_ok) for second in range(k)]),
            "offered": np.full(k, self._n_offered),
            "shed": np.full(k, self._n_offered - self._n_done),
            "timed_out": np.zeros(k, dtype=np.int64),
            "client_cpu_s": np.full(k, 1e-5 * self._n_done),
            "steal_s": np.zeros(k),
            "error_classes": {self.error_class: n_failed * k} if n_failed else {},
            "users": 4,
            "is_open": self.rate_per_s > 0,
            "errors": (f"read: made to fail ({self.error_class})",) if n_failed else (),
            "memory_bytes": 1 << 20,
        }
        return SecondLog(**{**columns, **self.log_changes})

    def stop(self) -> SecondLog:
        """Ends the run."""
        self.is_stopped = True
        return self.log()


@dataclass(slots=True)
class FakeRatedWorkload(FakeWorkload):
    """Short operations with percentiles of their own, which can come at a rate and can be undone.

    Attributes:
        rate_per_s: of an open loop; 0: closed.
        error_class: of the operations that fail.
        writes: whether there is something to undo before each run.
        resets: how often it was undone.
        log_changes: replace columns of every run's log.
    """

    rate_per_s: float = 0.0
    error_class: str = "other"
    writes: bool = True
    resets: list[str] = field(default_factory=list)
    log_changes: dict[str, Any] = field(default_factory=dict)

    def with_rate(self, rate_per_s: float) -> FakeRatedWorkload:
        """The same at a rate; above a million operations it refuses, to keep logs small."""
        if not 0 < rate_per_s <= 1e6:
            raise UsageError(f"rate_per_s={rate_per_s:g} is out of range", hint="use 1 to 1000000")
        return replace(self, rate_per_s=rate_per_s)

    def reset(self, endpoint: Endpoint, report: Callable[[str], None]) -> StartState | None:
        """Counts."""
        if not self.writes:
            return None
        self.resets.append(str(endpoint))
        return StartState("made afresh", 0.25, "a fake")

    def clean_up(self, endpoint: Endpoint) -> None:
        """Remembered as the last of the resets."""
        self.resets.append("clean")

    def start(self, endpoint: Endpoint, *, seed: int, duration_s: float) -> FakeRatedRun:
        """A run at the target's present speed, which is the capacity of its queue."""
        speed, lasts_s = self._drawn(seed, duration_s)
        return FakeRatedRun(
            self.rate_per_s, speed, lasts_s, self.error_share, self.error_class, self.on_second, self.log_changes
        )
