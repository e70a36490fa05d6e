"""The steps of the experiment as flows that prove nothing: samples of a design, and a search. Each is a study of the history.

Both measure the baseline in turns with other configs, never twice in a row. Between two runs of one config nothing is restarted,
and the trials, each of which comes after a restart, are compared with a baseline that does, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from turns import StoppedError

from trimtab.errors import LoadError
from trimtab.flow import Effort, Scorer, Settled, Steps, Stopped, Task
from trimtab.flow.explore import explore
from trimtab.flow.pairs import believable
from trimtab.flow.start import start_searcher
from trimtab.flow.verdict import Outcome, make_verdict
from trimtab.history import History, StudyRecord, open_history_at
from trimtab.importance import make_design
from trimtab.records import Role, Status, Trial, Verdict
from trimtab.report import Progress
from trimtab.search.warm import WarmLog
from trimtab.space import Config
from trimtab.study import Stage, StudyFile, build_workload, design_name, open_stage
from trimtab.study.begin import fingerprints_of, first_signal_is_polite, new_record, require_same_baseline, run_flow
from trimtab.study.settle import settle
from trimtab.study.task import task_of

__all__ = ["sample", "sampling", "search", "searching"]

_DONE = "no proof was asked for"
"""How the reason ends for which a step is over: its winner is measured later, beside those of the others."""

Flow = Callable[[Scorer], Steps[Verdict]]
Planned = Callable[[Stage, History, StudyRecord], tuple[Task, Flow]]


def sample(file: StudyFile, n_samples: int, state: Path, progress: Progress) -> list[Trial]:
    """The trials of a Latin hypercube over the knobs of `file`, under the name by which `trimtab rank` finds them."""

    def planned(stage: Stage, history: History, record: StudyRecord) -> tuple[Task, Flow]:
        design = make_design("lhs", stage.space, stage.baseline, n_samples, file.study.seed)
        return (task := task_of(stage)), sampling(task, design.configs)

    return _made(file, design_name(file.study.name, "lhs"), f"{n_samples} samples", planned, state, progress)


def search(file: StudyFile, state: Path, progress: Progress) -> list[Trial]:
    """The trials of the search that `file` describes."""

    def planned(stage: Stage, history: History, record: StudyRecord) -> tuple[Task, Flow]:
        return (task := task_of(stage)), searching(task, partial(settle, stage, history, record))

    return _made(file, file.study.name, f"search of {file.budget}", planned, state, progress)


def sampling(task: Task, configs: Sequence[Config]) -> Flow:
    """The flow that measures `configs`, with a run of the baseline before every few of them."""

    def steps(scorer: Scorer) -> Steps[str]:
        for number, config in enumerate(configs):
            if number % task.search.baseline_every == 0:
                yield from _baseline(task)
            yield from believable(config, Role.DESIGN, Effort.QUICK)
        return f"all {len(configs)} samples are measured"

    return _unproven(task, steps)


def searching(task: Task, settled: Callable[[Scorer], Settled]) -> Flow:
    """The flow that searches from what is `settled` after one run of the baseline: the design has measured that before."""

    def steps(scorer: Scorer) -> Steps[str]:
        yield from _baseline(task)
        start, log = settled(scorer), WarmLog()
        if start.warm is not None:
            scorer.say(start.warm.describe())
        searcher = start_searcher(task, task.budget.trials, start, log)
        return (yield from explore(task, scorer, searcher, log, None)).reason

    return _unproven(task, steps)


def _unproven(task: Task, steps: Callable[[Scorer], Steps[str]]) -> Flow:
    """The flow of these steps; its verdict is that of a study that was stopped, with their reason."""

    def flow(scorer: Scorer) -> Steps[Verdict]:
        outcome = Outcome(is_interrupted=True)
        try:
            reason = yield from steps(scorer)
            outcome.stop_reason = f"{reason}; {_DONE}"
        except Stopped as stopped:
            outcome.stop_reason = stopped.message
        return make_verdict(task, scorer, outcome)

    return flow


def _baseline(task: Task) -> Steps[None]:
    trial = yield from believable(task.baseline, Role.BASELINE, Effort.QUICK)
    if trial.status is not Status.OK:
        raise LoadError(
            f"the baseline cannot be measured: status={trial.status}: {trial.reason}",
            hint="`trimtab bench` with the study file of this system shows it",
        )


def _made(file: StudyFile, name: str, what: str, planned: Planned, state: Path, progress: Progress) -> list[Trial]:
    """The trials of a step: those of the history when it is over, otherwise it is made, or goes on.

    Raises:
        StoppedError: it was stopped; the same call goes on.
    """
    fingerprint = f"{fingerprints_of(file, build_workload(file))[0]} {what}"
    with open_history_at(file.history, state) as history:
        found = history.find_study(name, is_own=True)
        if found is not None and found.fingerprint != fingerprint:
            found = None
        if found is not None and found.verdict.stop_reason.endswith(_DONE):
            return history.trials(found.id)
        with open_stage(file, state) as stage, stage.stack.lock("benchmark"):
            record = found or new_record(history, stage, fingerprint, name=name)
            require_same_baseline(record, stage)
            return _run(stage, history, record, planned, state, progress)


def _run(
    stage: Stage, history: History, record: StudyRecord, planned: Planned, state: Path, progress: Progress
) -> list[Trial]:
    task, flow = planned(stage, history, record)
    progress.study_started(record.name, None)
    progress.phase("preparing the data")
    stage.workload.prepare(stage.stack.endpoint(), progress.phase)
    with first_signal_is_polite() as is_interrupted:
        verdict, trials = run_flow(stage, task, flow, history, record, state, progress, is_interrupted)
    kept = history.study(record.id).verdict
    # What the search was settled to start from stays, so that it goes on in the same way.
    verdict = replace(verdict, warm_start=kept.warm_start, plays=kept.plays)
    history.update_study(record.id, status="interrupted", verdict=verdict)
    if not verdict.stop_reason.endswith(_DONE):
        raise StoppedError
    return trials
