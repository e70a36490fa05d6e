"""How a study begins, whatever it is for: its history, its record, the baseline it stands on, and a polite first signal."""

from __future__ import annotations

import hashlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Protocol, TypeVar

from trimtab.errors import HistoryError, TrimtabError, UsageError
from trimtab.flow import Budget, Scorer, Steps, Study, Task
from trimtab.flow.baseline import N_BASELINE_FIRST
from trimtab.history import History, RefusedError, StudyRecord, host_of, space_to_json
from trimtab.records import Objective, StopKind, Trial
from trimtab.study.as_begun import ADVICE
from trimtab.study.drive import Recorded, drive, room_measure
from trimtab.study.file import StudyFile, guarding_of, plan_of
from trimtab.study.kept import kept_settings
from trimtab.study.now import RunListener, shown_now
from trimtab.study.stage import Stage
from trimtab.study.unchanged import require_unchanged
from trimtab.trial import Interrupted, TrialRoom
from trimtab.trial.signals import leave_lost_terminal
from trimtab.units import format_duration
from trimtab.workload import CountingWorkload, CycledWorkload, Workload, arrivals_s

__all__ = [
    "TuneListener",
    "fingerprints_of",
    "first_budget",
    "first_signal_is_polite",
    "new_record",
    "not_left_running",
    "open_room",
    "require_enough_time",
    "require_metrics",
    "require_same_baseline",
    "run_flow",
]

T = TypeVar("T")


class TuneListener(RunListener, Protocol):
    """Who wants to see everything."""

    def study_started(self, name: str, budget_s: float | None) -> None: ...


@contextmanager
def first_signal_is_polite() -> Iterator[Callable[[], bool]]:
    """While inside, the first Ctrl-C, SIGTERM or SIGHUP only sets a flag; a second Ctrl-C or SIGTERM raises KeyboardInterrupt.

    A terminal that is closed sends SIGHUP more than once. Where it is ignored (nohup), it stays so.
    """
    asked = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        leave_lost_terminal()
        if asked.is_set() and number != signal.SIGHUP:
            raise KeyboardInterrupt
        asked.set()

    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, on_signal) for number in numbers}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def fingerprints_of(file: StudyFile, workload: Workload) -> tuple[str, str]:
    """Of everything that must agree for a resume: the file, and what the workload has read from files of its own.

    A study that is begun has the first; one that an earlier version has begun may have the second (see `StudyFile`).
    """
    first, earlier = (
        hashlib.sha256(f"{each} {workload.context.workload}".encode()).hexdigest()[:16]
        for each in (file.fingerprint, file.earlier_fingerprint)
    )
    return first, earlier


def require_enough_time(file: StudyFile, workload: Workload) -> None:
    """Raises UsageError when the budget ends before a baseline, one config and its proof can be measured in every context.

    By the shortest that runs can be, on a server that is warm after the first under each context; what it takes to restart comes
    on top.
    """
    n_contexts = len(workload.cycle.contexts) if isinstance(workload, CycledWorkload) else 1
    seconds, coming_s = file.budget.seconds, arrivals_s(workload)
    plan = plan_of(file, compiles=True, arrivals_s=coming_s)
    n_runs = (N_BASELINE_FIRST + 1 + 2 * file.proof.min_pairs) * n_contexts
    warm_s = plan.warm(coming_s).warmup_floor_s
    needed_s = n_contexts * plan.warmup_floor_s + (n_runs - n_contexts) * warm_s + n_runs * plan.window_s
    if seconds is not None and seconds < needed_s:
        raise UsageError(
            f"budget={file.budget} is too short: {N_BASELINE_FIRST} runs of the baseline, one config and its proof"
            f"{f' in each of {n_contexts} contexts' if n_contexts > 1 else ''} take at least {format_duration(needed_s)}",
            hint=f"give it more time (a hundred runs are better than ten), or shorten [measure] window={file.measure.window!r}",
        )


def require_metrics(stage: Stage) -> None:
    """Raises UsageError when the workload cannot measure on this server what the study's objective needs; LoadError when the
    server does not answer."""
    if isinstance(stage.workload, CountingWorkload):
        stage.objective.require_known(stage.workload.metrics(stage.stack.endpoint()))


def new_record(
    history: History,
    stage: Stage,
    fingerprint: str,
    *,
    name: str | None = None,
    status: str = "running",
    objective: Objective | None = None,
) -> StudyRecord:
    """A new study in the history, of what the stage shows; name and objective are those of its file unless they are given."""
    return history.create_study(
        name=name or stage.file.study.name,
        settings={**kept_settings(stage.file, stage.workload), ADVICE: dict(stage.advice)},
        space=space_to_json(stage.space),
        objective=str(objective or stage.objective),
        baseline=stage.baseline,
        machine=replace(stage.machine, hostname=host_of(stage.machine)),
        context=stage.workload.context,
        fingerprint=fingerprint,
        created_at=time.time(),
        status=status,
    )


@contextmanager
def not_left_running(history: History, record: StudyRecord, *, again: bool = False) -> Iterator[None]:
    """A study is run by one process at a time; one that an error or a second Ctrl-C ends is "interrupted": it does not count as
    running, and can be resumed. By the same command, which is said to whoever stops it, unless that asks to begin `again`. What
    it has proven by then, or when it was stopped before, stays so.

    Raises:
        HistoryError: another process, perhaps on another machine, runs it; its status is left alone.
        Interrupted: somebody asked a second time to stop (a KeyboardInterrupt inside).
    """
    if not history.hold(record.id):
        raise HistoryError(
            f"another process runs study={record.name!r}, perhaps on another machine that shares this history",
            hint="end that one, or give this study another name",
        )
    try:
        yield
    except RefusedError:  # somebody else has written its trials, and may still run it
        raise
    except BaseException as error:
        with suppress(HistoryError):
            _leave(history, record, error)
        if not isinstance(error, Interrupted | KeyboardInterrupt):
            raise
        # One signal more may have cut off the way back: that is for the dead-man then, or for `trimtab recover`.
        sure = "`trimtab recover` makes sure that nothing is left changed"
        asked = error if isinstance(error, Interrupted) else Interrupted(hint=sure)
        if not again:
            asked.hint = f"{asked.hint}; the same command resumes"
        raise asked from None
    finally:
        history.let_go(record.id)


def _leave(history: History, record: StudyRecord, error: BaseException) -> None:
    """Notes that `error` ends the study, which the same command goes on with; a winner that was proven by then is its result
    until then, which the error's hint says."""
    now = history.study(record.id)
    if now.status != "running":
        return
    if not now.verdict.is_better:
        history.update_study(record.id, status="interrupted")
        return
    why = Interrupted().message if isinstance(error, KeyboardInterrupt) else type(error).__name__
    reason = error.message if isinstance(error, TrimtabError) else why
    stopped = replace(now.verdict, stop_reason=reason, stop_kind=StopKind.ASKED)
    history.update_study(record.id, status="proven", verdict=now.verdict if now.verdict.is_stopped else stopped)
    if isinstance(error, TrimtabError):
        told = f"its winner was proven before that: see `trimtab report {record.name}`"
        error.hint = "; ".join(filter(None, (error.hint, told)))


def require_same_baseline(record: StudyRecord, stage: Stage) -> None:
    """Raises HistoryError when the server's running config is not the one that the study began with."""
    left = sorted(set(record.baseline) - set(stage.baseline))
    if left:
        raise HistoryError(
            f"study={record.name!r} tunes {', '.join(left)}, which the study file or the server of now leaves out",
            hint="trials of two spaces cannot be mixed: start again with --again",
        )
    changed = record.baseline.difference(stage.baseline)
    if changed:
        shown = ", ".join(f"{name}={stage.baseline.get(name)!r}" for name in changed[:3])
        winner = record.baseline.replace(record.verdict.config)
        if record.verdict.is_better and not winner.difference(stage.baseline):
            raise HistoryError(
                f"study={record.name!r} was stopped before its end, and its winner is applied now: {shown}",
                hint=f"`trimtab rollback {record.name}` takes it back, and then the study goes on; or start again with --again",
            )
        raise HistoryError(
            f"the server's running config has changed since study={record.name!r} began: {shown}",
            hint="trials of two baselines cannot be mixed: start again with --again",
        )


def first_budget(stage: Stage, record: StudyRecord) -> Budget:
    """The budget with which the study began: how many plays it tried, and what its search expected, are of that."""
    return Budget.parse(record.settings.get("study", {}).get("budget", stage.file.study.budget))


@contextmanager
def open_room(
    stage: Stage,
    state_dir: Path,
    name: str,
    listener: RunListener,
    is_interrupted: Callable[[], bool],
) -> Iterator[TrialRoom]:
    """Where the trials of the study `name` are made; the target is as it was found when this is left."""
    with TrialRoom(
        stage.stack,
        stage.workload,
        stage.space,
        stage.baseline,
        objective=stage.objective,
        state_dir=state_dir,
        study=name,
        listener=listener,
        is_interrupted=is_interrupted,
        guarding=guarding_of(stage.file, state_dir),
        say=listener.phase,
    ) as room:
        yield room


def _cause(stage: Stage, record: StudyRecord) -> str:
    """Why trials on record may not fit: with more time, say, the search goes on where its leaders were measured again."""
    is_same = first_budget(stage, record) == stage.file.budget
    return f"{'' if is_same else 'another budget, or '}another version of Trimtab?"


def run_flow(
    stage: Stage,
    task: Task,
    flow: Callable[[Scorer], Steps[T]],
    history: History,
    record: StudyRecord,
    state_dir: Path,
    listener: RunListener,
    is_interrupted: Callable[[], bool],
) -> tuple[T, list[Trial]]:
    """Drives `flow` to its end on the stage; what it returns, and all trials of the study. Then the target is as it was found.

    Args:
        stage: its data is prepared.
        task, flow: see `Study`.
        history: holds what is known of the study `record`, and is given every trial.
        record: the study.
        state_dir: journal.
        listener: told of everything.
        is_interrupted: asked before every trial, and every second while one runs.

    Raises:
        ForeignChangeError: somebody else has changed the target, before or meanwhile.
    """
    known = history.trials(record.id)
    recorded = Recorded(known, listener.phase, cause=_cause(stage, record))
    require_unchanged(stage)
    with (
        shown_now(state_dir, record, listener, is_interrupted) as (listener, is_interrupted),
        open_room(stage, state_dir, record.name, listener, is_interrupted) as room,
    ):
        room.generator.recall(known)
        room.use(stage.workload)
        study = Study(task, flow, say=listener.phase, numbers_from=recorded.next_number)
        result = drive(
            study,
            room_measure(room, study.scorer, stage, listener),
            recorded=recorded,
            keep=lambda trial: history.add_trial(record.id, trial),
            listener=listener,
            is_interrupted=is_interrupted,
        )
        listener.phase("restoring the target")
    return result, study.scorer.trials
