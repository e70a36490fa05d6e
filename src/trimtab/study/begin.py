"""How a study begins, whatever it is for: its history, its record, the baseline it stands on, and a polite first signal."""

from __future__ import annotations

import hashlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Protocol

from trimtab.errors import HistoryError, LoadError, UsageError
from trimtab.history import History, StudyRecord, space_to_json
from trimtab.records import Role, Status
from trimtab.space import Config
from trimtab.study.evaluate import Evaluator, StudyListener
from trimtab.study.file import StudyFile, guarding_of, plan_of
from trimtab.study.kept import kept_settings
from trimtab.study.stage import Stage
from trimtab.trial import TrialListener, TrialRoom
from trimtab.units import format_duration
from trimtab.workload import Workload

__all__ = [
    "TuneListener",
    "fingerprint_of",
    "first_signal_is_polite",
    "measure_baseline",
    "new_record",
    "open_evaluator",
    "require_enough_time",
    "require_same_baseline",
]

N_BASELINE_FIRST = 3
"""Baseline runs before anything else: the machine's noise floor (an A/A test) comes from them."""


class TuneListener(StudyListener, TrialListener, Protocol):
    """Who wants to see everything."""

    def study_started(self, name: str, budget_s: float | None) -> None: ...


@contextmanager
def first_signal_is_polite() -> Iterator[Callable[[], bool]]:
    """While inside, the first Ctrl-C or SIGTERM only sets a flag; the second raises KeyboardInterrupt as usual."""
    asked = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def fingerprint_of(file: StudyFile, workload: Workload) -> str:
    """Of everything that must agree for a resume: the file, and what the workload has read from files of its own."""
    return hashlib.sha256(f"{file.fingerprint} {workload.context.workload}".encode()).hexdigest()[:16]


def require_enough_time(file: StudyFile) -> None:
    """Raises UsageError when the budget ends before a baseline, one config and its proof can be measured.

    By the shortest that runs can be; what a server takes to restart comes on top.
    """
    seconds, plan = file.budget.seconds, plan_of(file)
    n_runs = N_BASELINE_FIRST + 1 + 2 * file.proof.min_pairs
    needed_s = n_runs * (plan.warmup_floor_s + plan.window_s)
    if seconds is not None and seconds < needed_s:
        raise UsageError(
            f"budget={file.budget} is too short: {N_BASELINE_FIRST} runs of the baseline, one config and its proof take at least "
            f"{format_duration(needed_s)}",
            hint=f"give it more time (a hundred runs are better than ten), or shorten [measure] window={file.measure.window!r}",
        )


def new_record(history: History, stage: Stage, fingerprint: str, *, name: str | None = None) -> StudyRecord:
    """A new study in the history, of what the stage shows; named as in its file unless `name` is given."""
    return history.create_study(
        name=name or stage.file.study.name,
        settings=kept_settings(stage.file, stage.workload),
        space=space_to_json(stage.space),
        objective=str(stage.objective),
        baseline=stage.baseline,
        machine=stage.machine,
        context=stage.workload.context,
        fingerprint=fingerprint,
        created_at=time.time(),
    )


def require_same_baseline(record: StudyRecord, stage: Stage) -> None:
    """Raises HistoryError when the server's running config is not the one that the study began with."""
    changed = record.baseline.difference(stage.baseline)
    if changed:
        shown = ", ".join(f"{name}={stage.baseline.get(name)!r}" for name in changed[:3])
        raise HistoryError(
            f"the server's running config has changed since study={record.name!r} began: {shown}",
            hint="trials of two baselines cannot be mixed: start again with --again",
        )


@contextmanager
def open_evaluator(
    stage: Stage,
    history: History,
    record: StudyRecord,
    state_dir: Path,
    listener: TuneListener,
    is_interrupted: Callable[[], bool],
) -> Iterator[Evaluator]:
    """Answers from the record first and measures on; the target is as it was found when this is left."""
    with TrialRoom(
        stage.target,
        stage.workload,
        stage.space,
        stage.baseline,
        objective=stage.objective,
        state_dir=state_dir,
        study=record.name,
        listener=listener,
        is_interrupted=is_interrupted,
        guarding=guarding_of(stage.file, state_dir),
        say=listener.phase,
    ) as room:
        yield Evaluator(stage, room, history, record.id, recorded=history.trials(record.id), listener=listener)


def measure_baseline(evaluator: Evaluator, baseline: Config) -> None:
    """The runs of the baseline that every study begins with.

    Raises:
        LoadError: the workload cannot be measured on the server as it is.
    """
    for _ in range(N_BASELINE_FIRST):
        trial = evaluator.measure(baseline, Role.BASELINE)
        if trial.status is not Status.OK:
            is_ours = trial.status is Status.INFRASTRUCTURE
            raise LoadError(
                f"the baseline itself cannot be measured: {trial.status}: {trial.reason}",
                hint="lower the load, or give the generator free cores or real-time priority; `trimtab bench` shows it"
                if is_ours
                else "make the workload run on the server as it is; `trimtab bench` shows it",
            )
