"""Runs from which the hypervisor took much of the machine: they tell less of their config than the others.

Such a run is made again, once the hypervisor takes little, and twice at most; not where runs of the settings as found differ by
as much anyway, for another run would hardly be better and costs as much time. What is taken beyond the usual all the same makes
its intervals wider by as much, so that a baseline with half of its machine hardly moves the baseline's track.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from time import perf_counter, sleep

from trimtab.host import stolen_cpu_s
from trimtab.measure import BaselineTrack, Interval, Measurement
from trimtab.records import Status
from trimtab.trial.load import LoadResult
from trimtab.units import format_percent

__all__ = ["StolenTime"]

_MUCH = 0.05
"""Share of the machine's CPU from which on a run may be spoilt."""

_UNUSUAL = 2.0
"""Times what it took from the runs before (median): where it always takes much, another run would be no better."""

_MAX_AGAIN = 2
"""Times that a run is made again, at most."""

_CALM_S = 3
"""Seconds in a row that must be calm before that."""

_WAIT_S = 60
"""After so many seconds it is made all the same, or after as many as the run took, when these are fewer: waiting for longer than
a third run would take is no gain."""

_SPIN_S = 0.2
"""Of each of these seconds, in which a core is kept busy: from an idle machine nothing can be taken."""


class StolenTime:
    """What the hypervisor has taken from the runs so far."""

    def __init__(
        self, say: Callable[[str], None], is_interrupted: Callable[[], bool] = bool, *, n_cores: int | None = None
    ) -> None:
        """Nothing yet.

        Args:
            say: told of each run that is made again.
            is_interrupted: asked every second while it waits.
            n_cores: of this machine; None: it is asked.
        """
        self._say, self._is_interrupted, self._n_cores = say, is_interrupted, n_cores or os.cpu_count() or 1
        self._shares: list[float] = []
        self._usual = 0.0
        """Median of the runs before the last one."""
        self._n_again = 0
        self._found = BaselineTrack()

    def begin(self) -> None:
        """A new trial."""
        self._n_again = 0

    def note_found(self, measurement: Measurement | None) -> None:
        """A run of the settings as found, as it counts: such runs tell how much the throughput differs from run to run."""
        rate = measurement.throughput.estimate if measurement is not None else 0.0
        if 0 < rate < math.inf:
            self._found.add(len(self._found), rate)

    def spoils(self, status: Status, result: LoadResult) -> bool:
        """Whether a run that would be believed is to be made again; waits for a calm moment before it says so."""
        m, n_again = result.measurement, self._n_again
        self._n_again = 0
        if m is None or m.steal_share is None or m.generators:
            return False
        share, self._usual = m.steal_share / self._n_cores, median(self._shares or [0.0])
        self._shares.append(share)
        is_believed = result.breach is None and status in (Status.OK, Status.STOPPED_EARLY)
        if n_again == _MAX_AGAIN or not is_believed or share <= self._most or share <= self._usual + self._noise_sd:
            return False
        self._n_again = n_again + 1
        self._say(f"the hypervisor took {format_percent(share)} of this machine's CPU from the run: it is repeated")
        self._wait_for_calm(min(_WAIT_S, math.ceil(result.warmup_s + result.measure_s)))
        return True

    @property
    def _most(self) -> float:
        """What may be taken from the last run."""
        return max(_MUCH, _UNUSUAL * self._usual)

    @property
    def _noise_sd(self) -> float:
        """By how much runs of the settings as found differ, relative; 0 before there are two."""
        return self._found.summary().noise_sd if len(self._found) > 1 else 0.0

    def _wait_for_calm(self, most_s: int) -> None:
        """Returns when the hypervisor takes little, at the latest after `most_s`; at once when somebody asks to stop."""
        calm_s = 0
        for _ in range(most_s):
            if self._is_interrupted() or calm_s >= _CALM_S or (share := _share_taken()) is None:
                return
            calm_s = calm_s + 1 if share <= self._most else 0
            sleep(1 - _SPIN_S)

    def widened(self, measurement: Measurement | None) -> Measurement | None:
        """`measurement`, of the run that was judged last, with intervals that cover what was taken beyond the usual."""
        if measurement is None or measurement.steal_share is None or measurement.generators:
            return measurement
        share = measurement.steal_share / self._n_cores
        if share <= self._most:
            return measurement
        more = share - self._usual
        return replace(
            measurement,
            throughput=_wider(measurement.throughput, more),
            latency_mean_ms=_wider(measurement.latency_mean_ms, more),
            latency_ms={name: _wider(interval, more) for name, interval in measurement.latency_ms.items()},
            figure=measurement.figure and _wider(measurement.figure, more),
        )


def _wider(interval: Interval, share: float) -> Interval:
    """With a further standard error of this share of the estimate."""
    if not math.isfinite(interval.estimate):
        return interval
    more = share * abs(interval.estimate)
    low = interval.estimate - math.hypot(interval.estimate - interval.low, 1.96 * more)
    high = interval.estimate + math.hypot(interval.high - interval.estimate, 1.96 * more)
    # No rate and no time is less than 0.
    low = max(low, 0.0) if interval.low >= 0 else low
    return replace(interval, low=low, high=high, se=math.hypot(interval.se, more))


def _share_taken() -> float | None:
    """Share of a busy core that the hypervisor takes at this moment; None where nothing says so. It takes a fifth of a second."""
    before_s, end = stolen_cpu_s(), perf_counter() + _SPIN_S
    while perf_counter() < end:
        pass
    after_s = stolen_cpu_s()
    return None if before_s is None or after_s is None else round((after_s - before_s) / _SPIN_S, 6)
