"""Guardrails: what ends a trial early because going on would hurt. Looked at once a second, beside the load.

Two kinds, which must not be mixed up:

* What is noisy (latency, throughput, errors) ends a trial only when an always-valid bound of its mean lies beyond the
  limit (`EarlyStop`), so that noise does not abort good trials however often one looks.
* What is hard (memory, swap, disk, the lag of standbys) ends it at once. The config is blamed only when the target's
  own use explains the shortage; a shortage that others make says nothing of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from trimtab.measure import EarlyStop, Interval, Measurement
from trimtab.records import Fault, Status
from trimtab.systems import Vitals
from trimtab.trial.pace import Pace
from trimtab.units import format_duration, format_figure, format_percent, format_size
from trimtab.workload import Frame

__all__ = ["Breach", "GuardLimits", "Guardrails", "Yardstick", "shortage"]

_ALPHA = 0.005
"""Chance of each of the noisy guards to end a trial at the very border of its limit; equal configs are far from it."""

_HOPELESS_S = 3
_HOPELESS_N = 10
"""Seconds in a row, and operations in them, that all failed: no warm-up cures that."""

_LEAST_AVAILABLE = 0.02
"""Of the memory that could be had before the load; with less than that left the kernel starts to kill."""

_MINE = 0.5
"""Share of a shortage that the target's own growth must explain for its config to be blamed."""

_LULL = 1.2
"""Up to so many times the baseline's mean response time, an application that gets less done has asked for less."""

_LAG_SAMPLES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardLimits:
    """When a trial is ended early.

    Attributes:
        latency_factor: p99 of the response time (of an application's own traffic its mean) surely this many times the baseline's;
            0: not looked at.
        throughput_factor: throughput surely below this share of the baseline's; 0: not looked at. An application's own may fall
            because its users ask for less: while its mean response time is the baseline's, that is no fault of the config.
        memory: share of the memory budget that the target's processes may use; 0: not looked at.
        swap_bytes: that the machine may move to and from swap during one trial; 0: not looked at.
        disk: used share of a volume of the target; 0: not looked at.
        disk_growth_bytes: that the target's volumes may grow by during one trial; 0: half of what was free.
        lag_s: seconds that a standby may fall behind, beyond what it was behind before; 0: not looked at.
        interval_s: seconds between two looks at the target's resources.
    """

    latency_factor: float = 2.0
    throughput_factor: float = 0.5
    memory: float = 0.95
    swap_bytes: int = 256 << 20
    disk: float = 0.85
    disk_growth_bytes: int = 0
    lag_s: float = 10.0
    interval_s: float = 1.0


@dataclass(frozen=True, slots=True)
class Breach:
    """A limit that was broken.

    Attributes:
        status: of the trial: STOPPED_EARLY (slow, or standbys behind), FAILED_LOAD (errors), CRASHED (memory, swap or disk by
            the target's own use), INFRASTRUCTURE (by somebody else's).
        reason: with the figures and the limit.
        metric: which limit: "latency_p99", "latency_mean", "throughput", "error_rate", "memory", "swap", "disk", "lag".
        excess: how far it was broken, relative to the limit.
    """

    status: Status
    reason: str
    metric: str
    excess: float = 0.0

    @property
    def fault(self) -> Fault:
        """What failed: nothing (the target is only slow), the load, the target's own demand, or somebody else's."""
        if self.status is Status.FAILED_LOAD:
            return Fault.LOAD
        if self.metric not in ("memory", "swap", "disk"):
            return Fault.NONE
        return Fault.RESOURCE if self.status is Status.CRASHED else Fault.ENVIRONMENT


@dataclass(frozen=True, slots=True)
class Yardstick:
    """What the baseline shows, each the worst of its runs.

    Attributes:
        throughput: per second, in the load's own unit.
        p99_ms: of the response time; NaN when unknown.
        mean_ms: of the response time of an application's own traffic; NaN for other loads, and when unknown.
        operations_per_s: that ended.
        longest_s: of its operations; inf when unknown.
    """

    throughput: float
    p99_ms: float
    operations_per_s: float = 0.0
    longest_s: float = math.inf
    mean_ms: float = math.nan

    @classmethod
    def of(cls, baselines: Sequence[Measurement]) -> Yardstick | None:
        """From runs of the baseline; None when there are none."""
        if not baselines:
            return None
        p99 = [m.latency_ms["p99"].estimate for m in baselines if "p99" in m.latency_ms]
        means = [m.latency_mean_ms.estimate for m in baselines if m.is_observed]
        per_s = min(m.n_ok / m.duration_s for m in baselines)
        took_s = [each.latency_max_ms / 1e3 for m in baselines for each in m.by_label.values()]
        # What a command prints may be another time than that of its run: one run follows the other.
        took_s += [1 / per_s] if per_s else [math.inf]
        return cls(
            throughput=min(m.throughput.estimate for m in baselines),
            p99_ms=max((value for value in p99 if math.isfinite(value)), default=math.nan),
            operations_per_s=per_s,
            longest_s=max(value for value in took_s if not math.isnan(value)),
            mean_ms=max((value for value in means if math.isfinite(value)), default=math.nan),
        )

    @property
    def latency_ms(self) -> float:
        """What a trial's latency is compared with."""
        return self.p99_ms if math.isnan(self.mean_ms) else self.mean_ms


@dataclass(slots=True)
class _Bound:
    """One noisy figure, second by second, against its limit."""

    test: EarlyStop
    values: list[float] = field(default_factory=list)

    def take(self, value: float, n_operations: float = 1.0) -> bool:
        self.values.append(value)
        return self.test.update(value, n_operations)

    @property
    def mean(self) -> float:
        return sum(self.values) / len(self.values)


def _above(limit: float) -> _Bound:
    return _Bound(EarlyStop(Interval(limit, limit, limit), is_maximised=False, margin=0.0, alpha=_ALPHA))


def _below(limit: float) -> _Bound:
    return _Bound(EarlyStop(Interval(limit, limit, limit), is_maximised=True, margin=0.0, alpha=_ALPHA))


class Guardrails:
    """The guards of one run of a load; fed with its seconds and with the target's vitals.

    Args:
        limits: the study's.
        max_error_rate: share of failed operations that a trial may have.
        yardstick: the baseline's figures; None when this is the baseline, or nothing is known of it.
        is_baseline: whether the running config is the user's own, which is never blamed.

    Attributes:
        grown_bytes: what the target's own files have grown by since the run's start; None when it cannot be seen.
        peaks: largest use of each resource so far, by name.
    """

    def __init__(
        self,
        limits: GuardLimits,
        *,
        max_error_rate: float,
        yardstick: Yardstick | None = None,
        is_baseline: bool = False,
    ) -> None:
        self._limits = limits
        self._max_error_rate = max_error_rate
        self._is_baseline = is_baseline
        self.grown_bytes: Callable[[], int | None] = lambda: None
        self._yardstick = None if is_baseline else yardstick
        self._errors = _above(max_error_rate)
        self._hopeless_run: list[int] = []
        self._latency = self._throughput = None
        if self._yardstick is not None:
            if limits.latency_factor and self._yardstick.latency_ms > 0:
                # Logarithms: one slow second must not outweigh many good ones.
                self._latency = _above(math.log(limits.latency_factor * self._yardstick.latency_ms))
            if limits.throughput_factor and self._yardstick.throughput > 0:
                self._throughput = _below(limits.throughput_factor * self._yardstick.throughput)
        self._pace = self.pace()
        self._first: Vitals | None = None
        self._n_lagging = 0
        self.peaks: dict[str, float] = {}

    def pace(self) -> Pace:
        """For one run of the load."""
        yardstick = self._yardstick
        return Pace() if yardstick is None else Pace(yardstick.operations_per_s, yardstick.longest_s)

    def second(self, frame: Frame, *, in_window: bool) -> Breach | None:
        """Learns from one second of the load; the limit that it shows to be broken."""
        n_operations = self._pace.take(frame)
        found = self._hopeless(frame)
        if found is None and in_window:
            found = self._error_rate(frame) or self._slow(frame, n_operations)
        return found

    def _hopeless(self, frame: Frame) -> Breach | None:
        self._hopeless_run = [*self._hopeless_run, frame.n_error] if frame.n_error and not frame.n_ok else []
        if len(self._hopeless_run) < _HOPELESS_S or sum(self._hopeless_run) < _HOPELESS_N:
            return None
        reason = f"error_rate=100.0 % for {len(self._hopeless_run)} s"
        return Breach(Status.FAILED_LOAD, reason, "error_rate", 1.0)

    def _error_rate(self, frame: Frame) -> Breach | None:
        n = frame.n_ok + frame.n_error
        if not n or not self._errors.take(frame.n_error / n):
            return None
        rate, took = self._errors.mean, format_duration(len(self._errors.values))
        reason = f"error_rate={format_percent(rate, 1)} after {took} (limit {format_percent(self._max_error_rate, 1)})"
        return Breach(Status.FAILED_LOAD, reason, "error_rate", rate)

    def _slow(self, frame: Frame, n_operations: float | None) -> Breach | None:
        yardstick = self._yardstick
        if yardstick is None:
            return None
        us = frame.response_mean_us if frame.is_observed else frame.response_p99_us
        if self._latency is not None and us > 0 and self._latency.take(math.log(us / 1e3)):
            found, limit = math.exp(self._latency.mean), self._limits.latency_factor
            name = "mean" if frame.is_observed else "p99"
            figure = f"{name}={format_figure(found)} ms"
            return _slow(f"latency_{name}", figure, found / yardstick.latency_ms, limit, self._latency)
        if self._throughput is None or n_operations is None:
            return None
        if self._throughput.take(frame.credited, n_operations) and not self._is_lull(frame):
            rate, limit = self._throughput.mean, self._limits.throughput_factor
            times = rate / yardstick.throughput
            return _slow("throughput", f"throughput={format_figure(rate)}/s", times, limit, self._throughput)
        return None

    def _is_lull(self, frame: Frame) -> bool:
        """Whether an application asks for less, and is answered about as soon as with the baseline."""
        if self._yardstick is None or self._latency is None or not frame.response_mean_us > 0:
            return False
        return math.exp(self._latency.mean) <= _LULL * self._yardstick.latency_ms

    def vitals(self, now: Vitals) -> Breach | None:
        """Learns from one look at the target's resources; the hard limit that is broken now."""
        if self._first is None:
            self._first = now
        self._remember(self._first, now)
        for check in (self._killed, self._memory, self._available, self._swap, self._disk, self._lag):
            breach = check(self._first, now)
            if breach is not None:
                return breach
        return None

    def _remember(self, first: Vitals, now: Vitals) -> None:
        before = {volume.path: volume.used_bytes for volume in first.volumes}
        figures: Mapping[str, float | None] = {
            "memory_bytes": now.memory_bytes,
            "memory_limit_bytes": now.memory_limit_bytes,
            "swap_bytes": now.swap_bytes,
            "disk_share": max((volume.share for volume in now.volumes), default=None),
            "disk_growth_share": max(
                ((v.used_bytes - before.get(v.path, v.used_bytes)) / v.size_bytes for v in now.volumes), default=None
            ),
            "lag_s": now.lag_s,
        }
        for name, value in figures.items():
            if value is not None:
                self.peaks[name] = max(float(value), self.peaks.get(name, 0.0))

    def _killed(self, first: Vitals, now: Vitals) -> Breach | None:
        if now.oom_kills is None or first.oom_kills is None:
            return None  # the count began long before the trial: alone it says nothing
        n_kills = now.oom_kills - first.oom_kills
        if n_kills <= 0:
            return None
        used = _of_limit(now.memory_bytes, now.memory_limit_bytes)
        reason = f"the kernel killed {n_kills} of the server's processes because memory ran out: {used}"
        return self._blame(True, reason, "memory", float(n_kills))

    def _memory(self, first: Vitals, now: Vitals) -> Breach | None:
        used, limit = now.memory_bytes, now.memory_limit_bytes
        # What the user's own config uses is not for us to end.
        if self._is_baseline or not self._limits.memory or used is None or limit is None:
            return None
        allowed = self._limits.memory * limit
        if used <= allowed:
            return None
        grew = _grew_most(first, now)
        reason = f"stopped: memory={_of_limit(used, limit)} (limit {format_percent(self._limits.memory)} of it){grew}"
        return self._blame(True, reason, "memory", used / allowed - 1)

    def _available(self, first: Vitals, now: Vitals) -> Breach | None:
        left = now.available_bytes
        if not self._limits.memory or left is None or first.available_bytes is None:
            return None
        if left >= _LEAST_AVAILABLE * first.available_bytes:
            return None
        reason = f"stopped: the machine has only memory_available={format_size(left)} left"
        drop = first.available_bytes - left
        return self._blame(_grown(first.memory_bytes, now.memory_bytes) >= _MINE * max(drop, 1), reason, "memory", 1.0)

    def _swap(self, first: Vitals, now: Vitals) -> Breach | None:
        limit = self._limits.swap_bytes
        if not limit or now.swapped_bytes is None or first.swapped_bytes is None:
            return None
        moved = now.swapped_bytes - first.swapped_bytes
        if moved <= limit:
            return None
        own = _grown(first.swap_bytes, now.swap_bytes) + _grown(first.memory_bytes, now.memory_bytes)
        reason = f"stopped: swapped={format_size(moved)} during the trial (limit {format_size(limit)})"
        return self._blame(own >= _MINE * limit, reason, "swap", moved / limit - 1)

    def _disk(self, first: Vitals, now: Vitals) -> Breach | None:
        before = {volume.path: volume for volume in first.volumes}
        for volume in now.volumes if self._limits.disk else ():
            start = before.get(volume.path, volume)
            grown, free = volume.used_bytes - start.used_bytes, start.size_bytes - start.used_bytes
            # A volume that was fuller than the limit before we came may still be filled half way.
            most = max(self._limits.disk, (1 + start.share) / 2 if start.share > self._limits.disk else 0.0)
            allowed = self._limits.disk_growth_bytes or free // 2
            if volume.share < most and grown <= allowed:
                continue
            limit = f"{format_percent(most)} full" if volume.share >= most else f"a growth of {format_size(allowed)}"
            own = self.grown_bytes()
            reason = (
                f"stopped: disk={volume.path} is {format_percent(volume.share)} full "
                f"and grew by {format_size(max(grown, 0))} during the "
                f"trial, the target's own files by {format_size(max(own, 0)) if own is not None else '?'} (limit {limit})"
            )
            return self._blame(own is not None and own >= _MINE * max(grown, 1), reason, "disk", volume.share)
        return None

    def _lag(self, first: Vitals, now: Vitals) -> Breach | None:
        limit = self._limits.lag_s
        if self._is_baseline or not limit or now.lag_s is None:
            return None
        is_behind = now.lag_s > (first.lag_s or 0.0) + limit
        self._n_lagging = self._n_lagging + 1 if is_behind else 0
        if self._n_lagging < _LAG_SAMPLES:
            return None
        reason = f"stopped: a standby is replication_lag={format_duration(now.lag_s)} behind (limit {format_duration(limit)})"
        return Breach(Status.STOPPED_EARLY, reason, "lag", now.lag_s / limit - 1)

    def _blame(self, is_own: bool, reason: str, metric: str, excess: float) -> Breach:
        if is_own and not self._is_baseline:
            return Breach(Status.CRASHED, reason, metric, excess)
        cause = "the running config itself" if is_own else "not this server's own use"
        return Breach(Status.INFRASTRUCTURE, f"{reason}; {cause}", metric, excess)


def _slow(metric: str, figure: str, times: float, limit: float, bound: _Bound) -> Breach:
    took = format_duration(len(bound.values))
    reason = f"stopped: {figure} after {took}, {format_figure(times, 2)} times the baseline's (limit {limit:g} times)"
    return Breach(Status.STOPPED_EARLY, reason, metric, abs(math.log(times / limit)) if times > 0 else 1.0)


def _of_limit(used: int | None, limit: int | None) -> str:
    if used is None or limit is None:
        return "not known"
    return f"{format_size(used)} of a budget of {format_size(limit)}"


def _grew_most(first: Vitals, now: Vitals) -> str:
    """Of a stack, the tier that has grown most since the run began."""
    grown = {tier: _grown(first.memory_by_tier.get(tier), size) for tier, size in now.memory_by_tier.items()}
    most = max(grown, key=grown.__getitem__, default="")
    return f"; {most} grew most, by {format_size(grown[most])}" if most and grown[most] > 0 else ""


def _grown(before: int | None, now: int | None) -> int:
    return max(0, now - before) if now is not None and before is not None else 0


def shortage(vitals: Vitals, limits: GuardLimits) -> str:
    """Why no config may be applied now: a volume that is full already, whoever filled it; "" when none is."""
    full = 1 - (1 - limits.disk) / 10
    for volume in vitals.volumes if limits.disk else ():
        if volume.share >= full:
            return (
                f"disk={volume.path} is {format_percent(volume.share, 1)} full before anything was applied "
                f"({format_size(volume.size_bytes - volume.used_bytes)} left)"
            )
    return ""
