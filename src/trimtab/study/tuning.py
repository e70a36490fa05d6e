"""tune: the off-line study of a file, from the running config to a proven one (`trimtab.flow.tuning`), on its target and in
its history; at the end the target is as it was found."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from trimtab.errors import HistoryError
from trimtab.flow import Settled, Task
from trimtab.flow.cycle import cycling, searcher_of
from trimtab.flow.start import start_searcher
from trimtab.flow.tuning import tuning
from trimtab.history import History, StudyRecord, open_history_at
from trimtab.records import PrunePlan, StopKind, Trial, Verdict
from trimtab.report.explain import explain, kept_ranks
from trimtab.study.as_begun import as_begun
from trimtab.study.begin import (
    TuneListener,
    fingerprints_of,
    first_budget,
    first_signal_is_polite,
    new_record,
    not_left_running,
    require_enough_time,
    require_metrics,
    require_same_baseline,
    run_flow,
)
from trimtab.study.file import StudyFile, guarding_of
from trimtab.study.first import lost_with_power, recover_first, require_free
from trimtab.study.fragments import with_files
from trimtab.study.in_engine import keep_classes, watch_engines
from trimtab.study.known import find_known, target_host
from trimtab.study.last_budget import keep_budget, with_budget
from trimtab.study.preparing import prepared
from trimtab.study.proof_notes import proof_notes
from trimtab.study.prune_plan import check_pruning
from trimtab.study.settle import planned_passes, settle, went_on
from trimtab.study.stage import Stage, build_stack, build_workload, open_stage
from trimtab.study.task import task_of
from trimtab.study.verdict import complete_verdict, wall_of, with_commands
from trimtab.study.warm_start import check_warm_start

__all__ = ["require_search", "tune"]


def tune(
    file: StudyFile,
    state_dir: Path,
    listener: TuneListener,
    *,
    again: bool = False,
    say: Callable[[str], None] | None = None,
    on_accept: Callable[[], None] = lambda: None,
) -> tuple[StudyRecord, list[Trial]]:
    """Runs or resumes the study of `file`; what a killed Trimtab has left is taken back first.

    Args:
        file: the study.
        state_dir: journal, locks, history.
        listener: told of everything.
        again: start a new study even when the newest one of that name is finished or can be resumed, or is of another host.
        say: told of what was taken back; the listener when None.
        on_accept: called once the history holds this study, begun, resumed or finished: before that the file may be refused.

    Returns:
        The study's record with its verdict, and its trials. A finished study of the same file is returned as it is.

    Raises:
        UsageError, SpaceError, TargetError, LoadError, HistoryError: nothing is changed then, or it has been undone.
    """
    # A slip in the file must show as itself, and not as "another study" of a known name.
    folders = build_stack(file, state_dir).folders
    workload = build_workload(file)
    require_enough_time(file, workload)
    fingerprints = fingerprints_of(file, workload)
    recover_first(state_dir, say or listener.phase, folders)
    history = open_history_at(file.history, state_dir)
    try:
        found = None if again else find_known(history, file.study.name, partial(target_host, file, state_dir))
        if found is not None and found.fingerprint not in fingerprints and not history.trials(found.id):
            found = None  # nothing was measured before something in its file, or its scripts, had to be corrected
        if found is not None and found.fingerprint not in fingerprints:
            raise HistoryError(
                f"the history holds another study named {file.study.name!r} (its file, or a script of its workload, differed)",
                hint="give the study another name, or start again with --again",
            )
        if found is not None and found.status in ("proven", "no_improvement") and not found.verdict.is_stopped:
            on_accept()
            (say or listener.phase)(
                f"study {found.name} has ended before: this is its result; --again begins a new one"
            )
            return found, history.trials(found.id)
        with open_stage(file, state_dir) as stage, stage.stack.lock(f"trimtab tune {file.study.name}"):
            require_free(stage.stack, state_dir)
            require_metrics(stage)
            if found is not None:
                stage = as_begun(stage, found, say or listener.phase)
                stage = with_budget(stage, history, found, say or listener.phase)
            task = task_of(stage)
            _check_search(stage, task, history, found)  # before a record stands in the way of the corrected file
            guarding_of(file, state_dir).switch.require_off()
            record = found or new_record(history, stage, fingerprints[0])
            with not_left_running(history, record, again=again):
                require_same_baseline(record, stage)
                on_accept()
                return _run(stage, task, history, record, state_dir, listener)
    finally:
        history.close()


def _check_search(stage: Stage, task: Task, history: History, found: StudyRecord | None) -> None:
    """What can be wrong with [search], before anything is measured; `found` is what the history holds of the study."""
    check_pruning(stage, history, found)
    check_warm_start(stage, history, found)
    require_search(stage, task)


def require_search(stage: Stage, task: Task) -> None:
    """Raises UsageError when there is no such searcher, it does not take its options, or the passes do not fit the knobs."""
    own = task if task.cycle is None else searcher_of(task)
    prune = stage.file.search.prune
    plan = None if prune == "off" else PrunePlan(want=prune if isinstance(prune, int) else 0)
    start_searcher(own, None, Settled(passes=planned_passes(stage, None), prune=plan))


def _run(
    stage: Stage, task: Task, history: History, record: StudyRecord, state_dir: Path, listener: TuneListener
) -> tuple[StudyRecord, list[Trial]]:
    listener.study_started(stage.file.study.name, stage.file.budget.seconds)
    keep_budget(stage, history, record)
    history.update_study(record.id, status="running", verdict=_while_running(record.verdict))
    keep = partial(_keep_proof, history, record)
    flow = tuning(task, partial(settle, stage, history, record), keep)
    if task.cycle is not None:
        flow = cycling(task, first_budget(stage, record), went_on(history, record), keep)
    for note in (*stage.notes, *lost_with_power(stage.stack, state_dir), *proof_notes(task)):
        listener.phase(note)
    watch_engines(stage, listener.phase)
    listener.phase("preparing the data")
    prepare_s = prepared(stage, guarding_of(stage.file, state_dir).switch, state_dir, listener.phase)
    with first_signal_is_polite() as is_interrupted:
        started = time.monotonic()
        verdict, trials = run_flow(stage, task, flow, history, record, state_dir, listener, is_interrupted)
        keep_classes(stage, history, record, listener.phase)
        wall = wall_of(trials, prepare_s=prepare_s, wall_s=time.monotonic() - started)
        kept = history.study(record.id).verdict
        if verdict.is_stopped or verdict.result == "interrupted":
            verdict = _with_settled(verdict, kept)
        verdict = replace(verdict, wall_s=wall)
        if verdict.result == "interrupted" and kept.is_better:
            # What it had proven when it was stopped before, or killed, stays so.
            verdict = replace(kept, stop_reason=verdict.stop_reason, stop_kind=verdict.stop_kind)
        verdict = complete_verdict(verdict, stage)
        status = {"better": "proven", "no_improvement": "no_improvement"}.get(verdict.result, "interrupted")
        verdict = with_files(verdict, stage.stack, state_dir, record.name, listener.phase)
        history.update_study(record.id, status=status, verdict=verdict)
        if status != "interrupted" and not verdict.is_stopped:
            listener.phase("ranking the knobs")
            _keep_ranks(history, record, verdict, trials)
    return history.study(record.id), trials


def _while_running(kept: Verdict) -> Verdict:
    """The verdict of a study that runs: that of the winner which it had when it was stopped, should the process die; else what
    was settled when it began, and no outcome."""
    return kept if kept.is_better else _settled_of(kept)


def _settled_of(kept: Verdict) -> Verdict:
    return Verdict(plays=kept.plays, pruned=kept.pruned, passes=kept.passes, warm_start=kept.warm_start)


def _keep_proof(history: History, record: StudyRecord, verdict: Verdict) -> None:
    """The verdict of a winner that was just proven, should the study die before its end, or be stopped while the target is put
    back; one of the same config, of an earlier run of the study, may say more. A winner that further pairs refuse is none."""
    kept = history.study(record.id).verdict
    is_kept = kept.is_better and kept.config == verdict.config
    if verdict.is_better and not is_kept:
        so_far = replace(_with_settled(verdict, kept), stop_reason="", stop_kind=StopKind.UNSAID)  # it goes on
        history.update_study(record.id, verdict=with_commands(so_far, record.name))
    elif is_kept and not verdict.is_better:
        history.update_study(record.id, verdict=_settled_of(kept))


def _with_settled(verdict: Verdict, kept: Verdict) -> Verdict:
    """What was settled before stays settled for who goes on, where the study had not come to it again."""
    return replace(
        verdict,
        pruned=verdict.pruned or kept.pruned,
        passes=verdict.passes or kept.passes,
        warm_start=verdict.warm_start or kept.warm_start,
        plays=verdict.plays or kept.plays,
    )


def _keep_ranks(history: History, record: StudyRecord, verdict: Verdict, trials: list[Trial]) -> None:
    """Which knobs explain the gain, once and for all reports: ranking takes seconds."""
    ranks = kept_ranks(explain(replace(record, verdict=verdict), trials), len(trials))
    history.update_study(record.id, verdict=replace(verdict, importance=ranks))
