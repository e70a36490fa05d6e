"""Runs: the load of a trial: the same data as before every other, code that is compiled, and then the run that is measured.

What is still to be compiled, as after a restart of a Java machine, is compiled under short loads. They change the data of a
workload that writes, so these are made afresh before the run that counts. Fresh data can be other work: what was compiled for
rows in memory is thrown away when they come from files again. So short loads follow until one on fresh data needs nothing more;
the run that counts then begins at the same age of its data as one for which nothing had to be compiled.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trimtab.errors import LoadError
from trimtab.measure import EarlyStop
from trimtab.trial.counting import counted
from trimtab.trial.guarding import Guarding
from trimtab.trial.listener import Costs, TrialListener
from trimtab.trial.load import End, LoadResult, MeasurePlan, measure_load, warm_up_load
from trimtab.trial.start_state import StartStates
from trimtab.trial.stop import Interrupted
from trimtab.trial.warmth import Warmth
from trimtab.units import format_duration
from trimtab.workload import ProfiledWorkload, RatedWorkload, ThreadedWorkload, Workload

if TYPE_CHECKING:
    from trimtab.systems import Stack
    from trimtab.trial.compiling import Compiling
    from trimtab.trial.entry import Entry
    from trimtab.trial.watch import Watch

__all__ = ["LoadOrder", "Runs"]

_N_CALM = 3
"""Short loads in a row with little to compile: a method that is called now and then becomes hot later."""

_MOST_SERIES = 4
"""Series of short loads, each on fresh data."""

_TRY_OUT_S = 3.0

_SEEDS = 1000
"""Between the seeds of two such series."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOrder:
    """What a trial wants of its load.

    Attributes:
        plan: how long it measures.
        seed: of the operations.
        early_stop: ends it for a config that is surely bad; None: nothing does.
        is_baseline: whether the baseline runs, which no guard compares with itself.
    """

    plan: MeasurePlan
    seed: int
    early_stop: EarlyStop | None
    is_baseline: bool


class Runs:
    """Those on one stack.

    Attributes:
        warmth: what the next one finds warm.
        begun_s: when the last one began, after its data were ready (monotonic clock).
    """

    def __init__(
        self,
        stack: Stack,
        guarding: Guarding,
        *,
        listener: TrialListener,
        is_interrupted: Callable[[], bool],
        say: Callable[[str], None],
    ) -> None:
        self.warmth = Warmth(stack.tiers)
        self.begun_s = time.monotonic()
        self._stack, self._guarding, self._listener = stack, guarding, listener
        self._is_interrupted = is_interrupted
        self._say, self._has_warned = say, False
        self._start_states = StartStates(stack, say)

    def begin(self, entry: Entry, workload: Workload) -> None:
        """What they leave on the server is noted in `entry`.

        Raises:
            TargetError: it cannot be noted.
        """
        self._start_states.begin(entry, workload)

    @contextmanager
    def cleaned_up(self, workload: Workload) -> Iterator[None]:
        """After what is done inside, however it ends, what they have left on the server goes."""
        try:
            yield
        finally:
            self._start_states.clean_up(workload)

    def run(self, workload: Workload, order: LoadOrder, costs: Costs) -> tuple[LoadResult, str]:
        """What a load has shown, and the step under which its warm-up counts; `costs` gets what resets took.

        Raises:
            LoadError, ConnectionError: as `measure_load` and the workload's reset.
            Interrupted: somebody has asked to stop before it began.
        """
        self.begun_s = time.monotonic()
        self.stop_if_asked()
        self._reset(workload, costs)
        used, first = self.warmth.plan(order.plan, workload), self._compiled(workload, order, costs)
        if first is not None and first.end is not End.COMPLETE:
            return first, used[1]
        self._listener.step("load")
        result = self._measured(workload, replace(order, plan=used[0]), first)
        self.warmth.ran(workload, result.warmup_s + result.measure_s, is_compiled=result.is_compiled)
        self._warn(result, order.plan)
        return result, used[1]

    def works(self, workload: Workload, order: LoadOrder, costs: Costs) -> bool:
        """Whether the first seconds of a load can be run, of which nothing is kept.

        Raises:
            Interrupted: somebody has asked to stop before that was known.
        """
        self.begun_s = time.monotonic()
        try:
            self.stop_if_asked()
            self._reset(workload, costs)
            run = workload.start(self._stack.endpoint(), seed=order.seed, duration_s=_TRY_OUT_S)
            try:
                ends_s = time.monotonic() + _TRY_OUT_S
                while not run.is_done and (left_s := ends_s - time.monotonic()) > 0:
                    self.stop_if_asked()
                    run.frame(left_s)
            finally:
                run.stop()
        except (LoadError, ConnectionError):
            return False
        finally:
            costs.add("failed", time.monotonic() - self.begun_s)
        return True

    def _warn(self, result: LoadResult, plan: MeasurePlan) -> None:
        """Says once that a value is too low because the longest warm-up was too short for a target that compiles."""
        if result.end is not End.COMPLETE or result.is_compiled or self._has_warned:
            return
        self._has_warned = True
        cap = format_duration(plan.warmup_cap_s)
        self._say(
            f"the server was still compiling when the measurement began, after warmup_cap={cap!r}: a config that needs a restart"
            " looks slower than one that does not; raise [measure] warmup_cap"
        )

    def _reset(self, workload: Workload, costs: Costs) -> bool:
        """Whether there was anything to make afresh."""
        started = time.monotonic()
        is_fresh = self._start_states.reset(workload, costs)
        if is_fresh:
            self.warmth.has_fresh_data()
        self.begun_s += time.monotonic() - started
        return is_fresh

    def _compiled(self, workload: Workload, order: LoadOrder, costs: Costs) -> LoadResult | None:
        """What the short loads have shown, after which the data are fresh; None: none were needed, there is no time for them, or
        the operations of the load are not short: a command that is ended after a second may do harm, and exercises little."""
        compiling = self.warmth.compiling(workload)
        if compiling is None or not isinstance(workload, RatedWorkload | ThreadedWorkload):
            return None
        self._listener.step("warm-up")
        whole, room_s = None, order.plan.short_loads_s
        for number in range(_MOST_SERIES):
            before_s = compiling.total_s()
            result = self._short_loads(workload, order, compiling, number, room_s)
            if not result.warmup_s:
                break
            whole, room_s = result if whole is None else _joined(whole, result), room_s - result.warmup_s
            if result.end is not End.COMPLETE or not self._reset(workload, costs):
                break
            if not result.is_compiled:
                break
            if number and compiling.has_done_little(before_s):
                self.warmth.has_compiled(workload)
                break
            compiling.pause(room_s, self.is_over)  # what the data themselves made it compile says nothing of the load
        return whole

    def _short_loads(
        self, workload: Workload, order: LoadOrder, compiling: Compiling, number: int, room_s: float
    ) -> LoadResult:
        """One series of them; the second and later ones show at once whether fresh data has made more to compile."""
        plan = order.plan
        return warm_up_load(
            workload, self._stack.endpoint(), plan, compiling, seed=order.seed + number * _SEEDS, room_s=room_s,
            n_calm=1 if number else _N_CALM, watch=self._watch(workload, order), is_interrupted=self.is_over,
        )  # fmt: skip

    def _watch(self, workload: Workload, order: LoadOrder) -> Watch:
        return self._guarding.watch(
            self._stack,
            is_baseline=order.is_baseline,
            max_error_rate=order.plan.max_error_rate,
            has_profile=_has_profile(workload),
        )

    def _measured(self, workload: Workload, order: LoadOrder, first: LoadResult | None) -> LoadResult:
        plan = order.plan if first is None else order.plan.after(first.warmup_s)
        result = counted(
            self._stack,
            measure_load,
            workload,
            self._stack.endpoint(),
            plan,
            seed=order.seed,
            early_stop=None if _has_profile(workload) else order.early_stop,
            watch=self._watch(workload, order),
            is_interrupted=self.is_over,
            on_frame=self._listener.second,
            compiling=self.warmth.compiling(workload),
            was_compiled=first is not None and first.is_compiled,
        )
        return result if first is None else _joined(first, result)

    def is_over(self) -> bool:
        """Whether somebody has asked to stop."""
        return self._is_interrupted() or self._guarding.switch.is_on

    def stop_if_asked(self) -> None:
        """Raises Interrupted when somebody has: for the moments between two steps."""
        self._guarding.switch.stop_if_on()
        if self._is_interrupted():
            raise Interrupted


def _has_profile(workload: Workload) -> bool:
    return isinstance(workload, ProfiledWorkload) and workload.has_profile


def _joined(first: LoadResult, result: LoadResult) -> LoadResult:
    """The run that was measured, with what the short loads before it have shown and taken. They are no part of the measurement:
    the data of the run are as old as its own warm-up says, for these loads had others."""
    return replace(
        result,
        warmup_s=first.warmup_s + result.warmup_s,
        errors=(*first.errors, *result.errors),
        error_classes=dict(Counter(first.error_classes) + Counter(result.error_classes)),
        peaks=_largest(first.peaks, result.peaks),
    )


def _largest(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    return {name: max(one.get(name, 0.0), other.get(name, 0.0)) for name in {**one, **other}}
