"""FakeWorkload: a load on a FakeTarget that takes no time: its seconds pass as fast as they are asked for.

Operations come at the rate that the target's speed allows, with noise from the seed and the run's number, so that the whole
way from frame to verdict is walked with known truth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from trimtab.measure import Outcome, QueryLog
from trimtab.records import Context, Endpoint
from trimtab.workload import Frame, Preparation

__all__ = ["FakeRun", "FakeWorkload"]


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

    def start(self, endpoint: Endpoint, *, seed: int, duration_s: float) -> FakeRun:
        """A run at the target's present speed."""
        noise = np.random.default_rng([seed, len(self.seeds)]).normal(0.0, self.noise_sd)
        self.seeds.append(seed)
        lasts_s = int(duration_s) if self.dies_after_s is None else self.dies_after_s
        return FakeRun(self.speed() * float(np.exp(noise)), lasts_s, 4, self.error_share, self.on_second)
