"""One load run, from start to measurement: warm up until steady, then a window until the interval is tight enough.

A target that has to compile what the load runs is warmed up before by short loads with pauses (see `compiling`).
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np

from trimtab.errors import GeneratorError
from trimtab.measure import (
    EarlyStop,
    Measurement,
    SecondLog,
    SteadyDetector,
    batch_means_interval,
    summarise,
)
from trimtab.records import Endpoint
from trimtab.trial.compiling import Compiling
from trimtab.trial.guard import Breach, GuardLimits, Guardrails
from trimtab.trial.pace import Pace
from trimtab.trial.watch import Watch
from trimtab.workload import ArrivingWorkload, Frame, LoadRun, PausingWorkload, Workload

__all__ = ["End", "LoadResult", "MeasurePlan", "measure_load", "warm_up_load"]

_FRAME_PATIENCE_S = 15.0
"""A frame comes every second; after this long without one the engine itself is stuck."""

_PRECISION_FRAMES = 5
"""Frames needed before the interval is looked at for ending the window early."""

_BOUT_S = 1
"""Seconds of a short load: a method is compiled after thousands of calls."""

_BOUTS_SHARE = 0.75
"""Of the longest warm-up, what all short loads of a trial and their pauses may take."""

_WARM_SHARE = 0.15
"""Of a run on a target that is warm already, the most that its warm-up takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurePlan:
    """How long a trial measures; all in seconds.

    Attributes:
        window_s: shortest window.
        window_max_s: longest window; the window grows from `window_s` until the throughput's 95 % interval is within
            `precision` of its estimate (half width).
        precision: relative half width aimed at.
        warmup_floor_s, warmup_cap_s: warm-up ends by the steady-state rule, but not before and not after these.
        max_error_rate: share of failed operations above which the load has failed.
    """

    window_s: float = 10.0
    window_max_s: float = 30.0
    precision: float = 0.03
    warmup_floor_s: float = 2.0
    warmup_cap_s: float = 15.0
    max_error_rate: float = 0.01

    def warm(self, arrivals_s: float = 0.0) -> MeasurePlan:
        """For a target that the last run has left warm, with the same data and without a restart: a warm-up of at most 15 % of
        the run, but one second at least, in which the load's own clients start; besides the seconds in which its users come."""
        most_s = max(1.0, math.floor(_WARM_SHARE * self.window_s / (1 - _WARM_SHARE))) + arrivals_s
        return replace(
            self, warmup_floor_s=min(self.warmup_floor_s, most_s), warmup_cap_s=min(self.warmup_cap_s, most_s)
        )

    @property
    def fixed(self) -> MeasurePlan:
        """For a load that changes over a run: every run is measured in the same seconds of it, whatever it shows."""
        return replace(self, window_max_s=self.window_s, warmup_floor_s=self.warmup_cap_s)

    def after(self, seconds: float) -> MeasurePlan:
        """For a run before which others have warmed up for so many seconds: what is left of the longest warm-up."""
        return replace(self, warmup_cap_s=max(self.warmup_floor_s, self.warmup_cap_s - seconds))

    @property
    def short_loads_s(self) -> float:
        """The longest that short loads may take before one run."""
        return _BOUTS_SHARE * self.warmup_cap_s

    @property
    def longest_s(self) -> float:
        """The longest that one run can take."""
        return self.warmup_cap_s + self.window_max_s


class End(StrEnum):
    """Why a load run ended."""

    COMPLETE = "complete"
    STOPPED_EARLY = "stopped_early"
    GUARDED = "guarded"
    """A guardrail ended it; see `LoadResult.breach`."""
    INTERRUPTED = "interrupted"
    DIED = "died"
    """The engine ended by itself before the window was complete."""


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What a run showed.

    Attributes:
        end: why it ended.
        measurement: None when there was no window at all.
        warmup_s, measure_s: its two parts.
        is_compiled: whether the target had compiled what the load runs when the window began, as far as it shows.
        errors, error_classes: of the whole run.
        breach: the guardrail that ended it; None when none did.
        peaks: largest use of the target's resources, by name; empty when they cannot be seen.
        counters_before, counters_after: what the target counts of its work (see `CountingTarget`); empty when nothing.
    """

    end: End
    measurement: Measurement | None
    warmup_s: float
    measure_s: float
    errors: tuple[str, ...] = ()
    error_classes: Mapping[str, int] = field(default_factory=dict)
    breach: Breach | None = None
    peaks: Mapping[str, float] = field(default_factory=dict)
    counters_before: Mapping[str, float] = field(default_factory=dict)
    counters_after: Mapping[str, float] = field(default_factory=dict)
    is_compiled: bool = True


class _Bout:
    """State of a short load that warms up: it is over after some seconds, and measures nothing."""

    started = None

    def take(self, frame: Frame) -> End | None:
        """One second has passed."""
        return End.COMPLETE if frame.second + 1 >= _BOUT_S else None


@dataclass(slots=True)
class _Window:
    """State of one run while its frames come in: one credited value per second, from the run's start.

    In an open loop the schedule holds the throughput up from the first second on, whatever the server does: there the response
    time (its p95 of each second) must be steady, too, and known as precisely.
    """

    plan: MeasurePlan
    steady: SteadyDetector
    slow: SteadyDetector
    pace: Pace
    early_stop: EarlyStop | None
    frames: list[float] = field(default_factory=list)
    n_operations: list[float | None] = field(default_factory=list)
    """What each of them tells of (see `Pace`)."""
    p95_ms: list[float] = field(default_factory=list)
    started: int | None = None
    is_open: bool = False
    compiling: Compiling | None = None
    was_compiled: bool = False
    is_compiled: bool = True
    held_s: int = 0
    """Seconds after which the rule began to look: the target compiled before."""

    @property
    def credited(self) -> list[float]:
        """Seconds inside the window so far."""
        return [] if self.started is None else self.frames[self.started :]

    @property
    def is_steady(self) -> bool:
        """Whether the rule found the run steady; False when the cap ended the warm-up."""
        return self.is_compiled and all(detector.is_steady for detector, _ in self._detectors)

    @property
    def _detectors(self) -> list[tuple[SteadyDetector, list[float]]]:
        """Each with its series."""
        return [(self.steady, self.frames), *([(self.slow, self.p95_ms)] if self.is_open else [])]

    def take(self, frame: Frame) -> End | None:
        """Learns from one frame; says how the run ends, or None to go on."""
        self.frames.append(frame.credited)
        self.n_operations.append(self.pace.take(frame))
        self.p95_ms.append(frame.response_p95_us / 1e3)
        self.is_open = frame.is_open
        first = len(self.frames) - 1
        if self.started is None:
            if self._is_held():
                return None
            are_over = [detector.update(series[-1]) for detector, series in self._detectors]
            if not all(are_over):
                return None
            # The rule may find that the series was steady for some seconds already: they count.
            first = self.started = self.held_s + math.ceil(max(detector.warmup_s for detector, _ in self._detectors))
        fresh = zip(self.frames[first:], self.n_operations[first:], strict=True)
        if self.early_stop is not None and any(self.early_stop.update(v, n) for v, n in fresh if n is not None):
            return End.STOPPED_EARLY
        return End.COMPLETE if self._is_complete(len(self.credited)) else None

    def _is_held(self) -> bool:
        """Whether the target still compiles and there is time to wait: the rule then begins anew."""
        if self.compiling is None:
            return False
        is_busy = self.compiling.is_busy()
        self.is_compiled = not is_busy if self.compiling.has_seen_enough else self.was_compiled
        if not is_busy or len(self.frames) >= self.plan.warmup_cap_s:
            return False
        self.held_s = len(self.frames)
        self.steady, self.slow = _detector(self.plan, self.held_s), _detector(self.plan, self.held_s)
        return True

    def _is_complete(self, elapsed_s: int) -> bool:
        if elapsed_s >= self.plan.window_max_s:
            return True
        if elapsed_s < max(self.plan.window_s, _PRECISION_FRAMES if self.plan.window_max_s > self.plan.window_s else 0):
            return False
        if self.plan.window_max_s <= self.plan.window_s:
            return True
        widths = [
            batch_means_interval(np.asarray(series[self.started :])).relative_half_width
            for _, series in self._detectors
        ]
        return max(widths) <= self.plan.precision


def measure_load(
    workload: Workload,
    endpoint: Endpoint,
    plan: MeasurePlan,
    *,
    seed: int,
    early_stop: EarlyStop | None = None,
    watch: Watch | None = None,
    is_interrupted: Callable[[], bool] = lambda: False,
    on_frame: Callable[[Frame], None] = lambda frame: None,
    compiling: Compiling | None = None,
    was_compiled: bool = False,
) -> LoadResult:
    """Runs `workload` once and measures it.

    Args:
        workload: what to run.
        endpoint: against what.
        plan: how long.
        seed: of the operations; the same seed gives the same operations.
        early_stop: fed with every second of the window; ends the run when it says so.
        watch: the guardrails, fed with every second of the run; those of the error rate alone when None.
        is_interrupted: asked every second; ends the run.
        on_frame: told every second.
        compiling: tiers that may still have to compile what the load runs; None: there are none. The window begins when nothing
            more is compiled, or with the end of the longest warm-up.
        was_compiled: what counts if that comes before enough was seen.

    Raises:
        LoadError: the load cannot be started, or its engine sends no seconds, or nonsense.
    """
    watch = watch or _only_errors(plan)
    if early_stop is not None:
        early_stop.begin()  # a repeat is judged by its own seconds
    with watch:
        run = workload.start(endpoint, seed=seed, duration_s=plan.longest_s + 2.0)
        try:
            window = _Window(
                plan, _detector(plan), _detector(plan), watch.pace(), early_stop, compiling=compiling, was_compiled=was_compiled
            )  # fmt: skip
            end, breach = _follow(run, window, watch, is_interrupted, on_frame)
        finally:
            log = run.stop()
    classes = log.error_classes if isinstance(log, SecondLog) else {}
    if window.started is None or not window.credited:
        return LoadResult(end, None, log.duration_s, 0.0, log.errors, classes, breach, watch.peaks, is_compiled=False)
    bounds = (float(window.started), float(len(window.frames)))
    measurement = summarise(log, window_s=bounds, is_steady=window.is_steady)
    length_s, is_compiled = bounds[1] - bounds[0], window.is_compiled
    return LoadResult(
        end, measurement, bounds[0], length_s, log.errors, classes, breach, watch.peaks, is_compiled=is_compiled
    )


def _only_errors(plan: MeasurePlan) -> Watch:
    return Watch(Guardrails(GuardLimits(), max_error_rate=plan.max_error_rate), None, 1.0)


def warm_up_load(
    workload: Workload,
    endpoint: Endpoint,
    plan: MeasurePlan,
    compiling: Compiling,
    *,
    seed: int,
    room_s: float,
    n_calm: int,
    watch: Watch | None = None,
    is_interrupted: Callable[[], bool] = lambda: False,
) -> LoadResult:
    """Short loads, and after each a pause in which the target compiles, until there is little left to compile.

    Their users do not pause, whatever those of `workload` do: a second in which they all think would compile nothing, and seem
    to show that nothing is left. They take `room_s` at most. The other arguments are those of `measure_load`; each load has a
    seed of its own. They end when little was compiled in `n_calm` of them in a row.

    Returns:
        A result without a measurement; `warmup_s` has the pauses in it, and is 0 where there was no time for a load.
        `is_compiled` says whether little was left in the end; where users still come one after the other, only a longer load
        shows it.

    Raises:
        LoadError: as `measure_load`.
    """
    begun, number, n_found = time.monotonic(), 0, 0
    seconds, classes = 0.0, Counter[str]()
    errors: tuple[str, ...] = ()
    end, breach = End.COMPLETE, None
    watch = watch or _only_errors(plan)
    workload = workload.at_full_speed() if isinstance(workload, PausingWorkload) else workload
    with watch:
        while end is End.COMPLETE and n_found < n_calm and seconds + _BOUT_S < room_s:
            number, before_s = number + 1, compiling.total_s()
            run = workload.start(endpoint, seed=seed + number, duration_s=_BOUT_S + 2.0)
            try:
                end, breach = _follow(run, _Bout(), watch, is_interrupted, lambda frame: None)
            finally:
                log = run.stop()
            errors += tuple(text for text in log.errors if text not in errors)
            classes.update(log.error_classes if isinstance(log, SecondLog) else {})
            compiling.pause(room_s - (time.monotonic() - begun), is_interrupted)
            end = End.INTERRUPTED if end is End.COMPLETE and is_interrupted() else end
            n_found = n_found + 1 if compiling.has_done_little(before_s) else 0
            seconds = time.monotonic() - begun
    is_compiled = n_found == n_calm and not (isinstance(workload, ArrivingWorkload) and workload.arrivals_s)
    return LoadResult(end, None, seconds, 0.0, errors, dict(classes), breach, watch.peaks, is_compiled=is_compiled)


def _detector(plan: MeasurePlan, after_s: float = 0.0) -> SteadyDetector:
    floor_s, cap_s = max(0.0, plan.warmup_floor_s - after_s), max(0.0, plan.warmup_cap_s - after_s)
    return SteadyDetector(floor_s=floor_s, cap_s=cap_s)


def _follow(
    run: LoadRun,
    window: _Window | _Bout,
    watch: Watch,
    is_interrupted: Callable[[], bool],
    on_frame: Callable[[Frame], None],
) -> tuple[End, Breach | None]:
    while True:
        frame = run.frame(_FRAME_PATIENCE_S)
        if frame is None:
            if run.is_done:
                return End.DIED, None
            raise GeneratorError(
                f"the load engine sent no frame for {_FRAME_PATIENCE_S:g} s",
                hint="the machine may be overloaded or suspended; run the trial again",
            )
        _check(frame)
        on_frame(frame)
        end = window.take(frame)
        breach = watch.second(frame, in_window=window.started is not None)
        if breach is not None:
            return End.GUARDED, breach
        if end is not None:
            return end, None
        if is_interrupted():
            return End.INTERRUPTED, None


def _check(frame: Frame) -> None:
    """No second of a load can look otherwise: whatever comes after such a one cannot be believed either."""
    if not (math.isfinite(frame.credited) and frame.credited >= 0 and min(frame.n_ok, frame.n_error) >= 0):
        raise GeneratorError(
            f"the load engine sent invalid figures: second={frame.second} credited={frame.credited} n_ok={frame.n_ok} "
            f"n_error={frame.n_error}",
            hint="the fault lies with the load engine and not with the server; run the trial again",
        )
