"""TrialRoom: one trial, check → journal → apply → reset → warm up → measure → restore; the only place through which the world
changes while a study runs.

    with TrialRoom(target, workload, space, baseline, ...) as room:      # journals the target as found
        trial = room.run(config, number=0, role=Role.BASELINE)
    # here the target is as it was found, whatever happened

A successful trial may hand the target over to the next one (`hand_over=True`): the next apply then changes one config
into the other with one restart in place of two. A failed one is undone at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from trimtab.errors import ApplyError, LoadError, TargetError, TrimtabError
from trimtab.measure import EarlyStop, Measurement
from trimtab.records import Objective, Role, Status, Trial
from trimtab.space import Config, Space, Value
from trimtab.target import Snapshot, Target
from trimtab.trial.journal import Entry, Journal
from trimtab.trial.judge import judge
from trimtab.trial.load import End, LoadResult, MeasurePlan, measure_load
from trimtab.units import format_duration
from trimtab.workload import Frame, ResettableWorkload, StartState, Workload

__all__ = ["Interrupted", "TrialListener", "TrialRoom"]

_MAX_INFRASTRUCTURE_RETRIES = 2
_MAX_INVALID_RETRIES = 1
"""Of a run that measured the generator: a busy moment passes, a generator that is too small stays so."""


class Interrupted(Exception):  # noqa: N818 - not an error: the user asked to stop
    """The user asked to stop while a trial ran; the trial is not a result. The target is already restored."""


class TrialListener(Protocol):
    """Who wants to see a trial while it runs."""

    def step(self, name: str) -> None: ...
    def second(self, frame: Frame) -> None: ...


class _Silent:
    def step(self, name: str) -> None:
        pass

    def second(self, frame: Frame) -> None:
        pass


@dataclass(slots=True)
class _Costs:
    """Seconds by step."""

    seconds: dict[str, float] = field(default_factory=dict)

    def add(self, step: str, seconds: float) -> None:
        self.seconds[step] = self.seconds.get(step, 0.0) + seconds


class TrialRoom:
    """Runs trials on one target; restores it when left.

    Args:
        target: open and locked by the caller.
        workload: prepared by the caller.
        space: of the study.
        baseline: running values of the space's knobs; what equals them is not set, so that it stays as it was found.
        objective: for the constraints that a measurement must meet.
        state_dir: where the journal lives.
        study: name for the journal.
        purpose: "tune" or "bench".
        listener: told of steps and seconds.
        is_interrupted: asked every second.
        say: told once how every trial gets the same start state, and of what else people should know.
    """

    def __init__(
        self,
        target: Target,
        workload: Workload,
        space: Space,
        baseline: Config,
        *,
        objective: Objective,
        state_dir: Path,
        study: str,
        purpose: str = "tune",
        listener: TrialListener | None = None,
        is_interrupted: Callable[[], bool] = lambda: False,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._target = target
        self._workload = workload
        self._space = space
        self._baseline = baseline
        self._objective = objective
        self._journal = Journal(state_dir)
        self._study = study
        self._purpose = purpose
        self._listener: TrialListener = listener or _Silent()
        self._is_interrupted = is_interrupted
        self._say = say
        self._has_told_reset = False
        self._entry: Entry | None = None
        self._is_changed = False

    def __enter__(self) -> Self:
        self._entry = self._journal.begin(self._target.snapshot(), study=self._study, purpose=self._purpose)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.restore()
        self._opened.close("restored")
        self._clean_up()

    def _clean_up(self) -> None:
        """What runs have left on the server goes; the target itself is restored already, so a failure is told, not raised."""
        if not self._has_told_reset or not isinstance(self._workload, ResettableWorkload):
            return
        try:
            self._workload.clean_up(self._target.endpoint())
        except TrimtabError as error:
            self._say(f"the data of the last run is still on the server: {error.message}")

    @property
    def _opened(self) -> Entry:
        if self._entry is None:
            raise RuntimeError("TrialRoom is used outside its with block")
        return self._entry

    @property
    def snapshot(self) -> Snapshot:
        """The target as found."""
        return self._opened.snapshot

    def use(self, workload: Workload) -> None:
        """The trials from here on run `workload`: the same data, for instance at another rate."""
        self._workload = workload

    def restore(self) -> float:
        """Puts the target back as it was found; seconds it took. Does nothing when nothing is changed."""
        if not self._is_changed:
            return 0.0
        started = time.monotonic()
        self._listener.step("restore")
        self._opened.note("restore")
        self._target.restore(self._opened.snapshot)
        self._is_changed = False
        self._opened.note("restored")
        return time.monotonic() - started

    def run(
        self,
        config: Config,
        *,
        number: int,
        role: Role,
        plan: MeasurePlan,
        seed: int,
        early_stop: EarlyStop | None = None,
        hand_over: bool = False,
        searcher: str = "",
    ) -> Trial:
        """One trial of `config`; never raises for what the config did (that is a status), only for what nobody could foresee.

        Raises:
            Interrupted: the user asked to stop.
            TargetError: the target cannot be restored, or is gone with its own config.
            LoadError: the load cannot be started although the target is well (after retries).
        """
        started_at = time.time()
        costs = _Costs()

        def ended(status: Status, reason: str = "", *, effective: Mapping[str, Value] | None = None,
                  measurement: Measurement | None = None) -> Trial:  # fmt: skip
            excess = self._objective.excess(measurement) if measurement is not None else 0.0
            return Trial(
                number=number,
                role=role,
                config=config,
                context=self._workload.context,
                status=status,
                effective=effective or {},
                reason=reason,
                measurement=measurement,
                excess=excess,
                cost_s=dict(costs.seconds),
                started_at=started_at,
                searcher=searcher,
            )

        refused = self._check(self._changes(config), config, costs)
        if refused is not None:
            return ended(*refused)
        try:
            effective = self._apply(config, number, costs)
        except ApplyError as error:
            costs.add("restore", self.restore())
            return ended(Status.CRASHED, _with_log(error.message, error.log_excerpt))
        status, reason, result = self._load(plan, seed, early_stop, costs)
        if not (hand_over and status.is_measured):
            costs.add("restore", self.restore())
        measurement = result.measurement if result is not None and status.is_measured else None
        return ended(status, reason, effective=effective, measurement=measurement)

    def _changes(self, config: Config) -> Config:
        return Config({name: config[name] for name in config.difference(self._baseline)})

    def _check(self, changes: Config, config: Config, costs: _Costs) -> tuple[Status, str] | None:
        """Everything that can be known without touching the target. The baseline runs already: it needs no permission."""
        if not changes:
            return None
        self._listener.step("check")
        started = time.monotonic()
        try:
            violations = self._space.violations(config)
            if violations:
                return Status.INFEASIBLE, "; ".join(violations)
            self._target.preflight(changes)
        except ApplyError as error:
            return Status.REJECTED, error.message
        finally:
            costs.add("preflight", time.monotonic() - started)
        return None

    def _apply(self, config: Config, number: int, costs: _Costs) -> Mapping[str, Value]:
        self._listener.step("apply")
        self._opened.note("apply", {"trial": number, "changes": dict(self._changes(config))})
        self._is_changed = True
        started = time.monotonic()
        try:
            return dict(self._target.apply(self._changes(config)).effective)
        finally:
            costs.add("apply", time.monotonic() - started)

    def _load(
        self, plan: MeasurePlan, seed: int, early_stop: EarlyStop | None, costs: _Costs
    ) -> tuple[Status, str, LoadResult | None]:
        """Runs the load, retrying what is nobody's fault; restores before it raises."""
        n_failed = n_invalid = 0
        while True:
            started = time.monotonic()
            try:
                self._reset(costs)
                started = time.monotonic()
                self._listener.step("load")
                result = self._measure(plan, seed, early_stop)
            except (LoadError, ConnectionError) as error:
                costs.add("failed", time.monotonic() - started)
                fault = self._sickness()
                if fault is not None:
                    return Status.CRASHED, fault, None
                n_failed += 1
                if n_failed <= _MAX_INFRASTRUCTURE_RETRIES:
                    continue
                self.restore()
                raise LoadError(f"the load cannot be run although the target is well: {error}") from error
            except BaseException:
                self.restore()
                raise
            if result.end is End.INTERRUPTED:
                self.restore()
                raise Interrupted
            status, reason = self._judge(result, plan)
            elapsed = time.monotonic() - started
            if status is Status.INFRASTRUCTURE and n_invalid < _MAX_INVALID_RETRIES:
                n_invalid += 1
                costs.add("failed", elapsed)
                continue
            costs.add("warmup", result.warmup_s)
            costs.add("measure", result.measure_s)
            costs.add("other", max(0.0, elapsed - result.warmup_s - result.measure_s))
            return status, reason, result

    def _reset(self, costs: _Costs) -> None:
        """The same start state for every run of a workload that writes."""
        if not isinstance(self._workload, ResettableWorkload):
            return
        started = time.monotonic()
        state = self._workload.reset(self._target.endpoint(), self._say)
        if state is None:
            return
        costs.add("reset", time.monotonic() - started)
        if not self._has_told_reset:
            self._has_told_reset = True
            self._say(_reset_text(state))

    def _measure(self, plan: MeasurePlan, seed: int, early_stop: EarlyStop | None) -> LoadResult:
        return measure_load(
            self._workload,
            self._target.endpoint(),
            plan,
            seed=seed,
            early_stop=early_stop,
            is_interrupted=self._is_interrupted,
            on_frame=self._listener.second,
        )

    def _sickness(self) -> str | None:
        """The target's own words when it is not well, None when it is."""
        try:
            self._target.health()
        except TargetError as error:
            return _with_log(error.message, self._target.log_excerpt())
        return None

    def _judge(self, result: LoadResult, plan: MeasurePlan) -> tuple[Status, str]:
        """Whether what was measured may be believed."""
        fault = self._sickness()
        if fault is not None:
            return Status.CRASHED, fault
        status, reason = judge(result, plan, self._objective)
        if status is Status.FAILED_LOAD and "connect" in result.error_classes:
            # The server is back by now, but it had thrown its clients out: its own words say why.
            reason = _with_log(reason, self._target.log_excerpt())
        return status, reason


def _reset_text(state: StartState) -> str:
    note = f" ({state.note})" if state.note else ""
    return f"every run starts from the same data: {state.method}, {format_duration(state.duration_s)} before each run{note}"


def _with_log(message: str, log_excerpt: str) -> str:
    return f"{message}\n{log_excerpt}" if log_excerpt else message
