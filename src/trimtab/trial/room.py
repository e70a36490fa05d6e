"""TrialRoom: one trial, check → journal → apply → reset → warm up → measure → restore; the only place through which the world
changes while a study runs.

    with TrialRoom(stack, workload, space, baseline, ...) as room:       # journals the targets as found
        trial = room.run(config, number=0, role=Role.BASELINE)
    # here they are as they were found, whatever happened

A successful trial may hand the targets over to the next one (`hand_over=True`): the next apply then changes one config
into the other with one restart in place of two. A failed one is undone at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

import scipy.special  # noqa: F401 - the measuring modules' own, loaded now: in the middle of a run it would take CPU from it

from trimtab.errors import ApplyError, ForeignChangeError, GeneratorError, LoadError, RestoreError, TargetError
from trimtab.measure import EarlyStop
from trimtab.records import Fault, Objective, Role, Status, Trial
from trimtab.space import Config, Space, Value
from trimtab.systems import MemoryModel, Stack, Step, Undone
from trimtab.trial.change import Changed, Goal, change, put_back, step_detail
from trimtab.trial.counting import complete, versions_of
from trimtab.trial.deadman import DeadMan, relieved
from trimtab.trial.draft import Draft
from trimtab.trial.entry import FAILED, Entry
from trimtab.trial.follow import settle
from trimtab.trial.forensics import Diagnosis, Sentinel, cleared, retried, stuck, told, with_log
from trimtab.trial.generator import Generator
from trimtab.trial.guard import GuardLimits
from trimtab.trial.guarding import Guarding
from trimtab.trial.journal import Journal
from trimtab.trial.judge import is_worth_another_run, judge
from trimtab.trial.listener import Costs, Silent, TrialListener
from trimtab.trial.load import End, LoadResult, MeasurePlan
from trimtab.trial.pause import unless_paused
from trimtab.trial.runs import LoadOrder, Runs
from trimtab.trial.signals import signals_wait
from trimtab.trial.stolen import StolenTime
from trimtab.trial.stop import Interrupted
from trimtab.workload import Workload

__all__ = ["Interrupted", "TrialListener", "TrialRoom"]

_MAX_INFRASTRUCTURE_RETRIES = 2
_MAX_INVALID_RETRIES = 1
"""Of a run that measured the generator: a busy moment passes, a generator that is too small stays so."""


class TrialRoom:
    """Runs trials on a stack; restores it when left.

    Args:
        stack: open and locked by the caller.
        workload: prepared by the caller.
        space: of the study.
        baseline: running values of the space's knobs; what equals them is not set, so that it stays as it was found.
        objective: for the constraints that a measurement must meet.
        state_dir, study: where the journal lives, and its name there.
        purpose: "tune" or "bench".
        listener: told of steps and seconds.
        is_interrupted: asked every second.
        guarding: what trials may do to the target; the default limits, and STATE/stop as kill switch, when None.
        say: told once how every trial gets the same start state, and of what else people should know.
    """

    def __init__(
        self,
        stack: Stack,
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
        guarding: Guarding | None = None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._stack = stack
        self._workload = workload
        self._space = space
        self._baseline = baseline
        self._objective = objective
        self._journal = Journal(state_dir)
        self._study = study
        self._purpose = purpose
        self._listener: TrialListener = listener or Silent()
        self.guarding = guarding or Guarding(GuardLimits(), state_dir / "stop")
        self._say = say
        self.generator = Generator(say)
        self._entry: Entry | None = None
        self._deadman: DeadMan | None = None
        self._is_changed = self._has_failed = self._is_stuck = self._is_restarted = False
        self._runs = Runs(stack, self.guarding, listener=self._listener, is_interrupted=is_interrupted, say=say)
        self._stolen = StolenTime(say, self._runs.is_over)
        self._sentinel = Sentinel(stack)
        self._set = Config({})
        """What is set over the values as found, when nothing has failed since."""
        self._models: Mapping[str, MemoryModel] = {}
        self._outcome = "restored"

    def __enter__(self) -> Self:
        self._models = self._stack.models(self._workload.context)
        self._entry = self._journal.begin(*self._stack.snapshots(), study=self._study, purpose=self._purpose)
        try:
            self._deadman = DeadMan.start(self._entry)
            self._runs.begin(self._entry, self._workload)
        except BaseException:
            self._entry.close("nothing was changed")
            if self._deadman is not None:
                self._deadman.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with relieved(self._guard, self._opened), signals_wait():
            foreign: ForeignChangeError | None = None
            try:
                with self._runs.cleaned_up(self._workload):
                    self.restore()
            except ForeignChangeError as found:  # what is ours is taken back all the same, where that is safe
                foreign = found
            if not (self._is_changed or self._is_stuck):
                self._opened.close(self._outcome)
            if foreign is not None:
                raise foreign

    @property
    def _opened(self) -> Entry:
        if self._entry is None:
            raise RuntimeError("TrialRoom is used outside its with block")
        return self._entry

    @property
    def _guard(self) -> DeadMan:
        if self._deadman is None:
            raise RuntimeError("TrialRoom is used outside its with block")
        return self._deadman

    def use(self, workload: Workload) -> None:
        """The trials from here on run `workload`: the same data, for instance at another rate."""
        self._workload = self.generator.sized(workload)

    def restore(self) -> float:
        """Puts the target back as it was found; seconds it took. Does nothing when nothing is changed.

        Raises:
            ForeignChangeError: somebody else changed it meanwhile: only what is still ours was taken back.
        """
        self._resync()
        if not self._is_changed:
            return 0.0
        started = time.monotonic()
        self._runs.warmth.lost()
        self._listener.step("restore")
        try:
            self._sentinel.look()
        except ForeignChangeError as error:
            raise self._withdrawn(error) from error
        self._opened.note_if_possible("restore")
        try:
            done = self._take_back()
        except RestoreError as error:
            self._opened.note_if_possible(FAILED, {"error": error.message})
            if self._has_failed:
                raise cleared(error) from error
            raise
        if done.left:
            self._outcome = done.text
            raise ForeignChangeError(
                f"somebody else changed the target: {done.text}", hint="start again when it is settled"
            )
        return time.monotonic() - started

    def _take_back(self) -> Undone:
        """The one way back; afterwards nothing is ours."""
        done = self._guard.guard(lambda: put_back(self._stack, self._opened), even_alone=True)
        self._is_changed = False
        self._set = Config({})
        self._is_restarted = self._is_restarted or done.restarted
        return done

    def _resync(self) -> None:
        """After the dead-man has put the target back under a tuner that stood still: the target learns that it is as found.

        It may have been restarted for that.
        """
        if self._guard.has_fired():
            self._runs.warmth.lost()
            self._take_back()
            self._is_restarted = True

    def _withdrawn(self, error: ForeignChangeError) -> ForeignChangeError:
        """Takes back what is ours of a target that somebody else has changed; the error with what became of it."""
        if not self._is_changed:
            return error
        self._opened.note_if_possible("withdraw")
        try:
            done = self._take_back()
        except RestoreError as trouble:
            self._is_changed, self._is_stuck = False, True
            self._opened.note_if_possible(FAILED, {"error": trouble.message})
            return stuck(error, trouble)
        self._outcome = f"withdrawn; left: {'; '.join(done.left) or 'nothing'}"
        return told(error, done)

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
            ForeignChangeError: somebody else changed the target; what is ours was taken back where that is safe.
        """

        order = LoadOrder(plan=plan, seed=seed, early_stop=early_stop, is_baseline=not self._changes(config))

        def once() -> Trial:
            context = self._workload.context
            draft = Draft(number=number, role=role, config=config, context=context, searcher=searcher)
            trial = self._run_once(draft, order, hand_over)
            return replace(trial, seed=seed, versions=versions_of(self._workload))

        try:
            return retried(lambda: unless_paused(self._guard, once, resync=self._resync, say=self._say), self._say)
        except ForeignChangeError as error:
            raise self._withdrawn(error) from error

    def _run_once(self, draft: Draft, order: LoadOrder, hand_over: bool) -> Trial:
        self._settle(draft.costs)
        self._runs.stop_if_asked()
        refused = self._check(draft)
        if refused is not None:
            return draft.ended(*refused)
        try:
            effective = self._apply(draft)
        except ApplyError as error:
            found = self._sentinel.refused(error)
            draft.costs.add("restore", self._control())
            return draft.ended(found.status, found.reason, found.fault)
        found, result = self._load(order, draft.costs)
        return self._concluded(draft, effective, found, result, hand_over)

    def _settle(self, costs: Costs) -> None:
        """Waits for tiers that a way back has made wait; not before somebody asks for a trial, who may also ask to stop."""
        if self._is_restarted:
            started = time.monotonic()
            settle(self._stack, self._runs.is_over)
            costs.add("restore", time.monotonic() - started)
            self._is_restarted = False

    def _concluded(
        self, draft: Draft, effective: Mapping[str, Value], found: Diagnosis, result: LoadResult | None, hand_over: bool
    ) -> Trial:
        """What a load run and the look at the target after it make of a trial; restores unless the target is handed over."""
        status = found.status
        breach = result.breach if result is not None else None
        if breach is not None or not (hand_over and status.is_measured):
            draft.costs.add("restore", self.restore() if status.is_measured else self._control())
        measurement = result.measurement if result is not None and status.is_measured else None
        excess = self._objective.excess(measurement) if measurement is not None else 0.0
        if breach is not None and breach.metric != self._objective.metric:
            # What the objective does not see must not look like a good config to the searcher.
            excess += breach.excess
        trial = draft.ended(
            status, found.reason, found.fault, effective=effective, measurement=measurement, excess=excess
        )
        return complete(trial, result)

    def _control(self) -> float:
        """Restores after a failure; a target that does not run with its last good config either clears the one tried."""
        self._has_failed = True
        self._runs.warmth.lost()
        seconds = self.restore()
        self._has_failed = False
        return seconds

    def _look(self, costs: Costs) -> tuple[Status, str, Fault] | None:
        """What stands in the way of a trial; a target that somebody has stopped since the last one is brought up, which the trial
        pays for."""
        started = time.monotonic()
        try:
            found = self._sentinel.before(self._runs.warmth.lost)
        except ForeignChangeError:
            raise
        except TargetError as error:
            self._say(f"the target does not answer between two trials: {error.message}; it is restored")
            self._is_changed = True
            self._control()
            found = self._sentinel.before(self._runs.warmth.lost)
            costs.add("other", time.monotonic() - started)
        return None if found is None else (Status.INFRASTRUCTURE, found.text, found.fault)

    def _changes(self, config: Config) -> Config:
        return Config({name: config[name] for name in config.difference(self._baseline)})

    def _check(self, draft: Draft) -> tuple[Status, str, Fault] | None:
        """Everything that can be known without touching the target. The baseline runs already: it needs no permission."""
        changes = self._changes(draft.config)
        if (disturbed := self._look(draft.costs)) is not None or not changes:
            return disturbed
        self._listener.step("check")
        started = time.monotonic()
        try:
            violations = self._space.violations(draft.config)
            if violations:
                return Status.INFEASIBLE, "; ".join(violations), Fault.CONFIG
            if full := self.guarding.shortage(self._stack):
                return Status.INFRASTRUCTURE, full, Fault.RESOURCE
            self._stack.preflight(changes)
        except ApplyError as error:
            fault = Fault(error.fault or Fault.CONFIG)
            return (Status.REJECTED if fault is Fault.CONFIG else Status.INFRASTRUCTURE), error.message, fault
        except TargetError as error:
            return Status.INFRASTRUCTURE, error.message, Fault.ENVIRONMENT
        finally:
            draft.costs.add("preflight", time.monotonic() - started)
        return None

    def _apply(self, draft: Draft) -> Mapping[str, Value]:
        self._listener.step("apply")
        changes = self._changes(draft.config)
        self._guard.wait_ready()
        before: Config | None = self._set

        def once() -> Changed:
            nonlocal before
            if before is None:  # made again, it is after the dead-man has put all back
                self._runs.warmth.lost()
            goal = Goal(config=changes, now=before or Config({}), models=self._models)
            before = None
            return change(
                self._stack,
                goal,
                self._opened,
                detail=lambda step: {"trial": draft.number, **step_detail(step, self._baseline, self._space)},
                announced=self._announced,
                spent=lambda step, seconds: draft.costs.add(step.tier.full_step("apply"), seconds),
                stop_if_asked=self._runs.stop_if_asked,
            )

        try:
            done = self._guard.guard(once)
        except RestoreError:
            self._has_failed = True
            raise
        self._set = changes
        self._runs.warmth.restarted(done.restarted)
        return dict(done.effective)

    def _announced(self, step: Step) -> None:
        self._is_changed = True

    def _load(self, order: LoadOrder, costs: Costs) -> tuple[Diagnosis, LoadResult | None]:
        """Runs the load, retrying what is nobody's fault; restores before it raises, and before it blames the config."""
        n_failed = n_invalid = 0
        self._stolen.begin()
        while True:
            try:
                result, warmup = self._runs.run(self._workload, order, costs)
            except (LoadError, ConnectionError) as error:
                costs.add("failed", time.monotonic() - self._runs.begun_s)
                fault = self._sickness()
                if fault is not None:
                    return self._sentinel.examine(Status.CRASHED, fault), None
                n_failed += 1
                if n_failed <= _MAX_INFRASTRUCTURE_RETRIES:
                    continue
                return self._blamed(error, order, costs), None
            except BaseException:
                self.restore()
                raise
            if result.end is End.INTERRUPTED:
                self.restore()
                self.guarding.switch.stop_if_on()
                raise Interrupted
            status, reason = self._judge(result, order.plan)
            elapsed = time.monotonic() - self._runs.begun_s
            ran, self._workload = self._workload, self.generator.larger(self._workload, result, order.is_baseline)
            is_larger = self._workload is not ran
            is_invalid = not is_larger and is_worth_another_run(status, result) and n_invalid < _MAX_INVALID_RETRIES
            if is_larger or is_invalid or self._stolen.spoils(status, result):
                n_invalid += is_invalid
                costs.add("failed", time.monotonic() - self._runs.begun_s)
                continue
            result = replace(result, measurement=self._stolen.widened(result.measurement))
            if order.is_baseline:
                self._stolen.note_found(result.measurement)
            costs.add(warmup, result.warmup_s)
            costs.add("measure", result.measure_s)
            costs.add("other", max(0.0, elapsed - result.warmup_s - result.measure_s))
            known = result.breach.fault if result.breach is not None else Fault.NONE
            return self._sentinel.examine(status, reason, known=known), result

    def _blamed(self, error: Exception, order: LoadOrder, costs: Costs) -> Diagnosis:
        """Of a config with which the load cannot be run, and which is to blame: it runs now that the target is restored."""
        words = str(error).partition("\nhint: ")[0]
        # Before the way back: the log of another start does not tell what this config did.
        found = self._sentinel.examine(Status.FAILED_LOAD, f"{words}; with the settings as found the load runs")
        costs.add("restore", self.restore())
        if not order.is_baseline and not isinstance(error, GeneratorError):
            self._settle(costs)
            if self._runs.works(self._workload, order, costs):
                return found
        raise LoadError(f"the load cannot be run although the target is well: {error}") from error

    def _sickness(self) -> str | None:
        """The target's own words when it is not well, None when it is."""
        try:
            self._stack.health()
        except TargetError as error:
            return with_log(error.message, self._stack.log_excerpt())
        return None

    def _judge(self, result: LoadResult, plan: MeasurePlan) -> tuple[Status, str]:
        """Whether what was measured may be believed."""
        if (fault := self._sickness()) is not None:
            return Status.CRASHED, fault
        status, reason = judge(result, plan, self._objective)
        if status is Status.FAILED_LOAD and "connect" in result.error_classes:
            # The server is back by now, but it had thrown its clients out: its own words say why.
            reason = with_log(reason, self._stack.log_excerpt())
        return status, reason
